import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** What waits for later is not looked through for what is due. Never edited once released: a change is a new migration. */
export const dueWebhooks: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const statements = [
  // Set when its time has come, by whoever takes: only such rows are searched for whose turn it is.
  'ALTER TABLE webhook_deliveries ADD COLUMN is_due INTEGER NOT NULL DEFAULT 0',
  'DROP INDEX webhook_deliveries_waiting',
  'DROP INDEX webhook_deliveries_due',
  `CREATE INDEX webhook_deliveries_due ON webhook_deliveries (store_id, endpoint_id)
    WHERE state = 'waiting' AND is_due = 1`,
  `CREATE INDEX webhook_deliveries_later ON webhook_deliveries (due_at_ms) WHERE state = 'waiting' AND is_due = 0`,
  // A sale looks at the endpoint of its own link and at those of its store, not at those of a thousand other links.
  'DROP INDEX webhook_endpoints_store',
  'CREATE INDEX webhook_endpoints_store ON webhook_endpoints (store_id, link_id)',
]

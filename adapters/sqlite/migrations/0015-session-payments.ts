import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Payments, purchases and events know the session that they are of. Never edited once released: a change is a new migration. */
export const sessionPayments: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const note = `INSERT INTO link_stats (link_id, changed) VALUES (NEW.link_id, 1)
  ON CONFLICT (link_id) DO UPDATE SET changed = changed + 1`

const statements = [
  // A link id that is empty stands for none: to let the columns be null, tables of millions of rows would be written anew.
  'ALTER TABLE payments ADD COLUMN session_id TEXT',
  'ALTER TABLE purchases ADD COLUMN session_id TEXT',
  'ALTER TABLE webhook_events ADD COLUMN session_id TEXT',
  ...['confirmed', 'expired'].map(
    (end) => `CREATE UNIQUE INDEX webhook_events_session_${end} ON webhook_events (session_id)
      WHERE kind = 'payment.${end}'`,
  ),
  // What is of no link makes no link popular.
  'DROP TRIGGER purchases_noted',
  'DROP TRIGGER purchases_noted_anew',
  `CREATE TRIGGER purchases_noted AFTER INSERT ON purchases WHEN NEW.link_id <> '' BEGIN ${note}; END`,
  `CREATE TRIGGER purchases_noted_anew AFTER UPDATE OF status ON purchases
    WHEN NEW.link_id <> ''
      AND (OLD.status IN ('settled', 'delivered')) <> (NEW.status IN ('settled', 'delivered'))
    BEGIN ${note}; END`,
]

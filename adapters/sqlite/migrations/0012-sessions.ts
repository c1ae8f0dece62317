import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Payment sessions. Never edited once released: a change is a new migration. */
export const sessions: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const states = ['open', 'confirmed', 'expired', 'canceled', 'failed']

const statements = [
  `CREATE TABLE payment_sessions (
    id TEXT PRIMARY KEY NOT NULL,
    store_id TEXT NOT NULL,
    link_id TEXT,
    secret_hash TEXT NOT NULL,
    price TEXT NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    success_url TEXT,
    cancel_url TEXT,
    allowed_origin TEXT,
    client_reference_id TEXT,
    metadata TEXT NOT NULL,
    idempotency_key TEXT,
    request_hash TEXT,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (${states.map((state) => `state = '${state}'`).join(' OR ')}),
    ended_at_ms INTEGER,
    payment_id INTEGER,
    failures INTEGER NOT NULL DEFAULT 0,
    purchase_id TEXT,
    tx_hash TEXT,
    network TEXT,
    buyer_wallet TEXT
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX payment_sessions_store ON payment_sessions (store_id, created_at_ms, id)',
  'CREATE INDEX payment_sessions_state ON payment_sessions (store_id, state, created_at_ms, id)',
  `CREATE INDEX payment_sessions_reference ON payment_sessions (store_id, client_reference_id, created_at_ms, id)
    WHERE client_reference_id IS NOT NULL`,
  `CREATE UNIQUE INDEX payment_sessions_idempotency ON payment_sessions (store_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL`,
  `CREATE INDEX payment_sessions_remembered ON payment_sessions (created_at_ms) WHERE idempotency_key IS NOT NULL`,
  `CREATE INDEX payment_sessions_open ON payment_sessions (expires_at_ms) WHERE state = 'open'`,
  `CREATE INDEX payment_sessions_link ON payment_sessions (link_id) WHERE state = 'open'`,
  // In the commit of the link's own change, whoever deletes it. One that is being paid for waits for its payment.
  `CREATE TRIGGER links_sessions_canceled AFTER UPDATE OF is_active ON links
    WHEN OLD.is_active = 1 AND NEW.is_active = 0 BEGIN
    UPDATE payment_sessions SET state = 'canceled', ended_at_ms = NEW.updated_at_ms
      WHERE link_id = NEW.id AND state = 'open' AND payment_id IS NULL AND expires_at_ms > NEW.updated_at_ms;
  END`,
]

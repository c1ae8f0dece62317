import { columnCheck } from './payments.ts'

/** Payment sessions. */
export const sessions = [
  `CREATE TABLE payment_sessions (
    id TEXT PRIMARY KEY NOT NULL,
    store_id TEXT NOT NULL,
    link_id TEXT,
    secret_hash TEXT NOT NULL,
    price TEXT NOT NULL, -- in USD, a decimal
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    success_url TEXT,
    cancel_url TEXT,
    allowed_origin TEXT,
    client_reference_id TEXT,
    metadata TEXT NOT NULL, -- a JSON object
    idempotency_key TEXT,
    request_hash TEXT,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (${columnCheck('state', ['open', 'confirmed', 'expired', 'canceled', 'failed'])}),
    ended_at_ms INTEGER,
    payment_id INTEGER, -- the payment that is under way or that paid
    failures INTEGER NOT NULL DEFAULT 0,
    purchase_id TEXT,
    tx_hash TEXT,
    network TEXT,
    buyer_wallet TEXT,
    payout TEXT NOT NULL, -- the store's wallets when the session was created
    asks TEXT, -- the one token that it is paid in
    is_kept INTEGER NOT NULL DEFAULT 0 -- was considered for deletion and stays
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
  // The index leaves out sessions with is_kept, because otherwise each deletion would first read all of them.
  `CREATE INDEX payment_sessions_ended ON payment_sessions (ended_at_ms)
    WHERE is_kept = 0 AND state IN ('expired', 'canceled')`,
]

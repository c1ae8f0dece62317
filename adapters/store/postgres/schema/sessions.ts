/** Payment sessions. */
export const sessions = `
  CREATE TABLE payment_sessions (
    id text COLLATE "C" PRIMARY KEY,
    store_id text COLLATE "C" NOT NULL,
    link_id text COLLATE "C",
    secret_hash text COLLATE "C" NOT NULL,
    price text COLLATE "C" NOT NULL, -- in USD, a decimal
    title text COLLATE "C" NOT NULL,
    description text COLLATE "C" NOT NULL,
    success_url text COLLATE "C",
    cancel_url text COLLATE "C",
    allowed_origin text COLLATE "C",
    client_reference_id text COLLATE "C",
    metadata text COLLATE "C" NOT NULL, -- a JSON object
    idempotency_key text COLLATE "C",
    request_hash text COLLATE "C",
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state = 'open' OR state = 'confirmed' OR state = 'expired' OR state = 'canceled' OR state = 'failed'),
    ended_at_ms bigint,
    payment_id bigint, -- the payment that is under way or that paid
    failures bigint NOT NULL DEFAULT 0,
    purchase_id text COLLATE "C",
    tx_hash text COLLATE "C",
    network text COLLATE "C",
    buyer_wallet text COLLATE "C",
    payout text COLLATE "C" NOT NULL, -- the store's wallets when the session was created
    asks text COLLATE "C", -- the one token that it is paid in
    is_kept smallint NOT NULL DEFAULT 0 -- was considered for deletion and stays
  );
  CREATE INDEX payment_sessions_ended ON payment_sessions (ended_at_ms)
    WHERE is_kept = 0 AND state IN ('expired', 'canceled');
  CREATE UNIQUE INDEX payment_sessions_idempotency ON payment_sessions (store_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
  CREATE INDEX payment_sessions_link ON payment_sessions (link_id) WHERE state = 'open';
  CREATE INDEX payment_sessions_open ON payment_sessions (expires_at_ms) WHERE state = 'open';
  CREATE INDEX payment_sessions_reference ON payment_sessions (store_id, client_reference_id, created_at_ms, id)
    WHERE client_reference_id IS NOT NULL;
  CREATE INDEX payment_sessions_remembered ON payment_sessions (created_at_ms) WHERE idempotency_key IS NOT NULL;
  CREATE INDEX payment_sessions_state ON payment_sessions (store_id, state, created_at_ms, id);
  CREATE INDEX payment_sessions_store ON payment_sessions (store_id, created_at_ms, id);
`

const salesColumns = `id bytea NOT NULL,
    link_id text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    calls bigint NOT NULL,
    amount text COLLATE "C" NOT NULL,
    PRIMARY KEY (id, link_id, at)`

/** Payment channels, with the same columns as in SQLite. */
export const channels = `
  CREATE TABLE channels (
    id bytea PRIMARY KEY CHECK (length(id) = 32),
    charged text COLLATE "C" NOT NULL,
    signed text COLLATE "C" NOT NULL,
    signature bytea,
    balance text COLLATE "C" NOT NULL,
    claimed text COLLATE "C" NOT NULL,
    pending text COLLATE "C" NOT NULL,
    withdraw_requested_at bigint NOT NULL,
    refund_nonce text COLLATE "C" NOT NULL,
    owner bigint,
    unclaimed_since_ms bigint,
    parked_until_ms bigint,
    parked_reason text COLLATE "C",
    sent_refund_nonce text COLLATE "C",
    sent_refund_amount text COLLATE "C",
    published text COLLATE "C"
  ) WITH (fillfactor = 50);
  CREATE INDEX channels_unclaimed ON channels (id) WHERE unclaimed_since_ms IS NOT NULL;
  CREATE TABLE channel_configs (
    id bytea PRIMARY KEY,
    network text COLLATE "C" NOT NULL,
    store_id text COLLATE "C" NOT NULL,
    payer text COLLATE "C" NOT NULL,
    payer_authorizer text COLLATE "C" NOT NULL,
    receiver text COLLATE "C" NOT NULL,
    receiver_authorizer text COLLATE "C" NOT NULL,
    token text COLLATE "C" NOT NULL,
    withdraw_delay bigint NOT NULL,
    salt text COLLATE "C" NOT NULL,
    opened_at_ms bigint NOT NULL,
    base text COLLATE "C" NOT NULL
  );
  CREATE INDEX channel_configs_store ON channel_configs (store_id, opened_at_ms, id);
  CREATE TABLE channel_responses (
    id bytea PRIMARY KEY,
    request_hash text COLLATE "C" NOT NULL,
    voucher_total text COLLATE "C" NOT NULL,
    charged_at_ms bigint NOT NULL,
    status bigint NOT NULL,
    headers text COLLATE "C" NOT NULL,
    media_type text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    receipt text COLLATE "C" NOT NULL
  );
  CREATE TABLE channel_sums (
    ${salesColumns}
  ) WITH (fillfactor = 50);
  CREATE TABLE channel_claims (
    id bytea PRIMARY KEY,
    amount text COLLATE "C" NOT NULL
  );
  CREATE TABLE channel_sales (
    ${salesColumns}
  );
  CREATE INDEX channel_sales_link ON channel_sales (link_id, at);
  CREATE TABLE channel_minutes (
    id bytea NOT NULL,
    link_id text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    calls bigint NOT NULL,
    amount text COLLATE "C" NOT NULL,
    PRIMARY KEY (at, id, link_id)
  );
  CREATE TABLE channel_totals (
    store_id text COLLATE "C" NOT NULL,
    network text COLLATE "C" NOT NULL,
    token text COLLATE "C" NOT NULL,
    calls bigint NOT NULL,
    charged text COLLATE "C" NOT NULL,
    claimed text COLLATE "C" NOT NULL,
    last_sale_at_ms bigint,
    PRIMARY KEY (store_id, network, token)
  );
  CREATE TABLE channel_payouts (
    store_id text COLLATE "C" NOT NULL,
    network text COLLATE "C" NOT NULL,
    receiver text COLLATE "C" NOT NULL,
    token text COLLATE "C" NOT NULL,
    due text COLLATE "C" NOT NULL,
    PRIMARY KEY (store_id, network, receiver, token)
  );
  CREATE TABLE channel_fees (
    store_id text COLLATE "C" NOT NULL,
    month text COLLATE "C" NOT NULL,
    network text COLLATE "C" NOT NULL,
    asset text COLLATE "C" NOT NULL,
    symbol text COLLATE "C" NOT NULL,
    decimals bigint NOT NULL,
    claims bigint NOT NULL,
    claimed text COLLATE "C" NOT NULL,
    fees text COLLATE "C" NOT NULL,
    PRIMARY KEY (store_id, month, network, asset, symbol, decimals)
  );
`

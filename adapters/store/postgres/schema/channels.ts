/** Payment channels, with the same columns as in SQLite. */
export const channels = `
  CREATE TABLE channels (
    id bytea PRIMARY KEY CHECK (length(id) = 32),
    charged text COLLATE "C" NOT NULL,
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
    sent_refund_amount text COLLATE "C"
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
    salt text COLLATE "C" NOT NULL
  );
  CREATE TABLE channel_responses (
    id bytea PRIMARY KEY,
    request_hash text COLLATE "C" NOT NULL,
    status bigint NOT NULL,
    headers text COLLATE "C" NOT NULL,
    media_type text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    receipt text COLLATE "C" NOT NULL
  );
  CREATE TABLE channel_sums (
    link_id text COLLATE "C" NOT NULL,
    hour bigint NOT NULL,
    network text COLLATE "C" NOT NULL,
    asset text COLLATE "C" NOT NULL,
    part bigint NOT NULL,
    store_id text COLLATE "C" NOT NULL,
    calls bigint NOT NULL,
    amount text COLLATE "C" NOT NULL,
    PRIMARY KEY (link_id, hour, network, asset, part)
  );
  CREATE INDEX channel_sums_store ON channel_sums (store_id);
  CREATE TABLE channel_claims (
    store_id text COLLATE "C" NOT NULL,
    network text COLLATE "C" NOT NULL,
    asset text COLLATE "C" NOT NULL,
    amount text COLLATE "C" NOT NULL,
    PRIMARY KEY (store_id, network, asset)
  );
`

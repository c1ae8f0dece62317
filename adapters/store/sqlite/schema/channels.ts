/** Payment channels of x402's scheme `batch-settlement`. */
export const channels = [
  // Every charged call writes this row, so it is short. Amounts are text of decimal digits, because they can exceed 64 bits.
  `CREATE TABLE channels (
    id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 32),
    charged TEXT NOT NULL,
    signature BLOB, -- of the voucher over the total that is charged; null: nothing is charged yet
    balance TEXT NOT NULL,
    claimed TEXT NOT NULL,
    pending TEXT NOT NULL, -- the payer's requested withdrawal
    withdraw_requested_at INTEGER NOT NULL, -- seconds since 1970; 0: no request
    refund_nonce TEXT NOT NULL,
    owner INTEGER, -- lease of the process that judges the channel's calls
    unclaimed_since_ms INTEGER, -- null: everything is claimed
    parked_until_ms INTEGER,
    parked_reason TEXT,
    sent_refund_nonce TEXT, -- of the last refund that was sent; null: none was, or it has failed
    sent_refund_amount TEXT
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX channels_unclaimed ON channels (id) WHERE unclaimed_since_ms IS NOT NULL',
  `CREATE TABLE channel_configs (
    id BLOB PRIMARY KEY NOT NULL,
    network TEXT NOT NULL,
    store_id TEXT NOT NULL,
    payer TEXT NOT NULL,
    payer_authorizer TEXT NOT NULL,
    receiver TEXT NOT NULL,
    receiver_authorizer TEXT NOT NULL,
    token TEXT NOT NULL,
    withdraw_delay INTEGER NOT NULL,
    salt TEXT NOT NULL
  ) STRICT, WITHOUT ROWID`,
  // The response of each channel's last call. It is sent again to the same voucher and request.
  `CREATE TABLE channel_responses (
    id BLOB PRIMARY KEY NOT NULL,
    request_hash TEXT NOT NULL,
    status INTEGER NOT NULL, -- 0: the response is not stored
    headers TEXT NOT NULL, -- a JSON list: name, value, name, value …
    media_type TEXT NOT NULL,
    body BLOB NOT NULL,
    receipt TEXT NOT NULL
  ) STRICT`,
  // Several rows an hour, so that calls of different channels rarely wait for each other's row in PostgreSQL.
  `CREATE TABLE channel_sums (
    link_id TEXT NOT NULL,
    hour INTEGER NOT NULL, -- hours since 1970
    network TEXT NOT NULL,
    asset TEXT NOT NULL,
    part INTEGER NOT NULL, -- 0 to 15, from the channel's id
    store_id TEXT NOT NULL,
    calls INTEGER NOT NULL,
    amount TEXT NOT NULL,
    PRIMARY KEY (link_id, hour, network, asset, part)
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX channel_sums_store ON channel_sums (store_id)',
  `CREATE TABLE channel_claims (
    store_id TEXT NOT NULL,
    network TEXT NOT NULL,
    asset TEXT NOT NULL,
    amount TEXT NOT NULL,
    PRIMARY KEY (store_id, network, asset)
  ) STRICT, WITHOUT ROWID`,
]

const salesColumns = `id BLOB NOT NULL, -- the channel
    link_id TEXT NOT NULL, -- empty for calls that a restored database lacks
    at INTEGER NOT NULL, -- hours since 1970
    calls INTEGER NOT NULL,
    amount TEXT NOT NULL,
    PRIMARY KEY (id, link_id, at)`

/** Payment channels of x402's scheme `batch-settlement`. */
export const channels = [
  // Every charged call writes this row, so it is short. Amounts are text of decimal digits, because they can exceed 64 bits.
  `CREATE TABLE channels (
    id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 32),
    charged TEXT NOT NULL,
    signed TEXT NOT NULL, -- total of the voucher that the claim will use, at least what is charged
    signature BLOB, -- of that voucher; null: nothing is charged yet
    balance TEXT NOT NULL,
    claimed TEXT NOT NULL,
    pending TEXT NOT NULL, -- the payer's requested withdrawal
    withdraw_requested_at INTEGER NOT NULL, -- seconds since 1970; 0: no request
    refund_nonce TEXT NOT NULL,
    owner INTEGER, -- lease of the process that judges the channel's calls
    unclaimed_since_ms INTEGER, -- or when it was claimed; null: it was claimed a while ago
    parked_until_ms INTEGER,
    parked_reason TEXT,
    sent_refund_nonce TEXT, -- of the last refund that was sent; null: none was, or it has failed
    sent_refund_amount TEXT,
    published TEXT -- total of the newest voucher that a claim has published; null: there was no claim
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
    salt TEXT NOT NULL,
    opened_at_ms INTEGER NOT NULL,
    base TEXT NOT NULL -- what was claimed in the contract before this database had the channel
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX channel_configs_store ON channel_configs (store_id, opened_at_ms, id)',
  // The response of each channel's last call. It is sent again to the same voucher and request.
  `CREATE TABLE channel_responses (
    id BLOB PRIMARY KEY NOT NULL,
    request_hash TEXT NOT NULL, -- hash of the request, and after a colon the identifier of the payment
    voucher_total TEXT NOT NULL,
    charged_at_ms INTEGER NOT NULL,
    status INTEGER NOT NULL, -- 0: the response is not stored
    headers TEXT NOT NULL, -- a JSON list: name, value, name, value …
    media_type TEXT NOT NULL,
    body BLOB NOT NULL,
    receipt TEXT NOT NULL
  ) STRICT`,
  // What is charged and not in the ledger yet. The job that books it deletes the rows, so the table is small.
  `CREATE TABLE channel_sums (
    ${salesColumns}
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE channel_claims (
    id BLOB PRIMARY KEY NOT NULL,
    amount TEXT NOT NULL -- claimed and not booked yet; negative: the block of a claim has left the chain
  ) STRICT, WITHOUT ROWID`,
  // The ledger of channels: what they were charged, for which links.
  `CREATE TABLE channel_sales (
    ${salesColumns}
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX channel_sales_link ON channel_sales (link_id, at)',
  // What the webhooks of a store are told about the minute that is not over yet.
  `CREATE TABLE channel_minutes (
    id BLOB NOT NULL,
    link_id TEXT NOT NULL,
    at INTEGER NOT NULL, -- minutes since 1970
    calls INTEGER NOT NULL,
    amount TEXT NOT NULL,
    PRIMARY KEY (at, id, link_id)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE channel_totals (
    store_id TEXT NOT NULL,
    network TEXT NOT NULL,
    token TEXT NOT NULL,
    calls INTEGER NOT NULL,
    charged TEXT NOT NULL,
    claimed TEXT NOT NULL,
    last_sale_at_ms INTEGER, -- to the second, or to the hour if it was booked late
    PRIMARY KEY (store_id, network, token)
  ) STRICT, WITHOUT ROWID`,
  // What the contract has not paid out to the stores' wallets, as it was read last. It is small, because a claim pays out.
  `CREATE TABLE channel_payouts (
    store_id TEXT NOT NULL,
    network TEXT NOT NULL,
    receiver TEXT NOT NULL,
    token TEXT NOT NULL,
    due TEXT NOT NULL,
    PRIMARY KEY (store_id, network, receiver, token)
  ) STRICT, WITHOUT ROWID`,
  // A store owes its fee when a channel is claimed, because the money is its own then.
  `CREATE TABLE channel_fees (
    store_id TEXT NOT NULL,
    month TEXT NOT NULL, -- '2026-11', UTC
    network TEXT NOT NULL,
    asset TEXT NOT NULL,
    symbol TEXT NOT NULL,
    decimals INTEGER NOT NULL,
    claims INTEGER NOT NULL,
    claimed TEXT NOT NULL,
    fees TEXT NOT NULL,
    PRIMARY KEY (store_id, month, network, asset, symbol, decimals)
  ) STRICT, WITHOUT ROWID`,
]

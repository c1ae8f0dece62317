import { oneOf } from './oneOf.ts'

/** Sales, their ledger entries, and reviews. */
export const purchases = [
  // ANY: packed bytes, or a text that has another form (adapters/sql/packed.ts).
  `CREATE TABLE purchases (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    id TEXT NOT NULL UNIQUE,
    link_id TEXT NOT NULL, -- empty: a payment session without a link
    store_id TEXT NOT NULL,
    buyer_wallet TEXT NOT NULL,
    network TEXT NOT NULL,
    asset TEXT NOT NULL,
    symbol TEXT NOT NULL,
    decimals INTEGER NOT NULL,
    amount_atomic TEXT NOT NULL,
    fee_atomic TEXT NOT NULL,
    price_usd TEXT NOT NULL,
    tx_hash ANY,
    event TEXT, -- which transfer of the transaction paid
    status TEXT NOT NULL CHECK (${oneOf('status', ['settled', 'delivered', 'refund_due', 'refunded', 'reorged'])}),
    review_token_hash ANY NOT NULL,
    created_at_ms INTEGER NOT NULL,
    session_id TEXT
  ) STRICT`,
  // One transfer pays for one purchase. An EVM hash is the same in either case; a Solana signature is base58, where case counts.
  `CREATE UNIQUE INDEX purchases_transfer ON purchases (network,
    CASE WHEN typeof(tx_hash) = 'blob' OR network NOT LIKE 'eip155:%' THEN tx_hash
      WHEN tx_hash LIKE '0x%' AND length(tx_hash) = 66 THEN coalesce(unhex(substr(tx_hash, 3)), lower(tx_hash))
      ELSE lower(tx_hash) END, event)`,
  'CREATE INDEX purchases_store ON purchases (store_id, created_at_ms)',
  'CREATE INDEX purchases_link ON purchases (link_id, created_at_ms)',
  // The few that are owed, refunded or reorged are found among a million sales.
  `CREATE INDEX purchases_unusual ON purchases (store_id, status, created_at_ms, id)
    WHERE status NOT IN ('settled', 'delivered')`,
  `CREATE INDEX purchases_owed ON purchases (buyer_wallet) WHERE status = 'refund_due'`,
  // All entries of one booking are one row: four rows were a tenth of all that a sale writes.
  `CREATE TABLE ledger (
    purchase_id TEXT NOT NULL,
    move INTEGER NOT NULL, -- 0: the sale
    entries TEXT NOT NULL, -- JSON: [account, network, asset, amount, kind] each
    PRIMARY KEY (purchase_id, move)
  ) STRICT, WITHOUT ROWID`,
]

export const reviews = [
  `CREATE TABLE reviews (
    id TEXT PRIMARY KEY NOT NULL,
    purchase_id TEXT NOT NULL UNIQUE,
    link_id TEXT NOT NULL,
    store_id TEXT NOT NULL,
    wallet TEXT NOT NULL,
    positive INTEGER NOT NULL,
    comment TEXT,
    created_at_ms INTEGER NOT NULL
  ) STRICT`,
  'CREATE INDEX reviews_link ON reviews (link_id, created_at_ms, id)',
  'CREATE INDEX reviews_store ON reviews (store_id, created_at_ms, id)',
  // Counted when a review is written: a page of links shows the counts of each.
  `CREATE TABLE review_counts (
    link_id TEXT PRIMARY KEY NOT NULL,
    total INTEGER NOT NULL,
    positive INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  `CREATE TRIGGER reviews_counted AFTER INSERT ON reviews BEGIN
    INSERT INTO review_counts (link_id, total, positive) VALUES (NEW.link_id, 1, NEW.positive)
      ON CONFLICT (link_id) DO UPDATE SET total = total + 1, positive = positive + excluded.positive;
  END`,
]

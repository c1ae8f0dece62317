import { columnCheck } from './payments.ts'

/** Sales, their ledger entries, and reviews. */
export const purchases = [
  // ANY columns have packed bytes, or a text in another form (adapters/store/sql/sales/paymentRows.ts).
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
    status TEXT NOT NULL CHECK (${columnCheck('status', ['settled', 'delivered', 'refund_due', 'refunded', 'reorged'])}),
    review_token_hash ANY NOT NULL,
    created_at_ms INTEGER NOT NULL,
    session_id TEXT
  ) STRICT`,
  // One transfer pays for one purchase. An EVM hash is the same in upper and lower case. Case matters in a Solana signature, which
  // is base58.
  `CREATE UNIQUE INDEX purchases_transfer ON purchases (network,
    CASE WHEN typeof(tx_hash) = 'blob' OR network NOT LIKE 'eip155:%' THEN tx_hash
      WHEN tx_hash LIKE '0x%' AND length(tx_hash) = 66 THEN coalesce(unhex(substr(tx_hash, 3)), lower(tx_hash))
      ELSE lower(tx_hash) END, event)`,
  'CREATE INDEX purchases_store ON purchases (store_id, created_at_ms)',
  'CREATE INDEX purchases_link ON purchases (link_id, created_at_ms)',
  // The index finds the few owed, refunded or reorged purchases among a million sales.
  `CREATE INDEX purchases_unusual ON purchases (store_id, status, created_at_ms, id)
    WHERE status NOT IN ('settled', 'delivered')`,
  `CREATE INDEX purchases_owed ON purchases (buyer_wallet) WHERE status = 'refund_due'`,
  // The sales of links with access, by buyer. Sales of other links are not in the table, because a row for each sale would cost
  // every sale a page.
  `CREATE TABLE link_buyers (
    link_id TEXT NOT NULL,
    wallet TEXT NOT NULL, -- EVM addresses in lower case
    at_ms INTEGER NOT NULL,
    payment_id INTEGER NOT NULL,
    PRIMARY KEY (link_id, wallet, at_ms, payment_id)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TRIGGER purchases_give_access AFTER INSERT ON purchases
    WHEN (SELECT access FROM links WHERE id = NEW.link_id) IS NOT NULL BEGIN
    INSERT INTO link_buyers (link_id, wallet, at_ms, payment_id) VALUES (NEW.link_id,
      CASE WHEN NEW.network LIKE 'eip155:%' THEN lower(NEW.buyer_wallet) ELSE NEW.buyer_wallet END,
      NEW.created_at_ms, NEW.payment_id);
  END`,
  // All entries of a booking are in one row, because four rows would be a tenth of all that a sale writes.
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
  // A review updates these counts, because a page of links shows the counts of each link.
  `CREATE TABLE review_counts (
    link_id TEXT PRIMARY KEY NOT NULL,
    total INTEGER NOT NULL,
    positive INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
]

const walletOf = (row: string) =>
  `CASE WHEN ${row}.network LIKE 'eip155:%' THEN lower(${row}.buyer_wallet) ELSE ${row}.buyer_wallet END`

/** Bought by a wallet that signs in to the store, or that the store is paid to. */
const isOwn = (
  row: string,
) => `(${walletOf(row)} IN (SELECT address FROM store_wallets WHERE store_id = ${row}.store_id)
  OR ${walletOf(row)} IN (SELECT lower(payout_base) FROM stores WHERE id = ${row}.store_id)
  OR ${walletOf(row)} IN (SELECT payout_solana FROM stores WHERE id = ${row}.store_id))`

/** Totals of sales by store, link and time, and fees by month: read without reading each sale. */
export const sums = [
  // What the sums lack: a purchase was created or has another status, or (both null) its refund is known. A sale writes this
  // row and no more; the rows of many sales are added up at once, before a query reads the sums.
  `CREATE TABLE sums_due (
    id INTEGER PRIMARY KEY,
    payment_id INTEGER NOT NULL,
    was TEXT, -- the purchase's status before
    became TEXT,
    is_judged INTEGER NOT NULL DEFAULT 0 -- own_sales is decided for it
  ) STRICT`,
  `CREATE TRIGGER purchases_summed AFTER INSERT ON purchases BEGIN
    INSERT INTO sums_due (payment_id, became) VALUES (NEW.payment_id, NEW.status);
  END`,
  // The delivery of a sale changes no sum. Each delivery runs every trigger on the status: what has the same condition is one.
  `CREATE TRIGGER purchases_summed_anew AFTER UPDATE OF status ON purchases
    WHEN NEW.status <> OLD.status AND NOT (OLD.status = 'settled' AND NEW.status = 'delivered') BEGIN
    INSERT INTO sums_due (payment_id, was, became) VALUES (NEW.payment_id, OLD.status, NEW.status);
    DELETE FROM judged_days WHERE first_id < NEW.payment_id AND last_id >= NEW.payment_id;
    DELETE FROM judged_months WHERE month = strftime('%Y-%m', NEW.created_at_ms / 1000, 'unixepoch');
  END`,
  `CREATE TRIGGER refunds_summed AFTER INSERT ON refunds BEGIN
    INSERT INTO sums_due (payment_id) VALUES (NEW.payment_id);
  END`,
  // Bought by wallets that were the store's own at the time: decided when the sale is added up, or before the store's wallets change.
  'CREATE TABLE own_sales (payment_id INTEGER PRIMARY KEY) STRICT',
  ...[
    ['stores_judged', 'UPDATE OF payout_base, payout_solana ON stores', 'NEW.id'],
    ['store_wallets_judged', 'INSERT ON store_wallets', 'NEW.store_id'],
    ['store_wallets_judged_anew', 'DELETE ON store_wallets', 'OLD.store_id'],
  ].map(
    ([name, event, store]) => `CREATE TRIGGER ${name} BEFORE ${event} BEGIN
      INSERT OR IGNORE INTO own_sales SELECT u.payment_id FROM sums_due d JOIN purchases u ON u.payment_id = d.payment_id
        WHERE d.was IS NULL AND d.became IS NOT NULL AND d.is_judged = 0 AND u.store_id = ${store} AND ${isOwn('u')};
      UPDATE sums_due SET is_judged = 1 WHERE is_judged = 0
        AND EXISTS (SELECT 1 FROM purchases u WHERE u.payment_id = sums_due.payment_id AND u.store_id = ${store});
    END`,
  ),
  // A number for each buyer: the sets of buyers in sales_sums are made of these.
  'CREATE TABLE buyers (wallet TEXT PRIMARY KEY NOT NULL, number INTEGER NOT NULL) STRICT, WITHOUT ROWID',
  // By time first: what is sold now is added in few pages, whichever store sells it.
  `CREATE TABLE sales_sums (
    unit TEXT NOT NULL CHECK (unit = 'day' OR unit = 'hour'),
    scope TEXT NOT NULL, -- a store's id (by day and hour), or store/link (by day)
    at INTEGER NOT NULL, -- days or hours since 1970
    calls INTEGER NOT NULL,
    revenue_e18 TEXT NOT NULL, -- USD with 18 decimals: text, as it exceeds 64 bits
    refunds INTEGER NOT NULL,
    refunded_e18 TEXT NOT NULL,
    buyers BLOB,
    PRIMARY KEY (unit, at, scope)
  ) STRICT, WITHOUT ROWID`,
  // Amounts in atomic units of the token.
  `CREATE TABLE fee_sums (
    store_id TEXT NOT NULL,
    month TEXT NOT NULL, -- '2026-11', UTC
    network TEXT NOT NULL,
    unit TEXT NOT NULL,
    symbol TEXT NOT NULL,
    decimals INTEGER NOT NULL,
    asset TEXT NOT NULL,
    sales INTEGER NOT NULL,
    sold TEXT NOT NULL,
    fees TEXT NOT NULL,
    refunds INTEGER NOT NULL,
    refunded TEXT NOT NULL,
    returned TEXT NOT NULL,
    standing TEXT NOT NULL,
    PRIMARY KEY (store_id, month, network, unit, symbol, decimals)
  ) STRICT, WITHOUT ROWID`,
]

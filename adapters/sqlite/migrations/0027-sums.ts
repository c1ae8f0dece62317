import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/**
 * What sales come to, by store, link and day, and what is owed for them by month: read without looking at each sale. Never edited
 * once released: a change is a new migration. What was sold before is noted here, and added up by migrate.ts.
 */
export const sums: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const walletOf = (row: string) =>
  `CASE WHEN ${row}.network LIKE 'eip155:%' THEN lower(${row}.buyer_wallet) ELSE ${row}.buyer_wallet END`

/** Bought by a wallet that signs in to the store, or that it is paid to. */
const isOwn = (
  row: string,
) => `(${walletOf(row)} IN (SELECT address FROM store_wallets WHERE store_id = ${row}.store_id)
  OR ${walletOf(row)} IN (SELECT lower(payout_base) FROM stores WHERE id = ${row}.store_id)
  OR ${walletOf(row)} IN (SELECT payout_solana FROM stores WHERE id = ${row}.store_id))`

const statements = [
  // What the sums do not have yet: a purchase was made or has another status, or (both null) its refund is known. A sale
  // notes it and no more; the notes of many sales are added up at once, before anybody reads the sums.
  `CREATE TABLE sums_due (
    id INTEGER PRIMARY KEY,
    payment_id INTEGER NOT NULL,
    was TEXT,
    became TEXT,
    is_judged INTEGER NOT NULL DEFAULT 0
  ) STRICT`,
  // Bought by wallets that were the store's own when they bought: said when it is added up, or before the store has others.
  'CREATE TABLE own_sales (payment_id INTEGER PRIMARY KEY) STRICT',
  'CREATE TABLE buyers (wallet TEXT PRIMARY KEY NOT NULL, number INTEGER NOT NULL) STRICT, WITHOUT ROWID',
  // Of a store (its id) by day and hour, of a link (\`store/link\`) by day. Amounts have 18 decimals: they are text. By time
  // first: what is sold now is added in few places, whosever it is.
  `CREATE TABLE sales_sums (
    unit TEXT NOT NULL CHECK (unit = 'day' OR unit = 'hour'),
    scope TEXT NOT NULL,
    at INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    revenue_e18 TEXT NOT NULL,
    refunds INTEGER NOT NULL,
    refunded_e18 TEXT NOT NULL,
    buyers BLOB,
    PRIMARY KEY (unit, at, scope)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE fee_sums (
    store_id TEXT NOT NULL,
    month TEXT NOT NULL,
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
  `INSERT INTO own_sales SELECT payment_id FROM purchases u WHERE ${isOwn('u')}`,
  'INSERT INTO sums_due (payment_id, became, is_judged) SELECT payment_id, status, 1 FROM purchases ORDER BY payment_id',
  'INSERT INTO sums_due (payment_id) SELECT payment_id FROM refunds ORDER BY payment_id',
  `CREATE TRIGGER purchases_summed AFTER INSERT ON purchases BEGIN
    INSERT INTO sums_due (payment_id, became) VALUES (NEW.payment_id, NEW.status);
  END`,
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
  // A sale is handed over: nothing that is added up has changed.
  `CREATE TRIGGER purchases_summed_anew AFTER UPDATE OF status ON purchases
    WHEN NEW.status <> OLD.status AND NOT (OLD.status = 'settled' AND NEW.status = 'delivered') BEGIN
    INSERT INTO sums_due (payment_id, was, became) VALUES (NEW.payment_id, OLD.status, NEW.status);
  END`,
  `CREATE TRIGGER refunds_summed AFTER INSERT ON refunds BEGIN
    INSERT INTO sums_due (payment_id) VALUES (NEW.payment_id);
  END`,
  // A store's traffic, of all of its links together.
  ...['day', 'hour'].flatMap((unit) => {
    const add = (views: string, challenges: string) => `
      INSERT INTO store_${unit}s (store_id, ${unit}, views, challenges)
        SELECT store_id, NEW.${unit}, ${views}, ${challenges} FROM links WHERE id = NEW.link_id
        ON CONFLICT (store_id, ${unit}) DO UPDATE
        SET views = views + excluded.views, challenges = challenges + excluded.challenges`
    return [
      `CREATE TABLE store_${unit}s (
        store_id TEXT NOT NULL,
        ${unit} INTEGER NOT NULL,
        views INTEGER NOT NULL,
        challenges INTEGER NOT NULL,
        PRIMARY KEY (store_id, ${unit})
      ) STRICT, WITHOUT ROWID`,
      `INSERT INTO store_${unit}s SELECT l.store_id, v.${unit}, sum(v.views), sum(v.challenges)
        FROM link_${unit}s v JOIN links l ON l.id = v.link_id WHERE v.views <> 0 OR v.challenges <> 0 GROUP BY 1, 2`,
      `CREATE TRIGGER link_${unit}s_summed AFTER INSERT ON link_${unit}s WHEN NEW.views <> 0 OR NEW.challenges <> 0 BEGIN
        ${add('NEW.views', 'NEW.challenges')};
      END`,
      `CREATE TRIGGER link_${unit}s_summed_anew AFTER UPDATE OF views, challenges ON link_${unit}s
        WHEN NEW.views <> OLD.views OR NEW.challenges <> OLD.challenges BEGIN
        ${add('NEW.views - OLD.views', 'NEW.challenges - OLD.challenges')};
      END`,
    ]
  }),
  `CREATE TRIGGER store_hours_kept AFTER INSERT ON store_hours BEGIN
    DELETE FROM store_hours WHERE store_id = NEW.store_id AND hour < NEW.hour - 62 * 24;
  END`,
]

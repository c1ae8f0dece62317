/** How long traffic by the hour is stored, in hours. It is a period of thirty days and the period before it. */
const retainedHours = '62 * 24'

/** Triggers that add the traffic of a link to the traffic of its store. */
const storeTraffic = (unit: 'day' | 'hour') => {
  const add = (views: string, challenges: string) => `
      INSERT INTO store_${unit}s (store_id, ${unit}, views, challenges)
        SELECT store_id, NEW.${unit}, ${views}, ${challenges} FROM links WHERE id = NEW.link_id
        ON CONFLICT (store_id, ${unit}) DO UPDATE
        SET views = views + excluded.views, challenges = challenges + excluded.challenges`
  return [
    `CREATE TABLE store_${unit}s (
      store_id TEXT NOT NULL,
      ${unit} INTEGER NOT NULL, -- ${unit}s since 1970
      views INTEGER NOT NULL,
      challenges INTEGER NOT NULL,
      PRIMARY KEY (store_id, ${unit})
    ) STRICT, WITHOUT ROWID`,
    `CREATE TRIGGER link_${unit}s_summed AFTER INSERT ON link_${unit}s WHEN NEW.views <> 0 OR NEW.challenges <> 0 BEGIN
      ${add('NEW.views', 'NEW.challenges')};
    END`,
    `CREATE TRIGGER link_${unit}s_views_summed AFTER UPDATE OF views, challenges ON link_${unit}s
      WHEN NEW.views <> OLD.views OR NEW.challenges <> OLD.challenges BEGIN
      ${add('NEW.views - OLD.views', 'NEW.challenges - OLD.challenges')};
    END`,
  ]
}

/** Traffic and calls by link and store. They are stored per day, and per hour for the last weeks. */
export const stats = [
  `CREATE TABLE link_days (
    link_id TEXT NOT NULL,
    day INTEGER NOT NULL, -- days since 1970
    views INTEGER NOT NULL DEFAULT 0,
    challenges INTEGER NOT NULL DEFAULT 0, -- responses 402
    calls INTEGER NOT NULL DEFAULT 0,
    failed_calls INTEGER NOT NULL DEFAULT 0,
    probes INTEGER NOT NULL DEFAULT 0,
    failed_probes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (link_id, day)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE link_hours (
    link_id TEXT NOT NULL,
    hour INTEGER NOT NULL, -- hours since 1970
    views INTEGER NOT NULL,
    challenges INTEGER NOT NULL,
    PRIMARY KEY (link_id, hour)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TRIGGER link_hours_kept AFTER INSERT ON link_hours BEGIN
    DELETE FROM link_hours WHERE link_id = NEW.link_id AND hour < NEW.hour - ${retainedHours};
  END`,
  ...storeTraffic('day'),
  ...storeTraffic('hour'),
  `CREATE TRIGGER store_hours_kept AFTER INSERT ON store_hours BEGIN
    DELETE FROM store_hours WHERE store_id = NEW.store_id AND hour < NEW.hour - ${retainedHours};
  END`,
]

/** Rollups of sales by store, link and time, and of fees by month. Queries read them instead of each sale. */
export const rollups = [
  // Changes that the rollups lack. A purchase was created or has another status, its refund was recorded (`was` and `became` are
  // null), or a reorganization undid the refund (only `became` is null). A sale writes only this row. The rows of many sales are
  // added up together before a query reads the rollups.
  `CREATE TABLE rollups_due (
    id INTEGER PRIMARY KEY,
    payment_id INTEGER NOT NULL,
    was TEXT, -- the purchase's status before
    became TEXT,
    refunded_at_ms INTEGER, -- of the note's refund, which may have left the chain by now
    is_decided INTEGER NOT NULL DEFAULT 0 -- 1: own_sales is decided for it
  ) STRICT`,
  `CREATE TRIGGER purchases_summed AFTER INSERT ON purchases BEGIN
    INSERT INTO rollups_due (payment_id, became) VALUES (NEW.payment_id, NEW.status);
  END`,
  // The delivery of a sale changes no rollup. Each delivery evaluates every trigger on the status, so triggers with the same
  // condition are merged.
  `CREATE TRIGGER purchases_status_summed AFTER UPDATE OF status ON purchases
    WHEN NEW.status <> OLD.status AND NOT (OLD.status = 'settled' AND NEW.status = 'delivered') BEGIN
    INSERT INTO rollups_due (payment_id, was, became, refunded_at_ms) VALUES (NEW.payment_id, OLD.status, NEW.status,
      (SELECT refunded_at_ms FROM refunds WHERE payment_id = NEW.payment_id));
    DELETE FROM ledger_checked_days WHERE first_id < NEW.payment_id AND last_id >= NEW.payment_id;
    DELETE FROM ledger_checked_months WHERE month = strftime('%Y-%m', NEW.created_at_ms / 1000, 'unixepoch');
  END`,
  `CREATE TRIGGER refunds_summed AFTER INSERT ON refunds BEGIN
    INSERT INTO rollups_due (payment_id, refunded_at_ms) VALUES (NEW.payment_id, NEW.refunded_at_ms);
  END`,
  `CREATE TRIGGER refunds_unsummed AFTER DELETE ON refunds BEGIN
    INSERT INTO rollups_due (payment_id, was, refunded_at_ms) VALUES (OLD.payment_id, 'refunded', OLD.refunded_at_ms);
  END`,
  // Sales to wallets that were the store's own at the time. This is decided when the sale is added to the rollups, or before the
  // store's wallets change.
  'CREATE TABLE own_sales (payment_id INTEGER PRIMARY KEY) STRICT',
  // A number for each buyer. The sets of buyers in sales_rollups contain these numbers.
  'CREATE TABLE buyers (wallet TEXT PRIMARY KEY NOT NULL, number INTEGER NOT NULL) STRICT, WITHOUT ROWID',
  // Wallets that paid by a channel first.
  'CREATE INDEX buyers_channels ON buyers (number) WHERE number >= 2147483648',
  // The key begins with the time, so that the sales of all stores change only a few pages.
  `CREATE TABLE sales_rollups (
    unit TEXT NOT NULL CHECK (unit IN ('day', 'hour', 'channel_day', 'channel_hour')),
    scope TEXT NOT NULL, -- a store's id (by day and hour), or store/link (by day)
    at INTEGER NOT NULL, -- days or hours since 1970
    calls INTEGER NOT NULL,
    revenue_e18 TEXT NOT NULL, -- USD with 18 decimals: text, as it exceeds 64 bits
    refunds INTEGER NOT NULL,
    refunded_e18 TEXT NOT NULL,
    buyers BLOB,
    PRIMARY KEY (unit, at, scope)
  ) STRICT, WITHOUT ROWID`,
  // Amounts are in atomic units of the token.
  `CREATE TABLE fee_rollups (
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

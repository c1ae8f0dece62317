import { listedOf } from '../../sql/discoveryRows.ts'

const filtered = ['is_standard', 'price', 'paid_on_base', 'paid_on_solana', 'rating']

/** Inserts a listing for each of these links that is public. */
const list = (links: string) => `INSERT INTO listings
    (link_id, store_id, is_standard, price, created_at_ms, paid_on_base, paid_on_solana, popularity, rating)
  SELECT l.id, l.store_id, l.link_type = 'standard', CAST(l.price AS REAL), l.created_at_ms,
    CAST(l.price AS REAL) > 0 AND s.payout_base IS NOT NULL,
    CAST(l.price AS REAL) > 0 AND s.payout_solana IS NOT NULL,
    coalesce(c.popularity, 0), CAST(round(100.0 * r.positive / r.total) AS INTEGER)
  FROM links l JOIN stores s ON s.id = l.store_id
    LEFT JOIN link_stats c ON c.link_id = l.id LEFT JOIN review_counts r ON r.link_id = l.id
  WHERE l.is_active = 1 AND l.is_public = 1 AND l.is_stealth = 0 AND l.suspension IS NULL AND ${links}`

/** Public discovery: listings, their words and tags, and their popularity. */
export const discovery = [
  // A link is marked as changed when its sales are added up, and counted later, so that a sale does not wait for the count.
  `CREATE TABLE link_stats (
    link_id TEXT PRIMARY KEY NOT NULL,
    changed INTEGER NOT NULL, -- grows with each change
    counted INTEGER NOT NULL DEFAULT 0, -- the value of changed at the last count
    counted_at_ms INTEGER NOT NULL DEFAULT 0,
    sales INTEGER NOT NULL DEFAULT 0,
    buyers INTEGER NOT NULL DEFAULT 0,
    popularity REAL NOT NULL DEFAULT 0
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX link_stats_changed ON link_stats (counted_at_ms) WHERE changed <> counted',
  'CREATE INDEX link_stats_popular ON link_stats (counted_at_ms) WHERE popularity > 0',
  // One row per public link. Its id is the rowid of its words.
  `CREATE TABLE listings (
    id INTEGER PRIMARY KEY,
    link_id TEXT NOT NULL UNIQUE,
    store_id TEXT NOT NULL,
    is_standard INTEGER NOT NULL,
    price REAL NOT NULL, -- in USD
    created_at_ms INTEGER NOT NULL,
    paid_on_base INTEGER NOT NULL,
    paid_on_solana INTEGER NOT NULL,
    popularity REAL NOT NULL,
    rating INTEGER -- percent of positive reviews
  ) STRICT`,
  // There is one index per order. Each contains every column that filters read, so neither counting nor paging reads the table
  // itself.
  ...Object.entries({
    listings_popular: 'popularity, created_at_ms, id',
    listings_newest: 'created_at_ms, id',
    // Among links with the same price the newest comes first, whether the order is cheapest or most expensive.
    listings_cheapest: 'price, created_at_ms DESC, id DESC',
    listings_dearest: 'price, created_at_ms, id',
  }).map(
    ([name, order]) => `CREATE INDEX ${name} ON listings
      (${order}, ${filtered.filter((column) => !order.includes(column)).join(', ')})`,
  ),
  'CREATE INDEX listings_store ON listings (store_id)',
  `CREATE TABLE listing_tags (
    tag TEXT NOT NULL,
    listing_id INTEGER NOT NULL,
    PRIMARY KEY (tag, listing_id)
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX listing_tags_listing ON listing_tags (listing_id)',
  // The table of words stores no texts, because they are in links and stores.
  `CREATE VIRTUAL TABLE listing_words USING fts5 (
    title, description, tags, seller,
    content = '', contentless_delete = 1, prefix = '2 3', tokenize = 'unicode61 remove_diacritics 2'
  )`,
]

/** Triggers that keep the listings in step with links, stores and sales. */
export const listing = [
  `CREATE TRIGGER listings_inserted AFTER INSERT ON listings BEGIN
    INSERT INTO listing_words (rowid, title, description, tags, seller)
      SELECT NEW.id, l.title, l.description, l.tags, s.username || ' ' || s.display_name
      FROM links l JOIN stores s ON s.id = l.store_id WHERE l.id = NEW.link_id;
    INSERT INTO listing_tags (tag, listing_id)
      SELECT DISTINCT t.value, NEW.id FROM links l, json_each(l.tags) t WHERE l.id = NEW.link_id;
  END`,
  `CREATE TRIGGER listings_deleted AFTER DELETE ON listings BEGIN
    DELETE FROM listing_words WHERE rowid = OLD.id;
    DELETE FROM listing_tags WHERE listing_id = OLD.id;
  END`,
  `CREATE TRIGGER links_listed AFTER INSERT ON links BEGIN
    ${list('l.id = NEW.id')};
  END`,
  `CREATE TRIGGER links_relisted AFTER UPDATE ON links WHEN ${listedOf('OLD')} <> ${listedOf('NEW')} BEGIN
    DELETE FROM listings WHERE link_id = NEW.id;
    ${list('l.id = NEW.id')};
  END`,
  `CREATE TRIGGER stores_relisted AFTER UPDATE OF username, display_name, payout_base, payout_solana ON stores
    WHEN (OLD.username, OLD.display_name, OLD.payout_base IS NULL, OLD.payout_solana IS NULL)
      <> (NEW.username, NEW.display_name, NEW.payout_base IS NULL, NEW.payout_solana IS NULL) BEGIN
    DELETE FROM listings WHERE store_id = NEW.id;
    ${list('l.store_id = NEW.id')};
  END`,
  `CREATE TRIGGER link_stats_counted AFTER UPDATE OF popularity ON link_stats WHEN OLD.popularity <> NEW.popularity BEGIN
    UPDATE listings SET popularity = NEW.popularity WHERE link_id = NEW.link_id;
  END`,
]

/** What processes share: leases, messages between them, the gas they spent, and the probe that the database can be written. */
export const processes = [
  // AUTOINCREMENT: the number of a deleted lease is never given out again.
  `CREATE TABLE leases (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    ttl_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    holder TEXT -- the process on this machine
  ) STRICT`,
  `CREATE TABLE letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    recipient INTEGER NOT NULL, -- the number of a lease
    sender INTEGER NOT NULL,
    body BLOB NOT NULL
  ) STRICT`,
  'CREATE INDEX letters_recipient ON letters (recipient, id)',
  `CREATE TABLE gas_spent (
    network TEXT NOT NULL,
    store_id TEXT NOT NULL,
    day INTEGER NOT NULL, -- days since 1970
    spent TEXT NOT NULL, -- in the network's smallest unit
    PRIMARY KEY (network, store_id, day)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE probes (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at_ms INTEGER NOT NULL,
    room BLOB NOT NULL -- as large as a sale: a full disk shows before one fails
  ) STRICT`,
]

/** The last part of a link's address: the private slug for a stealth link, the slug for others. */
const addressOf = (row: 'NEW' | 'OLD') =>
  `CASE ${row}.is_stealth WHEN 1 THEN ${row}.private_slug ELSE ${row}.slug END`

/**
 * Which links and stores changed: other processes drop what they cached of them. Triggers write it, so it commits with the change
 * itself, and a process that dies after its commit can't leave other processes with an old price.
 */
export const changes = [
  `CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('link', 'store')),
    username TEXT NOT NULL,
    slug TEXT
  ) STRICT`,
  `CREATE TRIGGER links_inserted AFTER INSERT ON links BEGIN
    INSERT INTO changes (kind, username, slug)
      SELECT 'link', username, ${addressOf('NEW')} FROM stores WHERE id = NEW.store_id;
  END`,
  `CREATE TRIGGER links_updated AFTER UPDATE ON links BEGIN
    INSERT INTO changes (kind, username, slug)
      SELECT 'link', username, ${addressOf('NEW')} FROM stores WHERE id = NEW.store_id;
    INSERT INTO changes (kind, username, slug)
      SELECT 'link', username, ${addressOf('OLD')} FROM stores
      WHERE id = OLD.store_id AND ${addressOf('OLD')} <> ${addressOf('NEW')};
  END`,
  `CREATE TRIGGER stores_inserted AFTER INSERT ON stores BEGIN
    INSERT INTO changes (kind, username) VALUES ('store', NEW.username);
  END`,
  `CREATE TRIGGER stores_updated AFTER UPDATE ON stores BEGIN
    INSERT INTO changes (kind, username) VALUES ('store', NEW.username);
    INSERT INTO changes (kind, username) SELECT 'store', OLD.username WHERE OLD.username <> NEW.username;
  END`,
  // A former username that no longer redirects: processes have cached where it led.
  `CREATE TRIGGER username_redirects_deleted AFTER DELETE ON username_redirects BEGIN
    INSERT INTO changes (kind, username) VALUES ('store', OLD.username);
  END`,
  // Processes read new rows twice a second; one that finds unread rows already deleted drops its whole cache.
  `CREATE TRIGGER changes_pruned AFTER INSERT ON changes WHEN NEW.id % 100 = 0 BEGIN
    DELETE FROM changes WHERE id <= NEW.id - 10000;
  END`,
]

/**
 * Data that processes share. It has leases, messages between processes, the gas that they spent, and the probe whether the database
 * can be written.
 */
export const processes = [
  // With AUTOINCREMENT, the number of a deleted lease is never used again.
  `CREATE TABLE leases (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    ttl_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    holder TEXT -- the process on this machine
  ) STRICT`,
  `CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    recipient INTEGER NOT NULL, -- the number of a lease
    sender INTEGER NOT NULL,
    body BLOB NOT NULL
  ) STRICT`,
  'CREATE INDEX messages_recipient ON messages (recipient, id)',
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

/** Changes of links and stores, so that other processes drop them from their caches. */
export const changes = [
  `CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('link', 'store')),
    username TEXT NOT NULL,
    slug TEXT
  ) STRICT`,
  // Processes poll for new rows twice a second. If unread rows were deleted, a process drops its whole cache.
  `CREATE TRIGGER changes_pruned AFTER INSERT ON changes WHEN NEW.id % 100 = 0 BEGIN
    DELETE FROM changes WHERE id <= NEW.id - 10000;
  END`,
]

import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Endpoints, events and their deliveries. Never edited once released: a change is a new migration. */
export const webhooks: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of [...tables, ...ofLinks]) await sql.raw(statement).execute(db)
  },
}

const tables = [
  `CREATE TABLE webhook_endpoints (
    id TEXT PRIMARY KEY NOT NULL,
    store_id TEXT NOT NULL,
    link_id TEXT,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    kinds TEXT NOT NULL,
    salt TEXT NOT NULL,
    previous_salt TEXT,
    previous_until_ms INTEGER,
    disabled_at_ms INTEGER,
    disabled_reason TEXT,
    failing_since_ms INTEGER,
    listening_since_ms INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX webhook_endpoints_store ON webhook_endpoints (store_id)',
  `CREATE TABLE webhook_events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    store_id TEXT NOT NULL,
    link_id TEXT,
    purchase_id TEXT,
    endpoint_id TEXT,
    detail TEXT,
    at_ms INTEGER NOT NULL,
    body TEXT
  ) STRICT`,
  'CREATE INDEX webhook_events_unspread ON webhook_events (seq) WHERE body IS NULL',
  `CREATE UNIQUE INDEX webhook_events_purchase ON webhook_events (purchase_id) WHERE kind = 'purchase.confirmed'`,
  'CREATE INDEX webhook_events_at ON webhook_events (at_ms)',
  `CREATE TABLE webhook_deliveries (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    event_seq INTEGER NOT NULL,
    endpoint_id TEXT NOT NULL,
    store_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state = 'waiting' OR state = 'held' OR state = 'delivered' OR state = 'failed'),
    tries INTEGER NOT NULL DEFAULT 0,
    due_at_ms INTEGER NOT NULL,
    taking INTEGER NOT NULL DEFAULT 0,
    leased_until_ms INTEGER,
    created_at_ms INTEGER NOT NULL
  ) STRICT`,
  `CREATE INDEX webhook_deliveries_waiting ON webhook_deliveries (store_id, endpoint_id, due_at_ms)
    WHERE state = 'waiting'`,
  `CREATE INDEX webhook_deliveries_due ON webhook_deliveries (due_at_ms) WHERE state = 'waiting'`,
  `CREATE INDEX webhook_deliveries_leased ON webhook_deliveries (store_id, endpoint_id)
    WHERE leased_until_ms IS NOT NULL`,
  'CREATE INDEX webhook_deliveries_endpoint ON webhook_deliveries (endpoint_id, n)',
  'CREATE INDEX webhook_deliveries_event ON webhook_deliveries (event_seq)',
  `CREATE TABLE webhook_tries (
    delivery INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    status INTEGER,
    latency_ms INTEGER NOT NULL,
    error TEXT,
    answer TEXT NOT NULL,
    PRIMARY KEY (delivery, number)
  ) STRICT, WITHOUT ROWID`,
]

const kindsOfLinks = `'["purchase.confirmed","test"]'`
const columns =
  'id, store_id, link_id, url, description, kinds, salt, listening_since_ms, created_at_ms, updated_at_ms'
const endpointOf = (link: string, now: string) => `
  ${link}.id, ${link}.store_id, ${link}.id, ${link}.webhook_url, '', ${kindsOfLinks}, lower(hex(randomblob(16))),
  ${now}, ${now}, ${now}`

/** In the transaction of the link's own change, whoever writes it. */
const ofLinks = [
  `INSERT INTO webhook_endpoints (${columns})
    SELECT ${endpointOf('l', 'unixepoch() * 1000')} FROM links l WHERE l.webhook_url IS NOT NULL`,
  `CREATE TRIGGER links_webhook_inserted AFTER INSERT ON links WHEN NEW.webhook_url IS NOT NULL BEGIN
    INSERT INTO webhook_endpoints (${columns}) VALUES (${endpointOf('NEW', 'NEW.updated_at_ms')});
  END`,
  // Another address keeps its secret and what waits, and is tried although the one before did not answer.
  `CREATE TRIGGER links_webhook_updated AFTER UPDATE OF webhook_url ON links
    WHEN NEW.webhook_url IS NOT OLD.webhook_url BEGIN
    DELETE FROM webhook_endpoints WHERE id = NEW.id AND NEW.webhook_url IS NULL;
    UPDATE webhook_endpoints SET url = NEW.webhook_url, disabled_at_ms = NULL, disabled_reason = NULL,
        failing_since_ms = NULL, updated_at_ms = NEW.updated_at_ms,
        listening_since_ms = CASE WHEN disabled_at_ms IS NULL THEN listening_since_ms ELSE NEW.updated_at_ms END
      WHERE id = NEW.id;
    UPDATE webhook_deliveries SET state = 'waiting' WHERE endpoint_id = NEW.id AND state = 'held';
    INSERT INTO webhook_endpoints (${columns})
      SELECT ${endpointOf('NEW', 'NEW.updated_at_ms')} WHERE NEW.webhook_url IS NOT NULL AND OLD.webhook_url IS NULL;
  END`,
  `CREATE TRIGGER webhook_endpoints_deleted AFTER DELETE ON webhook_endpoints BEGIN
    UPDATE webhook_deliveries SET state = 'failed'
      WHERE endpoint_id = OLD.id AND (state = 'waiting' OR state = 'held');
  END`,
]

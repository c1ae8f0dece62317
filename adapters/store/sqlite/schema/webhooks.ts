/** Webhook endpoints, events (the outbox) and deliveries. */
export const webhooks = [
  `CREATE TABLE webhook_endpoints (
    id TEXT PRIMARY KEY NOT NULL, -- a link's own endpoint has the link's id
    store_id TEXT NOT NULL,
    link_id TEXT,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    kinds TEXT NOT NULL, -- a JSON list
    salt TEXT NOT NULL, -- the signing secret is derived from it
    previous_salt TEXT,
    previous_until_ms INTEGER,
    disabled_at_ms INTEGER,
    disabled_reason TEXT,
    failing_since_ms INTEGER,
    listening_since_ms INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  // A sale reads the endpoint of its own link and those of its store, but not the endpoints of a thousand other links.
  'CREATE INDEX webhook_endpoints_store ON webhook_endpoints (store_id, link_id)',
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
    body TEXT, -- null until its deliveries are created
    session_id TEXT
  ) STRICT`,
  'CREATE INDEX webhook_events_unspread ON webhook_events (seq) WHERE body IS NULL',
  `CREATE UNIQUE INDEX webhook_events_purchase ON webhook_events (purchase_id) WHERE kind = 'purchase.confirmed'`,
  'CREATE INDEX webhook_events_at ON webhook_events (at_ms)',
  ...['confirmed', 'expired'].map(
    (end) => `CREATE UNIQUE INDEX webhook_events_session_${end} ON webhook_events (session_id)
      WHERE kind = 'payment.${end}'`,
  ),
  `CREATE TABLE webhook_deliveries (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    event_seq INTEGER NOT NULL,
    endpoint_id TEXT NOT NULL,
    store_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state = 'waiting' OR state = 'held' OR state = 'delivered' OR state = 'failed'),
    tries INTEGER NOT NULL DEFAULT 0,
    due_at_ms INTEGER NOT NULL,
    taking INTEGER NOT NULL DEFAULT 0, -- which taking leased it: an outdated one can't write its outcome
    leased_until_ms INTEGER,
    created_at_ms INTEGER NOT NULL,
    is_due INTEGER NOT NULL DEFAULT 0 -- set when its time has come: only such rows are searched
  ) STRICT`,
  `CREATE INDEX webhook_deliveries_leased ON webhook_deliveries (store_id, endpoint_id)
    WHERE leased_until_ms IS NOT NULL`,
  'CREATE INDEX webhook_deliveries_endpoint ON webhook_deliveries (endpoint_id, n)',
  'CREATE INDEX webhook_deliveries_event ON webhook_deliveries (event_seq)',
  `CREATE INDEX webhook_deliveries_due ON webhook_deliveries (store_id, endpoint_id)
    WHERE state = 'waiting' AND is_due = 1`,
  `CREATE INDEX webhook_deliveries_later ON webhook_deliveries (due_at_ms) WHERE state = 'waiting' AND is_due = 0`,
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

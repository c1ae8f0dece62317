/** Paid links, their former slugs, and their health. */
export const links = [
  `CREATE TABLE links (
    id TEXT PRIMARY KEY NOT NULL,
    store_id TEXT NOT NULL REFERENCES stores (id),
    url TEXT NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    slug TEXT NOT NULL,
    price TEXT NOT NULL, -- in USD, a decimal
    price_max TEXT, -- the highest price; null: every call costs price
    pricing TEXT, -- JSON: how the price depends on the request
    is_public INTEGER NOT NULL,
    is_active INTEGER NOT NULL, -- 0: deleted; the row is kept
    link_type TEXT NOT NULL,
    is_stealth INTEGER NOT NULL, -- reached at private_slug only
    private_slug TEXT,
    webhook_url TEXT,
    methods TEXT NOT NULL, -- a JSON list
    input_schema TEXT,
    output_example TEXT,
    tags TEXT NOT NULL, -- a JSON list
    icon_url TEXT,
    response_mode TEXT NOT NULL,
    settle TEXT NOT NULL,
    access TEXT, -- JSON: who may call by a signature instead of a payment
    upstream_headers_sealed TEXT, -- encrypted
    suspension TEXT,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    version INTEGER NOT NULL,
    origin_document TEXT, -- the document that the link was imported from
    origin_key TEXT,
    origin_operation TEXT,
    CHECK (is_stealth = 0 OR private_slug IS NOT NULL)
  ) STRICT`,
  'CREATE UNIQUE INDEX links_slug ON links (store_id, slug) WHERE is_active = 1',
  'CREATE UNIQUE INDEX links_private_slug ON links (store_id, private_slug) WHERE is_active = 1',
  'CREATE INDEX links_store ON links (store_id, created_at_ms)',
  // Two concurrent imports of the same operation create only one link.
  `CREATE UNIQUE INDEX links_origin ON links (store_id, origin_document, origin_key)
    WHERE is_active = 1 AND origin_document IS NOT NULL`,
  // Deleted links stay in the table forever, but a page of a store's links reads none of them.
  'CREATE INDEX links_pages ON links (store_id, created_at_ms, id) WHERE is_active = 1',
  `CREATE TABLE slug_redirects (
    store_id TEXT NOT NULL REFERENCES stores (id),
    slug TEXT NOT NULL,
    link_id TEXT NOT NULL REFERENCES links (id),
    expires_at_ms INTEGER NOT NULL,
    PRIMARY KEY (store_id, slug)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE link_suspensions (
    link_id TEXT NOT NULL REFERENCES links (id),
    at_ms INTEGER NOT NULL
  ) STRICT`,
  'CREATE INDEX link_suspensions_link ON link_suspensions (link_id, at_ms)',
]

export const health = [
  `CREATE TABLE health_events (
    id INTEGER PRIMARY KEY,
    link_id TEXT NOT NULL REFERENCES links (id),
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('probe', 'suspended', 're-enabled')),
    ok INTEGER NOT NULL,
    status INTEGER,
    latency_ms INTEGER,
    detail TEXT NOT NULL,
    asked_by_seller INTEGER NOT NULL DEFAULT 0 -- 1: the probe appears only in the timeline
  ) STRICT`,
  'CREATE INDEX health_events_link ON health_events (link_id, at_ms)',
  // The index finds the few suspensions among ten thousand probes.
  `CREATE INDEX health_events_changes ON health_events (link_id, at_ms) WHERE kind <> 'probe'`,
  // The last probe of a link, and the time when the next one is due.
  `CREATE TABLE link_checks (
    link_id TEXT PRIMARY KEY NOT NULL,
    due_at_ms INTEGER,
    queue INTEGER NOT NULL DEFAULT 0,
    called_at_ms INTEGER NOT NULL DEFAULT 0,
    at_ms INTEGER,
    ok INTEGER,
    status INTEGER,
    latency_ms INTEGER,
    detail TEXT
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX link_checks_due ON link_checks (queue, due_at_ms) WHERE due_at_ms IS NOT NULL',
  `CREATE TABLE check_hours (
    link_id TEXT NOT NULL,
    hour INTEGER NOT NULL, -- hours since 1970
    checks INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    latency_sum_ms INTEGER NOT NULL,
    latency_max_ms INTEGER NOT NULL,
    PRIMARY KEY (link_id, hour)
  ) STRICT, WITHOUT ROWID`,
]

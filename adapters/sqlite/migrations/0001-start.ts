import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** The first shape of the database. Never edited once released: a change is a new migration. */
export const start: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of [
      ...payments,
      ...probes,
      ...purchases,
      ...stores,
      ...links,
      ...signIn,
      ...changes,
    ]) {
      await sql.raw(statement).execute(db)
    }
  },
}

// A row that grows or is written at every step is kept apart from what is written once: SQLite writes a row again whole,
// and the pages that a commit touches are most of what it costs (bench/durableSteps.ts). What belongs to a payment is
// found by the payment's number, not by its key: numbers grow, so new rows share a page, where keys are spread over all.
const payments = [
  `CREATE TABLE payments (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    network TEXT NOT NULL,
    asset TEXT NOT NULL,
    payer TEXT NOT NULL,
    nonce TEXT NOT NULL,
    pay_to TEXT NOT NULL,
    amount_atomic TEXT NOT NULL CHECK (amount_atomic NOT GLOB '*[^0-9]*' AND amount_atomic <> ''),
    valid_before_ms INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (${oneOf('state', [
      ...['settling', 'settled', 'delivered', 'claimed', 'verified', 'rejected', 'pending', 'failed_final'],
      ...['refund_due', 'refunded', 'reorged'],
    ])}),
    owner TEXT NOT NULL,
    link_id TEXT NOT NULL,
    store_id TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    purchase_id TEXT NOT NULL,
    tx_hash TEXT,
    error_reason TEXT,
    landed_late INTEGER NOT NULL DEFAULT 0,
    claimed_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
  ) STRICT`,
  'CREATE INDEX payments_state ON payments (state, updated_at_ms)',
  `CREATE TABLE payment_payloads (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    payload TEXT NOT NULL
  ) STRICT`,
  `CREATE TABLE attempts (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    settler TEXT NOT NULL,
    bytes TEXT NOT NULL,
    tx TEXT NOT NULL,
    sequence TEXT
  ) STRICT`,
  `CREATE TABLE answers (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    status INTEGER NOT NULL,
    headers TEXT NOT NULL,
    body BLOB NOT NULL
  ) STRICT`,
  `CREATE TABLE heartbeats (
    owner TEXT PRIMARY KEY NOT NULL,
    at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
]

const probes = [
  `CREATE TABLE probes (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at_ms INTEGER NOT NULL,
    room BLOB NOT NULL
  ) STRICT`,
]

const purchases = [
  `CREATE TABLE purchases (
    payment_id INTEGER PRIMARY KEY REFERENCES payments (id),
    id TEXT NOT NULL UNIQUE,
    payment_key TEXT NOT NULL,
    link_id TEXT NOT NULL,
    store_id TEXT NOT NULL,
    buyer_wallet TEXT NOT NULL,
    network TEXT NOT NULL,
    asset TEXT NOT NULL,
    symbol TEXT NOT NULL,
    decimals INTEGER NOT NULL,
    amount_atomic TEXT NOT NULL,
    fee_atomic TEXT NOT NULL,
    price_usd TEXT NOT NULL,
    tx_hash TEXT NOT NULL,
    status TEXT NOT NULL CHECK (${oneOf('status', ['settled', 'delivered', 'refund_due', 'refunded', 'reorged'])}),
    review_token_hash TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL
  ) STRICT`,
  // An EVM hash is the same in either case; a Solana signature is base58, where case counts.
  `CREATE UNIQUE INDEX purchases_transaction
    ON purchases (network, CASE WHEN network LIKE 'eip155:%' THEN lower(tx_hash) ELSE tx_hash END)`,
  'CREATE INDEX purchases_store ON purchases (store_id, created_at_ms, id)',
  'CREATE INDEX purchases_link ON purchases (link_id, created_at_ms, id)',
  `CREATE TABLE ledger_entries (
    purchase_id TEXT NOT NULL,
    line INTEGER NOT NULL,
    account TEXT NOT NULL,
    network TEXT NOT NULL,
    asset TEXT NOT NULL,
    amount_atomic TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (${oneOf('kind', ['sale', 'fee', 'refund'])}),
    PRIMARY KEY (purchase_id, line)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE link_views (
    link_id TEXT NOT NULL,
    day TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (link_id, day)
  ) STRICT, WITHOUT ROWID`,
]

const stores = [
  `CREATE TABLE stores (
    id TEXT PRIMARY KEY NOT NULL,
    username TEXT NOT NULL UNIQUE,
    display_name TEXT NOT NULL,
    bio TEXT NOT NULL,
    avatar_url TEXT NOT NULL,
    developer_mode_enabled INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    payout_base TEXT,
    payout_solana TEXT,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL
  ) STRICT`,
  `CREATE TABLE store_wallets (
    chain TEXT NOT NULL,
    address TEXT NOT NULL,
    store_id TEXT NOT NULL REFERENCES stores (id),
    PRIMARY KEY (chain, address)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE username_redirects (
    username TEXT PRIMARY KEY NOT NULL,
    store_id TEXT NOT NULL REFERENCES stores (id),
    expires_at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  // While a former name redirects, it belongs to the store it leads to: whoever took it would get that store's calls.
  ...['INSERT', 'UPDATE OF username'].map(
    (event, i) => `CREATE TRIGGER stores_name_${i} BEFORE ${event} ON stores
      WHEN EXISTS (SELECT 1 FROM username_redirects
        WHERE username = NEW.username AND store_id <> NEW.id AND expires_at_ms > NEW.updated_at_ms)
      BEGIN SELECT RAISE(ABORT, 'UNIQUE constraint failed: stores.username (redirects)'); END`,
  ),
  `CREATE TABLE api_keys (
    id TEXT PRIMARY KEY NOT NULL,
    store_id TEXT NOT NULL REFERENCES stores (id),
    name TEXT NOT NULL,
    key_prefix TEXT NOT NULL,
    key_hash TEXT NOT NULL UNIQUE,
    is_active INTEGER NOT NULL,
    last_used_at_ms INTEGER,
    revoked_at_ms INTEGER,
    created_at_ms INTEGER NOT NULL
  ) STRICT`,
  'CREATE INDEX api_keys_store ON api_keys (store_id, created_at_ms)',
]

const links = [
  `CREATE TABLE links (
    id TEXT PRIMARY KEY NOT NULL,
    store_id TEXT NOT NULL REFERENCES stores (id),
    url TEXT NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    slug TEXT NOT NULL,
    price TEXT NOT NULL,
    is_public INTEGER NOT NULL,
    is_active INTEGER NOT NULL,
    link_type TEXT NOT NULL,
    is_stealth INTEGER NOT NULL,
    private_slug TEXT,
    webhook_url TEXT,
    methods TEXT NOT NULL,
    input_schema TEXT,
    output_example TEXT,
    tags TEXT NOT NULL,
    icon_url TEXT,
    response_mode TEXT NOT NULL,
    settle TEXT NOT NULL,
    upstream_headers_sealed TEXT,
    suspension TEXT,
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    version INTEGER NOT NULL,
    CHECK (is_stealth = 0 OR private_slug IS NOT NULL)
  ) STRICT`,
  'CREATE UNIQUE INDEX links_slug ON links (store_id, slug) WHERE is_active = 1',
  'CREATE UNIQUE INDEX links_private_slug ON links (store_id, private_slug) WHERE is_active = 1',
  'CREATE INDEX links_store ON links (store_id, created_at_ms)',
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
  `CREATE TABLE health_events (
    id INTEGER PRIMARY KEY,
    link_id TEXT NOT NULL REFERENCES links (id),
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('probe', 'suspended', 're-enabled')),
    ok INTEGER NOT NULL,
    status INTEGER,
    latency_ms INTEGER,
    detail TEXT NOT NULL
  ) STRICT`,
  'CREATE INDEX health_events_link ON health_events (link_id, at_ms)',
]

const signIn = [
  `CREATE TABLE sign_in_nonces (
    nonce TEXT PRIMARY KEY NOT NULL,
    chain TEXT NOT NULL,
    address TEXT NOT NULL,
    message TEXT NOT NULL,
    expires_at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX sign_in_nonces_expiry ON sign_in_nonces (expires_at_ms)',
  `CREATE TABLE signups (
    message_hash TEXT PRIMARY KEY NOT NULL,
    store_id TEXT NOT NULL REFERENCES stores (id),
    expires_at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX signups_expiry ON signups (expires_at_ms)',
]

// Triggers, and not the callers, note what changed: the note commits with the change itself, whoever makes it, so a
// process that dies after its commit can't leave its neighbours with an old price.
const changes = [
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
  // Readers ask twice a second; whoever finds that rows are gone which it has not read drops everything it cached.
  `CREATE TRIGGER changes_pruned AFTER INSERT ON changes WHEN NEW.id % 100 = 0 BEGIN
    DELETE FROM changes WHERE id <= NEW.id - 10000;
  END`,
]

/** The last part of a link's address: the private slug for a stealth link, the slug for others. */
function addressOf(row: 'NEW' | 'OLD'): string {
  return `CASE ${row}.is_stealth WHEN 1 THEN ${row}.private_slug ELSE ${row}.slug END`
}

/** For rows that are written often: each run of a statement would build a table of its own for an IN with many values. */
function oneOf(column: string, values: readonly string[]): string {
  return values.map((value) => `${column} = '${value}'`).join(' OR ')
}

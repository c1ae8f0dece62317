/** Sellers' stores: names, wallets, keys, images and sign-in. */
export const stores = [
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
    updated_at_ms INTEGER NOT NULL,
    payout_changed_at_ms INTEGER,
    socials TEXT NOT NULL DEFAULT '[]', -- a JSON list
    payout_base_since_ms INTEGER, -- null while it is the wallet that the store was created with
    payout_solana_since_ms INTEGER -- null while it is the wallet that the store was created with
  ) STRICT`,
  'CREATE INDEX stores_payout_base ON stores (payout_base) WHERE payout_base IS NOT NULL',
  'CREATE INDEX stores_payout_solana ON stores (payout_solana) WHERE payout_solana IS NOT NULL',
  `CREATE TABLE store_wallets (
    chain TEXT NOT NULL,
    address TEXT NOT NULL, -- EVM addresses in lower case
    store_id TEXT NOT NULL REFERENCES stores (id),
    PRIMARY KEY (chain, address)
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX store_wallets_store ON store_wallets (store_id)',
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

/** A store's former usernames, and the times of its latest renames, which are limited per day. */
export const renames = [
  `CREATE TABLE username_redirects (
    username TEXT PRIMARY KEY NOT NULL,
    store_id TEXT NOT NULL REFERENCES stores (id),
    expires_at_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE renames (
    store_id TEXT NOT NULL REFERENCES stores (id),
    at_ms INTEGER NOT NULL
  ) STRICT`,
  'CREATE INDEX renames_store ON renames (store_id, at_ms)',
]

/** Uploaded images. The bytes are stored once for all stores that show the image. */
export const images = [
  `CREATE TABLE images (
    hash TEXT PRIMARY KEY NOT NULL,
    media_type TEXT NOT NULL,
    bytes BLOB NOT NULL
  ) STRICT`,
  `CREATE TABLE store_images (
    store_id TEXT PRIMARY KEY NOT NULL REFERENCES stores (id),
    hash TEXT NOT NULL
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX store_images_hash ON store_images (hash)',
]

export const signIn = [
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
  // Nonces of sign-ins to links that were accepted. They stay until no process accepts them any more.
  `CREATE TABLE used_sign_ins (
    nonce TEXT PRIMARY KEY NOT NULL,
    kept_until_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID`,
  'CREATE INDEX used_sign_ins_kept ON used_sign_ins (kept_until_ms)',
  `CREATE TABLE browser_sessions (
    id TEXT PRIMARY KEY NOT NULL,
    store_id TEXT NOT NULL, -- empty: the operator
    token_hash TEXT NOT NULL UNIQUE,
    chain TEXT,
    address TEXT,
    user_agent TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    last_seen_at_ms INTEGER NOT NULL,
    ends_at_ms INTEGER NOT NULL
  ) STRICT`,
  'CREATE INDEX browser_sessions_holder ON browser_sessions (store_id, last_seen_at_ms)',
  'CREATE INDEX browser_sessions_end ON browser_sessions (ends_at_ms)',
]

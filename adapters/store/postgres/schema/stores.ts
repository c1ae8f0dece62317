/** Sellers' stores: wallets, keys, names, images. */
export const stores = `
  CREATE TABLE stores (
    id text COLLATE "C" PRIMARY KEY,
    username text COLLATE "C" NOT NULL UNIQUE,
    display_name text COLLATE "C" NOT NULL,
    bio text COLLATE "C" NOT NULL,
    avatar_url text COLLATE "C" NOT NULL,
    developer_mode_enabled smallint NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    payout_base text COLLATE "C",
    payout_solana text COLLATE "C",
    created_at_ms bigint NOT NULL,
    updated_at_ms bigint NOT NULL,
    payout_changed_at_ms bigint,
    socials text COLLATE "C" NOT NULL DEFAULT '[]', -- a JSON list
    payout_base_since_ms bigint, -- null while it is the wallet that the store was created with
    payout_solana_since_ms bigint
  );
  CREATE INDEX stores_payout_base ON stores (payout_base) WHERE payout_base IS NOT NULL;
  CREATE INDEX stores_payout_solana ON stores (payout_solana) WHERE payout_solana IS NOT NULL;
  CREATE TABLE store_wallets (
    chain text COLLATE "C" NOT NULL,
    address text COLLATE "C" NOT NULL,
    store_id text COLLATE "C" NOT NULL REFERENCES stores (id),
    PRIMARY KEY (chain, address)
  );
  CREATE INDEX store_wallets_store ON store_wallets (store_id);
  CREATE TABLE api_keys (
    id text COLLATE "C" PRIMARY KEY,
    store_id text COLLATE "C" NOT NULL REFERENCES stores (id),
    name text COLLATE "C" NOT NULL,
    key_prefix text COLLATE "C" NOT NULL,
    key_hash text COLLATE "C" NOT NULL UNIQUE,
    is_active smallint NOT NULL,
    last_used_at_ms bigint,
    revoked_at_ms bigint,
    created_at_ms bigint NOT NULL
  );
  CREATE INDEX api_keys_store ON api_keys (store_id, created_at_ms);
  CREATE TABLE username_redirects (
    username text COLLATE "C" PRIMARY KEY,
    store_id text COLLATE "C" NOT NULL REFERENCES stores (id),
    expires_at_ms bigint NOT NULL
  );
  CREATE TABLE renames (
    store_id text COLLATE "C" NOT NULL REFERENCES stores (id),
    at_ms bigint NOT NULL
  );
  CREATE INDEX renames_store ON renames (store_id, at_ms);

  CREATE TABLE images (
    hash text COLLATE "C" PRIMARY KEY,
    media_type text COLLATE "C" NOT NULL,
    bytes bytea NOT NULL
  );
  CREATE TABLE store_images (
    store_id text COLLATE "C" PRIMARY KEY REFERENCES stores (id),
    hash text COLLATE "C" NOT NULL
  );
  CREATE INDEX store_images_hash ON store_images (hash);
`

export const signIn = `
  CREATE TABLE sign_in_nonces (
    nonce text COLLATE "C" PRIMARY KEY,
    chain text COLLATE "C" NOT NULL,
    address text COLLATE "C" NOT NULL,
    message text COLLATE "C" NOT NULL,
    expires_at_ms bigint NOT NULL
  );
  CREATE INDEX sign_in_nonces_expiry ON sign_in_nonces (expires_at_ms);
  CREATE TABLE signups (
    message_hash text COLLATE "C" PRIMARY KEY,
    store_id text COLLATE "C" NOT NULL REFERENCES stores (id),
    expires_at_ms bigint NOT NULL
  );
  CREATE INDEX signups_expiry ON signups (expires_at_ms);
  -- Nonces of sign-ins to links that were accepted. They stay until no process accepts them any more.
  CREATE TABLE used_sign_ins (
    nonce text COLLATE "C" PRIMARY KEY,
    kept_until_ms bigint NOT NULL
  );
  CREATE INDEX used_sign_ins_kept ON used_sign_ins (kept_until_ms);
  CREATE TABLE browser_sessions (
    id text COLLATE "C" PRIMARY KEY,
    store_id text COLLATE "C" NOT NULL, -- empty: the operator
    token_hash text COLLATE "C" NOT NULL UNIQUE,
    chain text COLLATE "C",
    address text COLLATE "C",
    user_agent text COLLATE "C" NOT NULL,
    created_at_ms bigint NOT NULL,
    last_seen_at_ms bigint NOT NULL,
    ends_at_ms bigint NOT NULL
  );
  CREATE INDEX browser_sessions_end ON browser_sessions (ends_at_ms);
  CREATE INDEX browser_sessions_holder ON browser_sessions (store_id, last_seen_at_ms);
`

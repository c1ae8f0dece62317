import { fn } from './fn.ts'

// A username is held from when a transaction takes or leaves it: the next transaction that takes it waits for the commit.
const holdUsername = (name: string) =>
  `PERFORM pg_advisory_xact_lock(hashtextextended(TG_TABLE_SCHEMA || ':username:' || ${name}, 0));`

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
    at_ms bigint NOT NULL,
    max_a_day bigint NOT NULL
  );
  CREATE INDEX renames_store ON renames (store_id, at_ms);

  -- While a former username redirects, it is reserved: another store that took it would get the first store's calls.
  ${fn(
    'before_stores_name',
    `IF TG_OP = 'UPDATE' THEN
      ${holdUsername('least(OLD.username, NEW.username)')}
      ${holdUsername('greatest(OLD.username, NEW.username)')}
    ELSE
      ${holdUsername('NEW.username')}
    END IF;
    IF EXISTS (SELECT 1 FROM username_redirects
        WHERE username = NEW.username AND store_id <> NEW.id AND expires_at_ms > NEW.updated_at_ms) THEN
      RAISE EXCEPTION 'a former username is another store''s'
        USING ERRCODE = 'unique_violation', CONSTRAINT = 'stores_username_key';
    END IF;`,
  )}
  CREATE TRIGGER stores_name_0 BEFORE INSERT ON stores FOR EACH ROW EXECUTE FUNCTION before_stores_name();
  CREATE TRIGGER stores_name_1 BEFORE UPDATE OF username ON stores FOR EACH ROW
    WHEN (OLD.username <> NEW.username) EXECUTE FUNCTION before_stores_name();

  ${fn(
    'before_renames_counted',
    `PERFORM 1 FROM stores WHERE id = NEW.store_id FOR NO KEY UPDATE;
    IF (SELECT count(*) FROM renames
        WHERE store_id = NEW.store_id AND at_ms > NEW.at_ms - 86400000) >= NEW.max_a_day THEN
      RAISE EXCEPTION 'too many renames' USING ERRCODE = 'check_violation', CONSTRAINT = 'renames_counted';
    END IF;`,
  )}
  CREATE TRIGGER renames_counted BEFORE INSERT ON renames FOR EACH ROW EXECUTE FUNCTION before_renames_counted();

  CREATE TABLE pictures (
    hash text COLLATE "C" PRIMARY KEY,
    media_type text COLLATE "C" NOT NULL,
    bytes bytea NOT NULL
  );
  CREATE TABLE store_pictures (
    store_id text COLLATE "C" PRIMARY KEY REFERENCES stores (id),
    hash text COLLATE "C" NOT NULL
  );
  CREATE INDEX store_pictures_hash ON store_pictures (hash);
  -- A transaction that begins to show the image has its row locked: it is seen once that transaction is over.
  ${fn(
    'store_pictures_gone',
    `PERFORM 1 FROM pictures WHERE hash = OLD.hash FOR UPDATE;
    DELETE FROM pictures WHERE hash = OLD.hash AND NOT EXISTS (SELECT 1 FROM store_pictures WHERE hash = OLD.hash);`,
  )}
  CREATE TRIGGER store_pictures_deleted AFTER DELETE ON store_pictures FOR EACH ROW
    EXECUTE FUNCTION store_pictures_gone();
  CREATE TRIGGER store_pictures_replaced AFTER UPDATE OF hash ON store_pictures FOR EACH ROW
    WHEN (OLD.hash <> NEW.hash) EXECUTE FUNCTION store_pictures_gone();

  ${fn(
    'stores_pictured',
    'DELETE FROM store_pictures WHERE store_id = NEW.id AND strpos(NEW.avatar_url, hash) = 0;',
  )}
  CREATE TRIGGER stores_pictured AFTER UPDATE OF avatar_url ON stores FOR EACH ROW
    WHEN (NEW.avatar_url <> OLD.avatar_url) EXECUTE FUNCTION stores_pictured();
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
  CREATE TABLE browser_sessions (
    id text COLLATE "C" PRIMARY KEY,
    store_id text COLLATE "C",
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

import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/**
 * What follows from a change of a link, a store, a picture or a review, in the same transaction, whoever makes it. The functions
 * look for their tables where they were made, whatever the caller's search path is.
 */
export const links: Migration = {
  async up(db: Kysely<unknown>) {
    await sql.raw(statements).execute(db)
  },
}

const fn = (name: string, body: string) => `
  CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
  BEGIN
    ${body}
    RETURN ${name.startsWith('before_') ? 'NEW' : 'NULL'};
  END $$;`

const slugOf = (row: 'NEW' | 'OLD') =>
  `(CASE ${row}.is_stealth WHEN 1 THEN ${row}.private_slug ELSE ${row}.slug END)`

const isAsked = (row: 'NEW' | 'OLD') =>
  `(${row}.is_active = 1 AND ${row}.link_type = 'api' AND ${row}.suspension IS NULL)`

// A name is somebody's from the moment that whoever takes it, or leaves it, begins to: who asks next waits for that to be over.
const holdUsername = (name: string) =>
  `PERFORM pg_advisory_xact_lock(hashtextextended(TG_TABLE_SCHEMA || ':username:' || ${name}, 0));`

const statements = `
  -- Which transaction wrote a change: ids are given out before the commit, and so in no order that a reader could go by.
  ALTER TABLE changes ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
  CREATE INDEX changes_xid ON changes (xid, id);

  -- What every transaction before snapshot had written is gone when the next row replaces this one.
  CREATE TABLE changes_pruned (
    id bigint PRIMARY KEY CHECK (id = 1),
    generation bigint NOT NULL,
    snapshot pg_snapshot NOT NULL,
    at_ms bigint NOT NULL
  );
  INSERT INTO changes_pruned VALUES (1, 1, pg_current_snapshot(), 0);
  -- Empty after a crash, and on a copy that took over: numbers of transactions that were lost are given out again there.
  CREATE UNLOGGED TABLE changes_run (id bigint PRIMARY KEY CHECK (id = 1), run uuid NOT NULL);

  ${fn('changes_told', `PERFORM pg_notify('tollgate_' || md5(TG_TABLE_SCHEMA), 'changes');`)}
  CREATE TRIGGER changes_told AFTER INSERT ON changes FOR EACH STATEMENT EXECUTE FUNCTION changes_told();

  ${fn(
    'links_inserted',
    `INSERT INTO changes (kind, username, slug)
      SELECT 'link', username, ${slugOf('NEW')} FROM stores WHERE id = NEW.store_id;`,
  )}
  CREATE TRIGGER links_inserted AFTER INSERT ON links FOR EACH ROW EXECUTE FUNCTION links_inserted();

  ${fn(
    'links_updated',
    `INSERT INTO changes (kind, username, slug)
      SELECT 'link', username, ${slugOf('NEW')} FROM stores WHERE id = NEW.store_id;
    IF ${slugOf('OLD')} <> ${slugOf('NEW')} THEN
      INSERT INTO changes (kind, username, slug)
        SELECT 'link', username, ${slugOf('OLD')} FROM stores WHERE id = OLD.store_id;
    END IF;`,
  )}
  CREATE TRIGGER links_updated AFTER UPDATE ON links FOR EACH ROW EXECUTE FUNCTION links_updated();

  ${fn('links_checked', 'INSERT INTO link_checks (link_id, due_at_ms) VALUES (NEW.id, NEW.created_at_ms);')}
  CREATE TRIGGER links_checked AFTER INSERT ON links FOR EACH ROW
    WHEN ${isAsked('NEW')} EXECUTE FUNCTION links_checked();

  ${fn(
    'links_checked_anew',
    `INSERT INTO link_checks (link_id, due_at_ms)
      VALUES (NEW.id, CASE WHEN ${isAsked('NEW')} THEN NEW.updated_at_ms END)
      ON CONFLICT (link_id) DO UPDATE SET due_at_ms = excluded.due_at_ms;`,
  )}
  CREATE TRIGGER links_checked_anew AFTER UPDATE OF is_active, link_type, suspension, url ON links FOR EACH ROW
    WHEN (${isAsked('OLD')} <> ${isAsked('NEW')} OR OLD.url <> NEW.url) EXECUTE FUNCTION links_checked_anew();

  ${fn(
    'links_sessions_canceled',
    `UPDATE payment_sessions SET state = 'canceled', ended_at_ms = NEW.updated_at_ms
      WHERE link_id = NEW.id AND state = 'open' AND payment_id IS NULL AND expires_at_ms > NEW.updated_at_ms;`,
  )}
  CREATE TRIGGER links_sessions_canceled AFTER UPDATE OF is_active ON links FOR EACH ROW
    WHEN (OLD.is_active = 1 AND NEW.is_active = 0) EXECUTE FUNCTION links_sessions_canceled();
  -- Few are: whoever oversees all stores looks at no other link.
  CREATE INDEX links_suspended ON links (id) WHERE suspension IS NOT NULL AND is_active = 1;

  ${fn('stores_inserted', `INSERT INTO changes (kind, username) VALUES ('store', NEW.username);`)}
  CREATE TRIGGER stores_inserted AFTER INSERT ON stores FOR EACH ROW EXECUTE FUNCTION stores_inserted();

  ${fn(
    'stores_updated',
    `INSERT INTO changes (kind, username) VALUES ('store', NEW.username);
    IF OLD.username <> NEW.username THEN
      INSERT INTO changes (kind, username) VALUES ('store', OLD.username);
    END IF;`,
  )}
  CREATE TRIGGER stores_updated AFTER UPDATE ON stores FOR EACH ROW EXECUTE FUNCTION stores_updated();

  ${fn('username_redirects_deleted', `INSERT INTO changes (kind, username) VALUES ('store', OLD.username);`)}
  CREATE TRIGGER username_redirects_deleted AFTER DELETE ON username_redirects FOR EACH ROW
    EXECUTE FUNCTION username_redirects_deleted();

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

  -- Whoever begins to show the picture meanwhile has its row: it is seen once that is over.
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

  ${fn(
    'reviews_counted',
    `INSERT INTO review_counts AS c (link_id, total, positive) VALUES (NEW.link_id, 1, NEW.positive)
      ON CONFLICT (link_id) DO UPDATE SET total = c.total + 1, positive = c.positive + excluded.positive;`,
  )}
  CREATE TRIGGER reviews_counted AFTER INSERT ON reviews FOR EACH ROW EXECUTE FUNCTION reviews_counted();
`

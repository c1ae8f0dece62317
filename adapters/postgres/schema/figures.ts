/** Traffic of a store, of all of its links together. */
const trafficOf = (unit: 'day' | 'hour') => `
  CREATE FUNCTION add_${unit}_of_store() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    more_views bigint := NEW.views;
    more_challenges bigint := NEW.challenges;
  BEGIN
    IF TG_OP = 'UPDATE' THEN
      more_views := more_views - OLD.views;
      more_challenges := more_challenges - OLD.challenges;
    END IF;
    IF more_views <> 0 OR more_challenges <> 0 THEN
      INSERT INTO store_${unit}s AS s (store_id, ${unit}, views, challenges)
        SELECT store_id, NEW.${unit}, more_views, more_challenges FROM links WHERE id = NEW.link_id
        ON CONFLICT (store_id, ${unit}) DO UPDATE
        SET views = s.views + excluded.views, challenges = s.challenges + excluded.challenges;
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER link_${unit}s_summed AFTER INSERT OR UPDATE OF views, challenges ON link_${unit}s FOR EACH ROW
    EXECUTE FUNCTION add_${unit}_of_store();
`

/** Traffic and calls by link and store, by the day, and lately by the hour. */
export const figures = `
  CREATE TABLE link_days (
    link_id text COLLATE "C" NOT NULL,
    day bigint NOT NULL, -- days since 1970
    views bigint NOT NULL DEFAULT 0,
    challenges bigint NOT NULL DEFAULT 0, -- responses 402
    calls bigint NOT NULL DEFAULT 0,
    failed_calls bigint NOT NULL DEFAULT 0,
    probes bigint NOT NULL DEFAULT 0,
    failed_probes bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (link_id, day)
  );
  CREATE TABLE link_hours (
    link_id text COLLATE "C" NOT NULL,
    hour bigint NOT NULL, -- hours since 1970
    views bigint NOT NULL,
    challenges bigint NOT NULL,
    PRIMARY KEY (link_id, hour)
  );
  CREATE TABLE store_days (
    store_id text COLLATE "C" NOT NULL,
    day bigint NOT NULL, -- days since 1970
    views bigint NOT NULL,
    challenges bigint NOT NULL,
    PRIMARY KEY (store_id, day)
  );
  CREATE TABLE store_hours (
    store_id text COLLATE "C" NOT NULL,
    hour bigint NOT NULL, -- hours since 1970
    views bigint NOT NULL,
    challenges bigint NOT NULL,
    PRIMARY KEY (store_id, hour)
  );
${trafficOf('day')}${trafficOf('hour')}
  CREATE FUNCTION forget_old_hours() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF TG_TABLE_NAME = 'link_hours' THEN
      DELETE FROM link_hours WHERE link_id = NEW.link_id AND hour < NEW.hour - 62 * 24;
    ELSE
      DELETE FROM store_hours WHERE store_id = NEW.store_id AND hour < NEW.hour - 62 * 24;
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER link_hours_kept AFTER INSERT ON link_hours FOR EACH ROW EXECUTE FUNCTION forget_old_hours();
  CREATE TRIGGER store_hours_kept AFTER INSERT ON store_hours FOR EACH ROW EXECUTE FUNCTION forget_old_hours();
`

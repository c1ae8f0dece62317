/** How long traffic by the hour is kept: a period of thirty days and the one before it (core/ports/store/figures.ts), in hours. */
const keptHours = '62 * 24'

/** Traffic of a whole store: the sum of its links. */
const storeTraffic = (unit: 'day' | 'hour') => {
  const add = (views: string, challenges: string) => `
      INSERT INTO store_${unit}s (store_id, ${unit}, views, challenges)
        SELECT store_id, NEW.${unit}, ${views}, ${challenges} FROM links WHERE id = NEW.link_id
        ON CONFLICT (store_id, ${unit}) DO UPDATE
        SET views = views + excluded.views, challenges = challenges + excluded.challenges`
  return [
    `CREATE TABLE store_${unit}s (
      store_id TEXT NOT NULL,
      ${unit} INTEGER NOT NULL, -- ${unit}s since 1970
      views INTEGER NOT NULL,
      challenges INTEGER NOT NULL,
      PRIMARY KEY (store_id, ${unit})
    ) STRICT, WITHOUT ROWID`,
    `CREATE TRIGGER link_${unit}s_summed AFTER INSERT ON link_${unit}s WHEN NEW.views <> 0 OR NEW.challenges <> 0 BEGIN
      ${add('NEW.views', 'NEW.challenges')};
    END`,
    `CREATE TRIGGER link_${unit}s_summed_anew AFTER UPDATE OF views, challenges ON link_${unit}s
      WHEN NEW.views <> OLD.views OR NEW.challenges <> OLD.challenges BEGIN
      ${add('NEW.views - OLD.views', 'NEW.challenges - OLD.challenges')};
    END`,
  ]
}

/** Traffic and calls by link and store, by the day, and lately by the hour. */
export const figures = [
  `CREATE TABLE link_days (
    link_id TEXT NOT NULL,
    day INTEGER NOT NULL, -- days since 1970
    views INTEGER NOT NULL DEFAULT 0,
    challenges INTEGER NOT NULL DEFAULT 0, -- responses 402
    calls INTEGER NOT NULL DEFAULT 0,
    failed_calls INTEGER NOT NULL DEFAULT 0,
    probes INTEGER NOT NULL DEFAULT 0,
    failed_probes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (link_id, day)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TABLE link_hours (
    link_id TEXT NOT NULL,
    hour INTEGER NOT NULL, -- hours since 1970
    views INTEGER NOT NULL,
    challenges INTEGER NOT NULL,
    PRIMARY KEY (link_id, hour)
  ) STRICT, WITHOUT ROWID`,
  `CREATE TRIGGER link_hours_kept AFTER INSERT ON link_hours BEGIN
    DELETE FROM link_hours WHERE link_id = NEW.link_id AND hour < NEW.hour - ${keptHours};
  END`,
  ...storeTraffic('day'),
  ...storeTraffic('hour'),
  `CREATE TRIGGER store_hours_kept AFTER INSERT ON store_hours BEGIN
    DELETE FROM store_hours WHERE store_id = NEW.store_id AND hour < NEW.hour - ${keptHours};
  END`,
]

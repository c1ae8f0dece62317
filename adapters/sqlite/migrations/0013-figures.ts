import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/**
 * What calls and health checks come to, by link and day, and lately by the hour. Never edited once released: a change is a new
 * migration.
 */
export const figures: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const dayMs = 86_400_000

const statements = [
  `CREATE TABLE link_days (
    link_id TEXT NOT NULL,
    day INTEGER NOT NULL,
    views INTEGER NOT NULL DEFAULT 0,
    challenges INTEGER NOT NULL DEFAULT 0,
    calls INTEGER NOT NULL DEFAULT 0,
    failed_calls INTEGER NOT NULL DEFAULT 0,
    probes INTEGER NOT NULL DEFAULT 0,
    failed_probes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (link_id, day)
  ) STRICT, WITHOUT ROWID`,
  `INSERT INTO link_days (link_id, day, views)
    SELECT link_id, CAST(unixepoch(day) AS INTEGER) / 86400, count FROM link_views`,
  'DROP TABLE link_views',
  `INSERT INTO link_days (link_id, day, probes, failed_probes)
    SELECT link_id, at_ms / ${dayMs}, count(*), sum(1 - ok) FROM health_events WHERE kind = 'probe' GROUP BY 1, 2
    ON CONFLICT (link_id, day) DO UPDATE SET probes = excluded.probes, failed_probes = excluded.failed_probes`,
  `CREATE TABLE link_hours (
    link_id TEXT NOT NULL,
    hour INTEGER NOT NULL,
    views INTEGER NOT NULL,
    challenges INTEGER NOT NULL,
    PRIMARY KEY (link_id, hour)
  ) STRICT, WITHOUT ROWID`,
  // Sixty-two days: a period of thirty and the one before (core/ports/store/figures.ts).
  `CREATE TRIGGER link_hours_kept AFTER INSERT ON link_hours BEGIN
    DELETE FROM link_hours WHERE link_id = NEW.link_id AND hour < NEW.hour - 62 * 24;
  END`,
  // Noted with the health check itself, whoever makes it.
  `CREATE TRIGGER health_events_counted AFTER INSERT ON health_events WHEN NEW.kind = 'probe' BEGIN
    INSERT INTO link_days (link_id, day, probes, failed_probes) VALUES (NEW.link_id, NEW.at_ms / ${dayMs}, 1, 1 - NEW.ok)
      ON CONFLICT (link_id, day) DO UPDATE
      SET probes = probes + 1, failed_probes = failed_probes + excluded.failed_probes;
  END`,
  // A page asks for the few of them among ten thousand health checks.
  `CREATE INDEX health_events_changes ON health_events (link_id, at_ms) WHERE kind <> 'probe'`,
  // There are few refunds, and they belong to sales of any time.
  'CREATE INDEX refunds_time ON refunds (refunded_at_ms)',
]

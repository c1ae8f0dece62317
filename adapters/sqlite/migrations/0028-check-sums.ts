import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/**
 * Health checks are summed up by the hour, and each link has its turn. What was kept one by one is summed up later, a few at a
 * time (`HealthChecks.sumUpOld`): there may be hundreds of millions. Never edited once released: a change is a new migration.
 */
export const checkSums: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

/** It can be called, and there is an API behind it. */
const isAsked = (row: string) =>
  `(${row}.is_active = 1 AND ${row}.link_type = 'api' AND ${row}.suspension IS NULL)`

const statements = [
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
  `CREATE TABLE check_hours (
    link_id TEXT NOT NULL,
    hour INTEGER NOT NULL,
    checks INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    latency_sum_ms INTEGER NOT NULL,
    latency_max_ms INTEGER NOT NULL,
    PRIMARY KEY (link_id, hour)
  ) STRICT, WITHOUT ROWID`,
  // The last one that is left to sum up; no row, when there is none.
  'CREATE TABLE unsummed_checks (next_id INTEGER NOT NULL, last_id INTEGER NOT NULL) STRICT',
  `INSERT INTO unsummed_checks (next_id, last_id)
    SELECT min(id), max(id) FROM health_events HAVING count(*) > 0`,
  'DROP TRIGGER health_events_counted',
  `INSERT INTO link_checks (link_id, due_at_ms, at_ms, ok, status, latency_ms, detail)
    SELECT l.id, CASE WHEN ${isAsked('l')} THEN 0 END, h.at_ms, h.ok, h.status, h.latency_ms, h.detail
    FROM links l LEFT JOIN health_events h ON h.id = (
      SELECT id FROM health_events INDEXED BY health_events_link
        WHERE link_id = l.id AND kind = 'probe' AND asked_by_seller = 0 ORDER BY at_ms DESC LIMIT 1)
    WHERE l.link_type = 'api'`,
  'CREATE INDEX link_checks_due ON link_checks (queue, due_at_ms) WHERE due_at_ms IS NOT NULL',
  `CREATE TRIGGER links_checked AFTER INSERT ON links WHEN ${isAsked('NEW')} BEGIN
    INSERT INTO link_checks (link_id, due_at_ms) VALUES (NEW.id, NEW.created_at_ms);
  END`,
  `CREATE TRIGGER links_checked_anew AFTER UPDATE OF is_active, link_type, suspension, url ON links
    WHEN ${isAsked('OLD')} <> ${isAsked('NEW')} OR OLD.url <> NEW.url BEGIN
    INSERT INTO link_checks (link_id, due_at_ms)
      VALUES (NEW.id, CASE WHEN ${isAsked('NEW')} THEN NEW.updated_at_ms END)
      ON CONFLICT (link_id) DO UPDATE SET due_at_ms = excluded.due_at_ms;
  END`,
]

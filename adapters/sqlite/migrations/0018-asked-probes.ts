import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Health checks that a seller asked for stand in the timeline only. Never edited once released: a change is a new migration. */
export const askedProbes: Migration = {
  async up(db: Kysely<unknown>) {
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
}

const statements = [
  'ALTER TABLE health_events ADD COLUMN asked_by_seller INTEGER NOT NULL DEFAULT 0',
  'DROP TRIGGER health_events_counted',
  `CREATE TRIGGER health_events_counted AFTER INSERT ON health_events
    WHEN NEW.kind = 'probe' AND NEW.asked_by_seller = 0 BEGIN
    INSERT INTO link_days (link_id, day, probes, failed_probes) VALUES (NEW.link_id, NEW.at_ms / 86400000, 1, 1 - NEW.ok)
      ON CONFLICT (link_id, day) DO UPDATE
      SET probes = probes + 1, failed_probes = failed_probes + excluded.failed_probes;
  END`,
]

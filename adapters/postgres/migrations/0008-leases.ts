import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** A lease that was renewed after the time by which it is judged is nobody else's: it had counted as one of before the clock was set back. */
export const leases: Migration = {
  async up(db: Kysely<unknown>) {
    await sql.raw(statements).execute(db)
  },
}

// As of the first release, but for these five seconds: see CLOCK_BEHIND_MS of core/ports/store/leases.ts.
const statements = `
  CREATE OR REPLACE FUNCTION leases_take(
    p_name text, p_ttl_ms bigint, p_now_ms bigint, p_holder text, p_ended text[], p_kept_ms bigint
  )
  RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    now_ms bigint;
    taken bigint;
  BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('tollgate books ' || current_schema()), 999);
    now_ms := coalesce(p_now_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint);
    DELETE FROM leases WHERE expires_at_ms > now_ms + ttl_ms + 5000 OR expires_at_ms <= now_ms - p_kept_ms
      OR (name = p_name AND expires_at_ms <= now_ms) OR holder = ANY (p_ended);
    INSERT INTO leases (name, ttl_ms, expires_at_ms, holder) VALUES (p_name, p_ttl_ms, now_ms + p_ttl_ms, p_holder)
      ON CONFLICT (name) DO NOTHING RETURNING id INTO taken;
    RETURN taken;
  END $$;
`

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
  -- The one with fewer parameters stays, for processes of an older version that are still there.
  -- No lease is judged where the clock does not say a time from p_from_ms to p_to_ms: it was set, and living processes have not renewed yet.
  CREATE FUNCTION leases_take(
    p_name text, p_ttl_ms bigint, p_now_ms bigint, p_holder text, p_ended text[], p_kept_ms bigint, p_from_ms bigint, p_to_ms bigint
  )
  RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    now_ms bigint;
    taken bigint;
  BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('tollgate books ' || current_schema()), 999);
    now_ms := coalesce(p_now_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint);
    DELETE FROM leases WHERE holder = ANY (p_ended) OR (now_ms BETWEEN p_from_ms AND p_to_ms AND (
      expires_at_ms > now_ms + ttl_ms + 5000 OR expires_at_ms <= now_ms - p_kept_ms
      OR (name = p_name AND expires_at_ms <= now_ms)));
    INSERT INTO leases (name, ttl_ms, expires_at_ms, holder) VALUES (p_name, p_ttl_ms, now_ms + p_ttl_ms, p_holder)
      ON CONFLICT (name) DO NOTHING RETURNING id INTO taken;
    RETURN taken;
  END $$;
`

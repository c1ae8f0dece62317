import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** Answers that were delivered go when they are never given again (docs/decisions/0003), long before those that are owed. */
export const delivered: Migration = {
  async up(db: Kysely<unknown>) {
    await sql.raw(statements).execute(db)
  },
}

const statements = `
  CREATE FUNCTION books_forget_delivered(p_before_ms bigint, p_after bigint, p_most int)
  RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    looked bigint[];
    gone bigint[];
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH page AS (
      SELECT p.id, p.claimed_at_ms FROM answers a JOIN payments p ON p.id = a.payment_id
      WHERE a.payment_id > p_after ORDER BY a.payment_id LIMIT p_most
    )
    SELECT array_agg(id ORDER BY id) INTO looked FROM page
      WHERE id <= (SELECT max(id) FROM page WHERE claimed_at_ms < p_before_ms);
    -- One that somebody is about to change is looked at another time.
    WITH held AS (
      SELECT p.id FROM payments p
      WHERE p.id = ANY (looked) AND p.claimed_at_ms < p_before_ms AND p.state = 'delivered'
      ORDER BY p.id FOR NO KEY UPDATE SKIP LOCKED
    )
    SELECT array_agg(id) INTO gone FROM held;
    DELETE FROM answers WHERE payment_id = ANY (gone);
    RETURN coalesce(looked[array_length(looked, 1)], 0);
  END $$;
`

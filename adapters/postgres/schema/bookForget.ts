/** What is deleted of old payments: responses, payloads and signed bytes. */
export const bookForget = `
  CREATE FUNCTION books_forget_answers(p_before_ms bigint, p_most int, p_young_in_a_row int)
  RETURNS int LANGUAGE plpgsql AS $$
  DECLARE
    one record;
    young int := 0;
    forgotten int := 0;
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR one IN
      SELECT p.id, p.state, p.claimed_at_ms, p.updated_at_ms FROM answers a JOIN payments p ON p.id = a.payment_id
      ORDER BY a.payment_id
    LOOP
      EXIT WHEN forgotten = p_most OR young = p_young_in_a_row;
      young := CASE WHEN one.claimed_at_ms >= p_before_ms THEN young + 1 ELSE 0 END;
      CONTINUE WHEN one.state IN ('settling', 'pending') OR one.updated_at_ms >= p_before_ms;
      -- One that somebody is about to change is not so old.
      PERFORM 1 FROM payments WHERE id = one.id AND updated_at_ms < p_before_ms AND state NOT IN ('settling', 'pending')
        FOR NO KEY UPDATE SKIP LOCKED;
      CONTINUE WHEN NOT FOUND;
      DELETE FROM answers WHERE payment_id = one.id;
      forgotten := forgotten + 1;
    END LOOP;
    RETURN forgotten;
  END $$;

  -- What was signed of these payments is needed by nobody any more, see the port Books.
  CREATE FUNCTION books_is_over(p payments, p_before_ms bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT p.updated_at_ms < p_before_ms AND (p.state = 'rejected'
      OR (p.state IN ('delivered', 'refunded') AND p.due_at_ms IS NULL AND p.tx_hash IS NOT NULL
        AND (p.network NOT LIKE 'solana:%'
          OR EXISTS (SELECT 1 FROM attempts s WHERE s.payment_id = p.id AND (s.bytes <> '' OR s.is_shared = 1)))))
  $$;

  CREATE FUNCTION books_forget_signed(p_before_ms bigint, p_after bigint, p_most int)
  RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    old bigint[];
    one payments;
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH looked AS (
      SELECT p.id, p.claimed_at_ms FROM payment_payloads l JOIN payments p ON p.id = l.payment_id
      WHERE l.payment_id > p_after ORDER BY l.payment_id LIMIT p_most
    )
    SELECT array_agg(id ORDER BY id) INTO old FROM looked
      WHERE id <= (SELECT max(id) FROM looked WHERE claimed_at_ms < p_before_ms);
    FOR one IN
      SELECT p.* FROM payments p WHERE p.id = ANY (old) AND books_is_over(p, p_before_ms)
      ORDER BY p.id FOR NO KEY UPDATE SKIP LOCKED
    LOOP
      DELETE FROM payment_payloads WHERE payment_id = one.id;
      IF one.network NOT LIKE 'solana:%' THEN DELETE FROM attempts WHERE payment_id = one.id; END IF;
    END LOOP;
    RETURN coalesce(old[array_length(old, 1)], 0);
  END $$;

  -- Delivered responses are deleted when they are never given again (docs/decisions/0003), long before those that are owed.
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

import {
  AT_ONCE_PER_ENDPOINT,
  AT_ONCE_PER_STORE,
  DELIVERY_LEASE_MS,
  LONGEST_WAIT_MS,
  TRIES_KEPT,
} from '../../../core/ports/store/webhooks.ts'

/** Deliveries whose time has come that are marked so in one go, the latest first. */
const MARKED_AT_ONCE = 1_000
/** Stores, and endpoints of a store, that are looked at in one go. */
const STORES_VISITED = 100
const ENDPOINTS_VISITED = 50

/** A lease that expires further ahead than this was given by a clock that has been set back: see LONGEST_HELD_MS of the port. */
const LONGEST_HELD_MS = DELIVERY_LEASE_MS + 5_000
const isHeld = `(leased_until_ms > store_now AND leased_until_ms <= store_now + ${LONGEST_HELD_MS})`

const take = `
  -- One process at a time chooses, so that what is in hand is counted right; it never waits for who writes an outcome.
  CREATE FUNCTION take_webhooks(most bigint, now_ms bigint, store_now bigint, after_store text, OUT taken bigint[], OUT last_store text)
  LANGUAGE plpgsql AS $$
  DECLARE
    this_store text := after_store;
    next_store text;
    stores_around boolean := false;
    from_endpoint text;
    this_endpoint text;
    next_endpoint text;
    endpoints_around boolean;
    endpoint_visits integer;
    is_failing boolean;
    room bigint;
    these bigint[];
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock(hashtext(current_schema() || '.take_webhooks'));
    taken := '{}';
    UPDATE webhook_deliveries SET is_due = 1 WHERE n IN (
      SELECT n FROM webhook_deliveries
      WHERE state = 'waiting' AND is_due = 0 AND (due_at_ms <= now_ms OR due_at_ms > now_ms + ${LONGEST_WAIT_MS})
      ORDER BY due_at_ms DESC LIMIT ${MARKED_AT_ONCE} FOR UPDATE SKIP LOCKED);
    FOR store_visits IN 1..${STORES_VISITED} LOOP
      EXIT WHEN cardinality(taken) >= most;
      SELECT min(store_id) INTO next_store FROM webhook_deliveries
        WHERE state = 'waiting' AND is_due = 1 AND store_id > this_store;
      EXIT WHEN stores_around AND (next_store IS NULL OR next_store > after_store);
      IF next_store IS NULL THEN
        stores_around := true;
        this_store := '';
        CONTINUE;
      END IF;
      this_store := next_store;
      SELECT least(most - cardinality(taken), ${AT_ONCE_PER_STORE} - count(*)) INTO room FROM webhook_deliveries
        WHERE leased_until_ms IS NOT NULL AND store_id = this_store AND ${isHeld};
      -- From anywhere among them, so that no endpoint of a store is always the last.
      from_endpoint := gen_random_uuid()::text;
      this_endpoint := from_endpoint;
      endpoints_around := false;
      endpoint_visits := 0;
      WHILE room > 0 AND endpoint_visits < ${ENDPOINTS_VISITED} LOOP
        endpoint_visits := endpoint_visits + 1;
        SELECT min(endpoint_id) INTO next_endpoint FROM webhook_deliveries
          WHERE state = 'waiting' AND is_due = 1 AND store_id = this_store AND endpoint_id > this_endpoint;
        EXIT WHEN endpoints_around AND (next_endpoint IS NULL OR next_endpoint > from_endpoint);
        IF next_endpoint IS NULL THEN
          endpoints_around := true;
          this_endpoint := '';
          CONTINUE;
        END IF;
        this_endpoint := next_endpoint;
        SELECT failing_since_ms IS NOT NULL INTO is_failing FROM webhook_endpoints WHERE id = this_endpoint;
        CONTINUE WHEN NOT FOUND;
        -- The oldest first: behind a backlog nothing would ever come to its last try.
        WITH held AS (
          SELECT count(*) AS n FROM webhook_deliveries
          WHERE leased_until_ms IS NOT NULL AND store_id = this_store AND endpoint_id = this_endpoint AND ${isHeld}),
        due AS (
          SELECT d.n FROM webhook_deliveries d
          WHERE d.state = 'waiting' AND d.is_due = 1 AND d.store_id = this_store AND d.endpoint_id = this_endpoint
            AND NOT coalesce(${isHeld}, false)
          ORDER BY d.n
          LIMIT greatest(0, least(room, CASE WHEN is_failing THEN 1 ELSE ${AT_ONCE_PER_ENDPOINT} END - (SELECT n FROM held)))
          FOR UPDATE SKIP LOCKED),
        leased AS (
          UPDATE webhook_deliveries SET taking = taking + 1, leased_until_ms = store_now + ${DELIVERY_LEASE_MS}
          WHERE n IN (SELECT n FROM due) RETURNING n)
        SELECT coalesce(array_agg(n ORDER BY n), '{}') INTO these FROM leased;
        taken := taken || these;
        room := room - cardinality(these);
      END LOOP;
    END LOOP;
    last_store := this_store;
  END $$;
`

/** Creating, leasing and noting deliveries of webhooks. */
export const deliveries = `
  -- Whoever changes an endpoint and its deliveries has the endpoint first; whoever makes deliveries shares it until they are there.
  CREATE FUNCTION spread_webhooks(seqs bigint[], bodies text[], at_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    mine bigint[];
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH spread AS (
      UPDATE webhook_events v SET body = g.body FROM unnest(seqs, bodies) AS g (seq, body)
        WHERE v.seq = g.seq AND v.body IS NULL RETURNING v.seq)
    SELECT array_agg(seq) INTO mine FROM spread;
    PERFORM 1 FROM webhook_endpoints e
      WHERE e.store_id IN (SELECT v.store_id FROM webhook_events v WHERE v.seq = ANY (mine)) ORDER BY e.id FOR SHARE;
    INSERT INTO webhook_deliveries (id, event_seq, endpoint_id, store_id, state, due_at_ms, is_due, created_at_ms)
      SELECT gen_random_uuid()::text, v.seq, e.id, v.store_id, 'waiting', spread_webhooks.at_ms, 1, spread_webhooks.at_ms
      FROM webhook_events v JOIN webhook_endpoints e ON e.store_id = v.store_id AND e.disabled_at_ms IS NULL
        AND CASE WHEN v.endpoint_id IS NOT NULL THEN e.id = v.endpoint_id
          ELSE (e.link_id IS NULL OR e.link_id = v.link_id) AND strpos(e.kinds, '"' || v.kind || '"') > 0 END
      WHERE v.seq = ANY (mine) ORDER BY v.seq, e.id;
  END $$;

  ${take}

  CREATE FUNCTION note_webhook(
    delivery text, of_taking bigint, become text, next_due_ms bigint, try jsonb, off_reason text, off_since bigint
  ) RETURNS boolean LANGUAGE plpgsql AS $$
  DECLARE
    place bigint;
    endpoint text;
    is_off boolean;
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT d.endpoint_id INTO endpoint FROM webhook_deliveries d WHERE d.id = delivery;
    PERFORM 1 FROM webhook_endpoints WHERE id = endpoint FOR UPDATE;
    UPDATE webhook_deliveries SET state = become, due_at_ms = coalesce(next_due_ms, due_at_ms),
        is_due = (next_due_ms IS NULL)::int, tries = tries + (try IS NOT NULL)::int, leased_until_ms = NULL
      WHERE id = delivery AND taking = of_taking AND (state = 'waiting' OR state = 'held') RETURNING n INTO place;
    IF NOT FOUND THEN RETURN false; END IF;
    IF try IS NOT NULL THEN
      INSERT INTO webhook_tries (delivery, number, at_ms, status, latency_ms, error, answer)
        SELECT place, coalesce(max(t.number), 0) + 1, (try->>'atMs')::bigint, (try->>'status')::bigint,
          (try->>'latencyMs')::double precision::bigint, try->>'error', try->>'answer'
        FROM webhook_tries t WHERE t.delivery = place;
      DELETE FROM webhook_tries t WHERE t.delivery = place
        AND t.number <= (SELECT max(l.number) FROM webhook_tries l WHERE l.delivery = place) - ${TRIES_KEPT};
      IF become = 'delivered' THEN
        UPDATE webhook_endpoints SET failing_since_ms = NULL WHERE id = endpoint AND failing_since_ms IS NOT NULL;
      ELSE
        UPDATE webhook_endpoints SET failing_since_ms = (try->>'atMs')::bigint
          WHERE id = endpoint AND failing_since_ms IS NULL;
      END IF;
      IF off_reason IS NOT NULL THEN
        UPDATE webhook_endpoints SET disabled_at_ms = (try->>'atMs')::bigint, disabled_reason = off_reason,
            updated_at_ms = (try->>'atMs')::bigint
          WHERE id = endpoint AND disabled_at_ms IS NULL AND (off_since IS NULL OR failing_since_ms <= off_since);
      END IF;
    END IF;
    -- Whoever was disabled while this was on its way holds it, too.
    SELECT disabled_at_ms IS NOT NULL INTO is_off FROM webhook_endpoints WHERE id = endpoint;
    IF is_off THEN
      UPDATE webhook_deliveries SET state = 'held' WHERE endpoint_id = endpoint AND state = 'waiting';
    END IF;
    RETURN true;
  END $$;

  -- None that is still to be told: the clock may have been put ahead.
  CREATE FUNCTION forget_webhooks(before_ms bigint, most bigint) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    old bigint[];
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    old := ARRAY(SELECT v.seq FROM webhook_events v WHERE v.at_ms < before_ms AND v.body IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.event_seq = v.seq AND d.state = 'waiting')
      ORDER BY v.at_ms LIMIT most FOR UPDATE SKIP LOCKED);
    DELETE FROM webhook_tries WHERE delivery IN (SELECT n FROM webhook_deliveries WHERE event_seq = ANY (old));
    DELETE FROM webhook_deliveries WHERE event_seq = ANY (old);
    DELETE FROM webhook_events WHERE seq = ANY (old);
    RETURN cardinality(old);
  END $$;
`

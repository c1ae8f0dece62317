import { MAX_SETTLEMENT_FAILURES } from '../../../../core/domain/session.ts'

const payable = `(s.state = 'open' AND s.payment_id IS NULL AND s.expires_at_ms > p_now_ms)`
const linkIsGone = 'EXISTS (SELECT 1 FROM links l WHERE l.id = s.link_id AND l.is_active = 0)'

/**
 * Releases the session of a payment that failed. The session is then open again or has ended.
 * @param isOver SQL: whether it ends
 */
const releaseSql = (isOver: string) => `
  payment_id = NULL, state = CASE WHEN ${isOver} THEN 'failed' ELSE s.state END,
  ended_at_ms = CASE WHEN ${isOver} THEN p_now_ms ELSE s.ended_at_ms END
  WHERE s.id = c.session_id AND s.payment_id = c.row_id AND s.state = 'open'`

/** The type of a change of a payment, with the effects on the payment's session and on the outbox. */
const changeOfOne = `
  CREATE TYPE book_change AS (
    n int, row_id bigint, from_states text[], lease bigint, purchase_id text, to_state text, due_in_ms bigint,
    sets_lease boolean, taken_by bigint, sets_error boolean, error_reason text,
    sets_transfer boolean, tx_hash text, event text, block bigint, charged_atomic text,
    sets_attempt boolean, settler text, attempt_bytes text, attempt_tx text, sequence text, is_shared boolean,
    sets_answer boolean, status bigint, headers text, body_from int, body_length int,
    purchase jsonb, purchase_status text, entries text,
    refund_network text, refund_tx text, refund_keys text[], no_refund_network text, no_refund_tx text,
    session_id text, session_does text, events jsonb, error_was text, lost_network text, lost_tx text
  );

  CREATE FUNCTION books_move_session(c book_change, p_now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    CASE c.session_does
    WHEN 'take' THEN
      UPDATE payment_sessions SET payment_id = c.row_id WHERE id = c.session_id;
    WHEN 'release' THEN
      UPDATE payment_sessions s SET ${releaseSql(linkIsGone)};
    WHEN 'fail' THEN
      UPDATE payment_sessions s SET failures = s.failures + 1,
        ${releaseSql(`(s.failures + 1 >= ${MAX_SETTLEMENT_FAILURES} OR ${linkIsGone})`)};
    WHEN 'confirm' THEN
      UPDATE payment_sessions SET state = 'confirmed', ended_at_ms = coalesce(ended_at_ms, p_now_ms), payment_id = c.row_id,
        purchase_id = c.purchase ->> 'id', tx_hash = c.purchase ->> 'tx_hash', network = c.purchase ->> 'network',
        buyer_wallet = c.purchase ->> 'buyer_wallet'
      WHERE id = c.session_id;
    END CASE;
  END $$;

  -- Writes the events of a payment for the endpoints of its store: kind and detail of each.
  CREATE FUNCTION books_add_events(p_row bigint, p_events jsonb) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    IF NOT EXISTS (SELECT 1 FROM webhook_endpoints) THEN RETURN; END IF;
    -- A sale that left the chain and returned is booked again; its event exists already.
    INSERT INTO webhook_events (id, kind, detail, store_id, link_id, purchase_id, session_id, at_ms)
      SELECT new_event_id(), t.event ->> 0, t.event ->> 1, p.store_id, nullif(p.link_id, ''), p.purchase_id, p.session_id,
        p.updated_at_ms
      FROM jsonb_array_elements(p_events) WITH ORDINALITY AS t (event, seq), payments p
      WHERE p.id = p_row AND is_heard(t.event ->> 0, p.store_id, p.link_id)
      ORDER BY t.seq
      ON CONFLICT DO NOTHING;
  END $$;
`

const apply = `
  CREATE FUNCTION books_apply(c book_change, p_bodies bytea, p_now_ms bigint, p_store_ms bigint)
  RETURNS boolean LANGUAGE plpgsql AS $$
  DECLARE
    refund_key text;
  BEGIN
    IF c.refund_tx IS NOT NULL THEN
      PERFORM 1 FROM payments WHERE id = c.row_id FOR NO KEY UPDATE;
      IF EXISTS (SELECT 1 FROM refunds WHERE payment_id = c.row_id)
        OR EXISTS (SELECT 1 FROM refunds WHERE network = c.refund_network AND tx_hash = c.refund_tx)
        OR EXISTS (SELECT 1 FROM lost_refunds
          WHERE network = c.refund_network AND tx_hash = c.refund_tx AND payment_id <> c.row_id)
        OR EXISTS (SELECT 1 FROM purchases WHERE network = c.refund_network
          AND (CASE WHEN network LIKE 'eip155:%' THEN lower(tx_hash) ELSE tx_hash END) = c.refund_tx)
      THEN RETURN false; END IF;
      FOREACH refund_key IN ARRAY c.refund_keys LOOP
        IF EXISTS (SELECT 1 FROM payments WHERE key = decode(refund_key, 'hex')) THEN RETURN false; END IF;
      END LOOP;
    END IF;
    IF c.lost_tx IS NOT NULL THEN
      PERFORM 1 FROM payments WHERE id = c.row_id FOR NO KEY UPDATE;
      IF NOT EXISTS (SELECT 1 FROM refunds WHERE payment_id = c.row_id AND network = c.lost_network AND tx_hash = c.lost_tx)
      THEN RETURN false; END IF;
    END IF;
    -- An IF of its own before each query: a condition without a table costs a tenth.
    IF c.no_refund_tx IS NOT NULL THEN
      IF EXISTS (SELECT 1 FROM refunds WHERE network = c.no_refund_network AND tx_hash = c.no_refund_tx)
        OR EXISTS (SELECT 1 FROM lost_refunds WHERE network = c.no_refund_network AND tx_hash = c.no_refund_tx)
      THEN RETURN false; END IF;
    END IF;
    IF c.session_does = 'take' THEN
      IF NOT EXISTS (SELECT 1 FROM payment_sessions s WHERE s.id = c.session_id AND ${payable})
      THEN RETURN false; END IF;
    ELSIF c.session_does = 'confirm' THEN
      IF NOT EXISTS (SELECT 1 FROM payment_sessions s WHERE s.id = c.session_id
        AND ((s.payment_id = c.row_id AND s.state IN ('open', 'confirmed')) OR ${payable}))
      THEN RETURN false; END IF;
    END IF;

    UPDATE payments SET state = c.to_state, due_at_ms = p_store_ms + c.due_in_ms, updated_at_ms = p_now_ms, tries = 0,
      due_reason = NULL,
      lease = CASE WHEN c.sets_lease THEN c.taken_by ELSE payments.lease END,
      error_reason = CASE WHEN c.sets_error THEN c.error_reason ELSE payments.error_reason END,
      tx_hash = CASE WHEN c.sets_transfer THEN c.tx_hash ELSE payments.tx_hash END,
      event = CASE WHEN c.sets_transfer THEN c.event ELSE payments.event END,
      block = CASE WHEN c.sets_transfer THEN c.block ELSE payments.block END,
      charged_atomic = CASE WHEN c.sets_transfer THEN c.charged_atomic ELSE payments.charged_atomic END
    WHERE id = c.row_id AND payments.purchase_id = c.purchase_id AND state = ANY (c.from_states)
      AND (c.lease IS NULL OR payments.lease = c.lease) AND (c.error_was IS NULL OR payments.error_reason = c.error_was);
    IF NOT FOUND THEN RETURN false; END IF;

    IF c.sets_attempt THEN
      IF c.settler IS NULL THEN DELETE FROM attempts WHERE payment_id = c.row_id;
      ELSE
        -- Repeats the conditions of the index attempts_number, so that it is used.
        IF c.settler LIKE 'evm:%' AND c.sequence IS NOT NULL THEN
          IF EXISTS (SELECT 1 FROM attempts s JOIN payments p ON p.id = s.payment_id
            WHERE s.settler LIKE 'evm:%' AND s.sequence IS NOT NULL AND s.settler = c.settler AND s.sequence = c.sequence
              AND s.tx <> c.attempt_tx AND p.id <> c.row_id AND p.state IN ('settling', 'pending', 'reorged'))
          THEN RAISE unique_violation USING CONSTRAINT = 'attempts_number',
            MESSAGE = 'another transaction has this nonce';
          END IF;
        END IF;
        WHILE c.is_shared LOOP
          INSERT INTO shared_bytes (tx, bytes) VALUES (c.attempt_tx, c.attempt_bytes) ON CONFLICT DO NOTHING;
          PERFORM 1 FROM shared_bytes WHERE tx = c.attempt_tx FOR KEY SHARE;
          EXIT WHEN FOUND;
        END LOOP;
        INSERT INTO attempts (payment_id, settler, bytes, tx, sequence, is_shared)
          VALUES (c.row_id, c.settler, CASE WHEN c.is_shared THEN '' ELSE c.attempt_bytes END, c.attempt_tx, c.sequence,
            CASE WHEN c.is_shared THEN 1 ELSE 0 END)
          ON CONFLICT (payment_id) DO UPDATE SET settler = excluded.settler, bytes = excluded.bytes, tx = excluded.tx,
            sequence = excluded.sequence, is_shared = excluded.is_shared;
      END IF;
    END IF;
    IF c.sets_answer THEN
      IF c.status IS NULL THEN DELETE FROM responses WHERE payment_id = c.row_id;
      ELSE
        INSERT INTO responses (payment_id, status, headers, body)
          VALUES (c.row_id, c.status, c.headers, substring(p_bodies FROM c.body_from + 1 FOR c.body_length))
          ON CONFLICT (payment_id) DO UPDATE
          SET status = excluded.status, headers = excluded.headers, body = excluded.body;
      END IF;
    END IF;
    IF c.purchase IS NOT NULL THEN
      INSERT INTO purchases SELECT * FROM jsonb_populate_record(NULL::purchases, c.purchase)
        ON CONFLICT (payment_id) DO UPDATE
        SET status = excluded.status, tx_hash = excluded.tx_hash, event = excluded.event;
    END IF;
    -- A trigger copies the refund's time into the note of a new status, so the refund is inserted before
    -- the purchase becomes refunded, and deleted after it no longer is.
    IF c.refund_tx IS NOT NULL THEN
      DELETE FROM lost_refunds WHERE network = c.refund_network AND tx_hash = c.refund_tx;
      INSERT INTO refunds (payment_id, network, tx_hash, refunded_at_ms)
        VALUES (c.row_id, c.refund_network, c.refund_tx, p_now_ms);
    END IF;
    -- A sale that left the chain has no event: the transaction may return with another payment at that index.
    IF c.purchase_status IS NOT NULL THEN
      UPDATE purchases SET status = c.purchase_status,
        event = CASE WHEN c.purchase_status = 'reorged' THEN NULL ELSE purchases.event END
      WHERE payment_id = c.row_id;
    END IF;
    IF c.entries IS NOT NULL THEN
      INSERT INTO ledger (purchase_id, move, entries) VALUES (
        c.purchase_id, (SELECT coalesce(max(l.move) + 1, 0) FROM ledger l WHERE l.purchase_id = c.purchase_id), c.entries);
    END IF;
    IF c.lost_tx IS NOT NULL THEN
      WITH lost AS (DELETE FROM refunds WHERE payment_id = c.row_id RETURNING *)
        INSERT INTO lost_refunds (payment_id, network, tx_hash, refunded_at_ms, lost_at_ms)
          SELECT payment_id, network, tx_hash, refunded_at_ms, p_now_ms FROM lost;
    END IF;
    IF c.session_does IS NOT NULL THEN PERFORM books_move_session(c, p_now_ms); END IF;
    IF c.events IS NOT NULL THEN PERFORM books_add_events(c.row_id, c.events); END IF;
    RETURN true;
  END $$;
`

/** Functions that change payments. Their locks are in claims.ts. */
export const bookChanges = `${changeOfOne}${apply}
  -- p_locks is {shared, alone, sessions, released}, or null when no change of the group needs one. Returns whether each change was
  -- done, in their order, and the constraint and message of those that broke a rule of the tables.
  CREATE FUNCTION books_change(
    p_changes jsonb, p_bodies bytea, p_now_ms bigint, p_store_ms bigint, p_is_flushed boolean, p_locks jsonb
  ) RETURNS jsonb LANGUAGE plpgsql AS $$
  DECLARE
    c book_change;
    store_ms bigint := coalesce(p_store_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint);
    done boolean[];
    failed jsonb := '{}';
    message text;
    broken text;
  BEGIN
    IF NOT p_is_flushed THEN PERFORM set_config('synchronous_commit', 'off', true);
    ELSIF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF p_locks IS NOT NULL THEN
      PERFORM books_lock(
        ARRAY(SELECT e::int FROM jsonb_array_elements_text(p_locks -> 'shared') AS e),
        ARRAY(SELECT e::int FROM jsonb_array_elements_text(p_locks -> 'alone') AS e));
      IF p_locks -> 'released' <> '[]' THEN
        PERFORM 1 FROM links WHERE id IN (SELECT link_id FROM payment_sessions
            WHERE id IN (SELECT jsonb_array_elements_text(p_locks -> 'released')))
          ORDER BY id FOR SHARE;
      END IF;
      IF p_locks -> 'sessions' <> '[]' THEN
        PERFORM 1 FROM payment_sessions WHERE id IN (SELECT jsonb_array_elements_text(p_locks -> 'sessions'))
          ORDER BY id FOR NO KEY UPDATE;
      END IF;
    END IF;
    BEGIN
      FOR c IN SELECT * FROM jsonb_populate_recordset(NULL::book_change, p_changes) ORDER BY row_id, n LOOP
        done[c.n] := books_apply(c, p_bodies, p_now_ms, store_ms);
      END LOOP;
    EXCEPTION WHEN integrity_constraint_violation THEN
      -- Rare: everything is rolled back and repeated with a block for each change. A block costs as much as its change.
      done := NULL;
      FOR c IN SELECT * FROM jsonb_populate_recordset(NULL::book_change, p_changes) ORDER BY row_id, n LOOP
        BEGIN
          done[c.n] := books_apply(c, p_bodies, p_now_ms, store_ms);
        EXCEPTION WHEN integrity_constraint_violation THEN
          GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, broken = CONSTRAINT_NAME;
          done[c.n] := false;
          failed := failed || jsonb_build_object(c.n, jsonb_build_array(broken, message));
        END;
      END LOOP;
    END;
    RETURN jsonb_build_object('done', done, 'failed', failed);
  END $$;
`

import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'
import { MOST_SETTLEMENT_FAILURES } from '../../../core/domain/session.ts'

/**
 * The writes of the books as functions of the database, so that a group of them is one round trip and one commit. They know
 * conditions, and no rule. What calls them is `groupCommit.ts` and the ports beside it.
 *
 * Who waits for whom has one order: the locks of `books_lock`, links, sessions, and then payments by their number.
 */
export const books: Migration = {
  async up(db: Kysely<unknown>) {
    await sql.raw(tables + locks + claims + changes + sessions + leases).execute(db)
  },
}

// What belongs to a payment is written by the functions below and by nothing else, always beside a row of `payments` that the
// same transaction has locked, and no payment is ever deleted: a look for it at each insert would find it each time.
const tables = `
  ALTER TABLE payment_payloads DROP CONSTRAINT payment_payloads_payment_id_fkey;
  ALTER TABLE attempts DROP CONSTRAINT attempts_payment_id_fkey;
  ALTER TABLE answers DROP CONSTRAINT answers_payment_id_fkey;
  ALTER TABLE purchases DROP CONSTRAINT purchases_payment_id_fkey;
  ALTER TABLE refunds DROP CONSTRAINT refunds_payment_id_fkey;
  -- A part of a large answer is read without the rest of it.
  ALTER TABLE answers ALTER COLUMN body SET STORAGE EXTERNAL;
  -- Not unique by itself: several payments may be in one transaction, and what is over keeps its number.
  CREATE INDEX attempts_number ON attempts (settler, sequence) WHERE settler LIKE 'evm:%' AND sequence IS NOT NULL;
  CREATE TABLE letters (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    recipient bigint NOT NULL,
    sender bigint NOT NULL,
    body bytea NOT NULL
  );
  CREATE INDEX letters_recipient ON letters (recipient, id);
  -- Signed bytes that settle several payments are kept once, and as long as one of these has them.
  CREATE TABLE shared_bytes (tx text COLLATE "C" PRIMARY KEY, bytes text COLLATE "C" NOT NULL);
  ALTER TABLE attempts ADD COLUMN is_shared smallint NOT NULL DEFAULT 0;
  CREATE INDEX attempts_shared ON attempts (tx) WHERE is_shared = 1;
  CREATE FUNCTION books_forget_bytes() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    -- Whoever shares them meanwhile has them locked until his attempt can be seen.
    PERFORM 1 FROM shared_bytes WHERE tx = OLD.tx FOR UPDATE;
    DELETE FROM shared_bytes
      WHERE tx = OLD.tx AND NOT EXISTS (SELECT 1 FROM attempts WHERE is_shared = 1 AND attempts.tx = OLD.tx);
    RETURN NULL;
  END $$;
  CREATE TRIGGER attempts_forgotten AFTER DELETE ON attempts FOR EACH ROW WHEN (OLD.is_shared = 1)
    EXECUTE FUNCTION books_forget_bytes();
  CREATE TRIGGER attempts_replaced AFTER UPDATE OF tx ON attempts FOR EACH ROW WHEN (OLD.is_shared = 1)
    EXECUTE FUNCTION books_forget_bytes();
`

/**
 * A condition about rows that are not there yet, such as "no payment has this key", is locked by a number that stands for
 * them. Whoever makes such rows has it shared, and whoever demands that there are none has it alone, each until his commit.
 */
const locks = `
  CREATE FUNCTION books_lock(p_shared int[], p_alone int[]) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    space int := hashtext('tollgate books ' || current_schema());
    wanted record;
  BEGIN
    FOR wanted IN
      SELECT number, bool_or(is_alone) AS is_alone FROM (
        SELECT unnest(p_shared) AS number, false AS is_alone UNION ALL SELECT unnest(p_alone), true
      ) AS both_kinds GROUP BY number ORDER BY number
    LOOP
      IF wanted.is_alone THEN PERFORM pg_advisory_xact_lock(space, wanted.number);
      ELSE PERFORM pg_advisory_xact_lock_shared(space, wanted.number);
      END IF;
    END LOOP;
  END $$;
`

const claims = `
  CREATE TYPE book_claim AS (
    n int, key text, network text, asset text, payer text, nonce text, pay_to text, amount_atomic text, valid_before_ms bigint,
    scheme text, lease bigint, link_id text, store_id text, request_hash text, purchase_id text, session_id text, payload text
  );

  -- Answers with [n, row] of each that was won, and with [n, the row as it stands] of each that was not.
  CREATE FUNCTION books_claim(p_claims jsonb, p_now_ms bigint, p_shared int[]) RETURNS jsonb LANGUAGE plpgsql AS $$
  DECLARE
    won jsonb;
    lost jsonb := '[]';
    one record;
    present record;
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM books_lock(p_shared, '{}');
    WITH given AS MATERIALIZED (
      SELECT DISTINCT ON (key) decode(key, 'hex') AS id_key, * FROM jsonb_populate_recordset(NULL::book_claim, p_claims)
      ORDER BY key, n
    ), made AS (
      INSERT INTO payments (key, network, asset, payer, nonce, pay_to, amount_atomic, valid_before_ms, scheme, lease, link_id,
        store_id, request_hash, purchase_id, claimed_at_ms, updated_at_ms, session_id, state)
      SELECT id_key, network, asset, payer, nonce, pay_to, amount_atomic, valid_before_ms, scheme, lease, link_id,
        store_id, request_hash, purchase_id, p_now_ms, p_now_ms, session_id, 'claimed' FROM given
      ON CONFLICT (key) DO NOTHING RETURNING id, key
    ), payloads AS (
      INSERT INTO payment_payloads (payment_id, payload)
      SELECT made.id, given.payload FROM made JOIN given ON given.id_key = made.key
    )
    SELECT coalesce(jsonb_agg(jsonb_build_array(given.n, made.id)), '[]') INTO won
    FROM made JOIN given ON given.id_key = made.key;

    IF jsonb_array_length(won) < jsonb_array_length(p_claims) THEN
      FOR one IN
        SELECT p.id AS row, given.* FROM jsonb_populate_recordset(NULL::book_claim, p_claims) AS given
          JOIN payments p ON p.key = decode(given.key, 'hex')
        WHERE given.n NOT IN (SELECT (w -> 0)::int FROM jsonb_array_elements(won) AS w)
        ORDER BY p.id, given.n
      LOOP
        -- Nobody else changes it until this is over.
        PERFORM 1 FROM payments WHERE id = one.row FOR NO KEY UPDATE;
        UPDATE payments SET network = one.network, asset = one.asset, payer = one.payer, nonce = one.nonce,
          pay_to = one.pay_to, amount_atomic = one.amount_atomic, valid_before_ms = one.valid_before_ms, scheme = one.scheme,
          lease = one.lease, link_id = one.link_id, store_id = one.store_id, request_hash = one.request_hash,
          purchase_id = one.purchase_id, claimed_at_ms = p_now_ms, updated_at_ms = p_now_ms, session_id = one.session_id,
          state = 'claimed', tx_hash = NULL, event = NULL, block = NULL, charged_atomic = NULL, error_reason = NULL,
          landed_late = 0, due_at_ms = NULL, tries = 0, due_reason = NULL
        WHERE id = one.row AND state = 'rejected';
        IF FOUND THEN
          INSERT INTO payment_payloads (payment_id, payload) VALUES (one.row, one.payload)
            ON CONFLICT (payment_id) DO UPDATE SET payload = excluded.payload;
          DELETE FROM attempts WHERE payment_id = one.row;
          DELETE FROM answers WHERE payment_id = one.row;
          won := won || jsonb_build_array(jsonb_build_array(one.n, one.row));
        ELSE
          SELECT p.*, coalesce(l.payload, '{}') AS payload, s.settler,
            CASE s.is_shared WHEN 1 THEN (SELECT b.bytes FROM shared_bytes b WHERE b.tx = s.tx) ELSE s.bytes END AS attempt_bytes,
            s.tx AS attempt_transaction, s.sequence AS attempt_sequence, s.is_shared AS attempt_is_shared, a.payment_id AS answer_id INTO present
          FROM payments p LEFT JOIN payment_payloads l ON l.payment_id = p.id
            LEFT JOIN attempts s ON s.payment_id = p.id LEFT JOIN answers a ON a.payment_id = p.id
          WHERE p.id = one.row;
          lost := lost || jsonb_build_array(jsonb_build_array(one.n, to_jsonb(present)));
        END IF;
      END LOOP;
    END IF;
    RETURN jsonb_build_object('won', won, 'lost', lost);
  END $$;
`

const payable = `(s.state = 'open' AND s.payment_id IS NULL AND s.expires_at_ms > p_now_ms)`
const linkIsGone = 'EXISTS (SELECT 1 FROM links l WHERE l.id = s.link_id AND l.is_active = 0)'

/** Of one that was being paid for: open again, or ended by what happened. @param isOver whether it ends */
const letGo = (isOver: string) => `
  payment_id = NULL, state = CASE WHEN ${isOver} THEN 'failed' ELSE s.state END,
  ended_at_ms = CASE WHEN ${isOver} THEN p_now_ms ELSE s.ended_at_ms END
  WHERE s.id = c.session_id AND s.payment_id = c.row_id AND s.state = 'open'`

/** @param also a condition more on the row `payments` that is changed, after AND */
export const booksApply = (also = 'true'): string => `
  CREATE OR REPLACE FUNCTION books_apply(c book_change, p_bodies bytea, p_now_ms bigint, p_store_ms bigint)
  RETURNS boolean LANGUAGE plpgsql AS $$
  DECLARE
    refund_key text;
  BEGIN
    IF c.refund_tx IS NOT NULL THEN
      PERFORM 1 FROM payments WHERE id = c.row_id FOR NO KEY UPDATE;
      IF EXISTS (SELECT 1 FROM refunds WHERE payment_id = c.row_id)
        OR EXISTS (SELECT 1 FROM refunds WHERE network = c.refund_network AND tx_hash = c.refund_tx)
        OR EXISTS (SELECT 1 FROM purchases WHERE network = c.refund_network
          AND (CASE WHEN network LIKE 'eip155:%' THEN lower(tx_hash) ELSE tx_hash END) = c.refund_tx)
      THEN RETURN false; END IF;
      FOREACH refund_key IN ARRAY c.refund_keys LOOP
        IF EXISTS (SELECT 1 FROM payments WHERE key = decode(refund_key, 'hex')) THEN RETURN false; END IF;
      END LOOP;
    END IF;
    -- A condition of its own before each look: without a table in it, it is judged at a tenth of the cost.
    IF c.no_refund_tx IS NOT NULL THEN
      IF EXISTS (SELECT 1 FROM refunds WHERE network = c.no_refund_network AND tx_hash = c.no_refund_tx)
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
      AND (c.lease IS NULL OR payments.lease = c.lease) AND ${also};
    IF NOT FOUND THEN RETURN false; END IF;

    IF c.sets_attempt THEN
      IF c.settler IS NULL THEN DELETE FROM attempts WHERE payment_id = c.row_id;
      ELSE
        -- The words of the index attempts_number, so that it is used.
        IF c.settler LIKE 'evm:%' AND c.sequence IS NOT NULL THEN
          IF EXISTS (SELECT 1 FROM attempts s JOIN payments p ON p.id = s.payment_id
            WHERE s.settler LIKE 'evm:%' AND s.sequence IS NOT NULL AND s.settler = c.settler AND s.sequence = c.sequence
              AND s.tx <> c.attempt_tx AND p.id <> c.row_id AND p.state IN ('settling', 'pending', 'reorged'))
          THEN RAISE unique_violation USING CONSTRAINT = 'attempts_number',
            MESSAGE = 'another transaction has this account number';
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
      IF c.status IS NULL THEN DELETE FROM answers WHERE payment_id = c.row_id;
      ELSE
        INSERT INTO answers (payment_id, status, headers, body)
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
    -- What has left the chain holds no event there: the transaction may come back with another payment in that place.
    IF c.purchase_status IS NOT NULL THEN
      UPDATE purchases SET status = c.purchase_status,
        event = CASE WHEN c.purchase_status = 'reorged' THEN NULL ELSE purchases.event END
      WHERE payment_id = c.row_id;
    END IF;
    IF c.entries IS NOT NULL THEN
      INSERT INTO ledger (purchase_id, move, entries) VALUES (
        c.purchase_id, (SELECT coalesce(max(l.move) + 1, 0) FROM ledger l WHERE l.purchase_id = c.purchase_id), c.entries);
    END IF;
    IF c.refund_tx IS NOT NULL THEN
      INSERT INTO refunds (payment_id, network, tx_hash, refunded_at_ms)
        VALUES (c.row_id, c.refund_network, c.refund_tx, p_now_ms);
    END IF;
    IF c.session_does IS NOT NULL THEN PERFORM books_move_session(c, p_now_ms); END IF;
    IF c.tells IS NOT NULL THEN PERFORM books_tell(c.row_id, c.tells); END IF;
    RETURN true;
  END $$;
`

const changes = `
  CREATE TYPE book_change AS (
    n int, row_id bigint, from_states text[], lease bigint, purchase_id text, to_state text, due_in_ms bigint,
    sets_lease boolean, taken_by bigint, sets_error boolean, error_reason text,
    sets_transfer boolean, tx_hash text, event text, block bigint, charged_atomic text,
    sets_attempt boolean, settler text, attempt_bytes text, attempt_tx text, sequence text, is_shared boolean,
    sets_answer boolean, status bigint, headers text, body_from int, body_length int,
    purchase jsonb, purchase_status text, entries text,
    refund_network text, refund_tx text, refund_keys text[], no_refund_network text, no_refund_tx text,
    session_id text, session_does text, tells jsonb
  );

  CREATE FUNCTION books_move_session(c book_change, p_now_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    CASE c.session_does
    WHEN 'take' THEN
      UPDATE payment_sessions SET payment_id = c.row_id WHERE id = c.session_id;
    WHEN 'release' THEN
      UPDATE payment_sessions s SET ${letGo(linkIsGone)};
    WHEN 'fail' THEN
      UPDATE payment_sessions s SET failures = s.failures + 1,
        ${letGo(`(s.failures + 1 >= ${MOST_SETTLEMENT_FAILURES} OR ${linkIsGone})`)};
    WHEN 'confirm' THEN
      UPDATE payment_sessions SET state = 'confirmed', ended_at_ms = coalesce(ended_at_ms, p_now_ms), payment_id = c.row_id,
        purchase_id = c.purchase ->> 'id', tx_hash = c.purchase ->> 'tx_hash', network = c.purchase ->> 'network',
        buyer_wallet = c.purchase ->> 'buyer_wallet'
      WHERE id = c.session_id;
    END CASE;
  END $$;

  -- What the endpoints of a store hear of a payment: kind and detail of each. is_heard and new_event_id come with migration 0004.
  CREATE FUNCTION books_tell(p_row bigint, p_tells jsonb) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    IF NOT EXISTS (SELECT 1 FROM webhook_endpoints) THEN RETURN; END IF;
    -- A sale that left the chain and came back is booked again, and was told.
    INSERT INTO webhook_events (id, kind, detail, store_id, link_id, purchase_id, session_id, at_ms)
      SELECT new_event_id(), t.told ->> 0, t.told ->> 1, p.store_id, nullif(p.link_id, ''), p.purchase_id, p.session_id,
        p.updated_at_ms
      FROM jsonb_array_elements(p_tells) WITH ORDINALITY AS t (told, place), payments p
      WHERE p.id = p_row AND is_heard(t.told ->> 0, p.store_id, p.link_id)
      ORDER BY t.place
      ON CONFLICT DO NOTHING;
  END $$;

  ${booksApply()}

  -- The locks are {shared, alone, sessions, letGo}, or null where nothing of the group needs any. Answers with whether each was
  -- done, in their order, and with what was wrong with those that broke a rule of the tables.
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
      IF p_locks -> 'letGo' <> '[]' THEN
        PERFORM 1 FROM links WHERE id IN (SELECT link_id FROM payment_sessions
            WHERE id IN (SELECT jsonb_array_elements_text(p_locks -> 'letGo')))
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
      -- Rare. All of it is taken back, and done again one by one: a block of its own for each costs as much as what it does.
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
`

const sessions = `
  -- Answers with whether it was made: not when its key was used before, or the store has too many.
  CREATE FUNCTION sessions_create(
    p_session jsonb, p_most_open bigint, p_open_since_ms bigint, p_most_unpaid bigint, p_unpaid_since_ms bigint
  ) RETURNS boolean LANGUAGE plpgsql AS $$
  DECLARE
    store text := p_session ->> 'store_id';
  BEGIN
    -- Nobody else makes one of this store meanwhile.
    IF p_most_open IS NOT NULL THEN
      PERFORM pg_advisory_xact_lock(hashtextextended(current_schema() || ': sessions of ' || store, 0));
      IF p_most_open <= (SELECT count(*) FROM payment_sessions
            WHERE store_id = store AND state = 'open' AND created_at_ms > p_open_since_ms)
        OR p_most_unpaid <= (SELECT count(*) FROM payment_sessions
            WHERE store_id = store AND state IN ('expired', 'canceled') AND created_at_ms > p_unpaid_since_ms)
      THEN RETURN false; END IF;
    END IF;
    INSERT INTO payment_sessions SELECT * FROM jsonb_populate_record(NULL::payment_sessions, p_session)
      ON CONFLICT DO NOTHING;
    RETURN FOUND;
  END $$;

  CREATE FUNCTION sessions_expire(p_now_ms bigint, p_most int) RETURNS int LANGUAGE plpgsql AS $$
  DECLARE
    expired text[];
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    WITH old AS (
      SELECT id FROM payment_sessions WHERE state = 'open' AND expires_at_ms <= p_now_ms AND payment_id IS NULL
      ORDER BY expires_at_ms LIMIT p_most FOR NO KEY UPDATE SKIP LOCKED
    ), gone AS (
      UPDATE payment_sessions s SET state = 'expired', ended_at_ms = s.expires_at_ms FROM old WHERE s.id = old.id
      RETURNING s.id, s.ended_at_ms
    )
    SELECT array_agg(id ORDER BY ended_at_ms, id) INTO expired FROM gone;
    INSERT INTO webhook_events (id, kind, store_id, link_id, session_id, at_ms)
      SELECT new_event_id(), 'payment.expired', s.store_id, s.link_id, s.id, s.ended_at_ms
      FROM unnest(expired) WITH ORDINALITY AS o (id, place) JOIN payment_sessions s ON s.id = o.id
      WHERE is_heard('payment.expired', s.store_id, s.link_id)
      ORDER BY o.place
      ON CONFLICT DO NOTHING;
    RETURN coalesce(cardinality(expired), 0);
  END $$;

  -- Of sessions that have ended, which they do for good: those that a payment was claimed for stay.
  CREATE FUNCTION sessions_forget(p_ended_before_ms bigint, p_most int) RETURNS int LANGUAGE plpgsql AS $$
  DECLARE
    one text;
    forgotten int := 0;
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR one IN
      SELECT id FROM payment_sessions WHERE is_kept = 0 AND state IN ('expired', 'canceled') AND ended_at_ms <= p_ended_before_ms
      ORDER BY ended_at_ms LIMIT p_most FOR UPDATE SKIP LOCKED
    LOOP
      IF EXISTS (SELECT 1 FROM payments WHERE session_id = one)
      THEN UPDATE payment_sessions SET is_kept = 1 WHERE id = one;
      ELSE
        DELETE FROM payment_sessions WHERE id = one;
        forgotten := forgotten + 1;
      END IF;
    END LOOP;
    RETURN forgotten;
  END $$;
`

const leases = `
  -- Null while somebody has the name. One after the other, so that whoever comes later gets a larger number.
  CREATE FUNCTION leases_take(p_name text, p_ttl_ms bigint, p_now_ms bigint, p_holder text, p_ended text[], p_kept_ms bigint)
  RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    now_ms bigint;
    taken bigint;
  BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('tollgate books ' || current_schema()), 999);
    now_ms := coalesce(p_now_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint);
    -- One that expires further ahead than it lasts was given before the clock was set back.
    DELETE FROM leases WHERE expires_at_ms > now_ms + ttl_ms OR expires_at_ms <= now_ms - p_kept_ms
      OR (name = p_name AND expires_at_ms <= now_ms) OR holder = ANY (p_ended);
    INSERT INTO leases (name, ttl_ms, expires_at_ms, holder) VALUES (p_name, p_ttl_ms, now_ms + p_ttl_ms, p_holder)
      ON CONFLICT (name) DO NOTHING RETURNING id INTO taken;
    RETURN taken;
  END $$;
`

import { unchargedStates } from '../../../../core/domain/payment.ts'

const uncharged = unchargedStates.map((state) => `'${state}'`).join(', ')

/**
 * Claims of payments, and the locks of the ledger's functions. `groupCommit.ts` and its neighbors call the functions. Each function
 * writes a group in one round trip and one commit. The functions check conditions, and the rules are in `core`. All functions lock
 * in one order, which is `books_lock`, links, sessions, then payments by their number.
 *
 * Some conditions concern rows that do not exist yet, such as "no payment has this key". Such a condition is locked by a number. A
 * transaction that creates such rows locks the number shared. A transaction that demands that there are none locks it exclusively.
 * Each lock lasts until the commit.
 */
export const claims = `
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

  CREATE TYPE book_claim AS (
    n int, key text, network text, asset text, payer text, nonce text, pay_to text, amount_atomic text, valid_before_ms bigint,
    scheme text, lease bigint, link_id text, store_id text, request_hash text, purchase_id text, session_id text, payload text,
    identifier text
  );

  -- A payment as a claim that is lost to it reads it.
  CREATE FUNCTION books_payment(p_id bigint) RETURNS jsonb LANGUAGE plpgsql AS $$
  DECLARE
    present record;
  BEGIN
    SELECT p.*, coalesce(l.payload, '{}') AS payload, s.settler,
      CASE s.is_shared WHEN 1 THEN (SELECT b.bytes FROM shared_bytes b WHERE b.tx = s.tx) ELSE s.bytes END AS attempt_bytes,
      s.tx AS attempt_transaction, s.sequence AS attempt_sequence, s.is_shared AS attempt_is_shared, a.payment_id AS answer_id INTO present
    FROM payments p LEFT JOIN payment_payloads l ON l.payment_id = p.id
      LEFT JOIN attempts s ON s.payment_id = p.id LEFT JOIN responses a ON a.payment_id = p.id
    WHERE p.id = p_id;
    RETURN to_jsonb(present);
  END $$;

  -- Returns [n, row number] for each claim that was won, and [n, the existing row] for each that was lost. A claim that is in neither
  -- list is claimed again, because this transaction has only freed its identifier, or another claim for it failed. p_alone has a
  -- number for the identifier of each claim that has one, so that no other transaction gives a payment this identifier meanwhile.
  -- Two transactions never deadlock, because each inserts its rows by their keys, and then locks existing rows by their numbers.
  CREATE FUNCTION books_claim(p_claims jsonb, p_now_ms bigint, p_shared int[], p_alone int[]) RETURNS jsonb LANGUAGE plpgsql AS $$
  DECLARE
    has_identifiers boolean := cardinality(p_alone) > 0;
    won jsonb;
    lost jsonb := '[]';
    one record;
    locked bigint[];
    holder_id bigint;
  BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM books_lock(p_shared, p_alone);
    IF has_identifiers THEN
      WITH given AS MATERIALIZED (
        SELECT DISTINCT ON (key) decode(key, 'hex') AS id_key, * FROM jsonb_populate_recordset(NULL::book_claim, p_claims)
        ORDER BY key, n
      ), counted AS (
        SELECT *, row_number() OVER (PARTITION BY identifier, payer, network ORDER BY n) AS place FROM given
        WHERE NOT EXISTS (SELECT 1 FROM payments p WHERE p.key = given.id_key)
      ), made AS (
        INSERT INTO payments (key, network, asset, payer, nonce, pay_to, amount_atomic, valid_before_ms, scheme, lease, link_id,
          store_id, request_hash, purchase_id, claimed_at_ms, updated_at_ms, session_id, identifier, state)
        SELECT id_key, network, asset, payer, nonce, pay_to, amount_atomic, valid_before_ms, scheme, lease, link_id,
          store_id, request_hash, purchase_id, p_now_ms, p_now_ms, session_id, identifier, 'claimed' FROM counted
        WHERE identifier IS NULL OR (place = 1 AND NOT EXISTS (SELECT 1 FROM payments h
          WHERE h.identifier = counted.identifier AND h.payer = counted.payer AND h.network = counted.network))
        ORDER BY key
        ON CONFLICT (key) DO NOTHING RETURNING id, key
      ), payloads AS (
        INSERT INTO payment_payloads (payment_id, payload)
        SELECT made.id, given.payload FROM made JOIN given ON given.id_key = made.key
      )
      SELECT coalesce(jsonb_agg(jsonb_build_array(given.n, made.id)), '[]') INTO won
      FROM made JOIN given ON given.id_key = made.key;
    ELSE
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
    END IF;
    IF jsonb_array_length(won) = jsonb_array_length(p_claims) THEN
      RETURN jsonb_build_object('won', won, 'lost', lost);
    END IF;

    IF has_identifiers THEN
      -- The rows that the rest of this function changes.
      SELECT array_agg(id) INTO locked FROM (
        SELECT id FROM payments WHERE id IN (
          SELECT p.id FROM jsonb_populate_recordset(NULL::book_claim, p_claims) AS given
            JOIN payments p ON p.key = decode(given.key, 'hex')
          WHERE given.n NOT IN (SELECT (w -> 0)::int FROM jsonb_array_elements(won) AS w)
          UNION ALL
          SELECT h.id FROM jsonb_populate_recordset(NULL::book_claim, p_claims) AS given JOIN payments h
            ON h.identifier = given.identifier AND h.payer = given.payer AND h.network = given.network
          WHERE h.state IN (${uncharged})
        ) ORDER BY id FOR NO KEY UPDATE
      ) AS in_order;
      -- A payment that has charged nothing loses its identifier to another one that can be claimed.
      UPDATE payments h SET identifier = NULL FROM jsonb_populate_recordset(NULL::book_claim, p_claims) AS given
      WHERE h.identifier = given.identifier AND h.payer = given.payer AND h.network = given.network
        AND h.key <> decode(given.key, 'hex') AND h.state IN (${uncharged}) AND h.id = ANY (locked)
        AND NOT EXISTS (SELECT 1 FROM payments p WHERE p.key = decode(given.key, 'hex') AND p.state <> 'rejected');
    END IF;

    FOR one IN
      SELECT p.id AS row, given.* FROM jsonb_populate_recordset(NULL::book_claim, p_claims) AS given
        JOIN payments p ON p.key = decode(given.key, 'hex')
      WHERE given.n NOT IN (SELECT (w -> 0)::int FROM jsonb_array_elements(won) AS w)
      ORDER BY p.id, given.n
    LOOP
      -- No other transaction changes the row until this one ends.
      PERFORM 1 FROM payments WHERE id = one.row FOR NO KEY UPDATE;
      UPDATE payments SET network = one.network, asset = one.asset, payer = one.payer, nonce = one.nonce,
        pay_to = one.pay_to, amount_atomic = one.amount_atomic, valid_before_ms = one.valid_before_ms, scheme = one.scheme,
        lease = one.lease, link_id = one.link_id, store_id = one.store_id, request_hash = one.request_hash,
        purchase_id = one.purchase_id, claimed_at_ms = p_now_ms, updated_at_ms = p_now_ms, session_id = one.session_id,
        identifier = one.identifier, state = 'claimed', tx_hash = NULL, event = NULL, block = NULL, charged_atomic = NULL,
        error_reason = NULL, due_at_ms = NULL, tries = 0, due_reason = NULL
      WHERE id = one.row AND state = 'rejected' AND (one.identifier IS NULL OR NOT EXISTS (
        SELECT 1 FROM payments h
        WHERE h.identifier = one.identifier AND h.payer = one.payer AND h.network = one.network AND h.id <> one.row));
      IF FOUND THEN
        INSERT INTO payment_payloads (payment_id, payload) VALUES (one.row, one.payload)
          ON CONFLICT (payment_id) DO UPDATE SET payload = excluded.payload;
        DELETE FROM attempts WHERE payment_id = one.row;
        DELETE FROM responses WHERE payment_id = one.row;
        won := won || jsonb_build_array(jsonb_build_array(one.n, one.row));
      ELSE
        holder_id := one.row;
        IF one.identifier IS NOT NULL THEN
          -- A rejected payment could be claimed, so another payment has its identifier.
          SELECT coalesce(max(h.id), one.row) INTO holder_id FROM payments p JOIN payments h
            ON h.identifier = one.identifier AND h.payer = one.payer AND h.network = one.network AND h.id <> p.id
          WHERE p.id = one.row AND p.state = 'rejected';
        END IF;
        lost := lost || jsonb_build_array(jsonb_build_array(one.n, books_payment(holder_id)));
      END IF;
    END LOOP;

    IF has_identifiers THEN
      WITH held AS MATERIALIZED (
        SELECT given.n, h.id FROM jsonb_populate_recordset(NULL::book_claim, p_claims) AS given JOIN payments h
          ON h.identifier = given.identifier AND h.payer = given.payer AND h.network = given.network
        WHERE h.state NOT IN (${uncharged})
          AND given.n NOT IN (SELECT (w -> 0)::int FROM jsonb_array_elements(won || lost) AS w)
      ), holders AS MATERIALIZED (
        SELECT id, books_payment(id) AS present FROM (SELECT DISTINCT id FROM held) AS each_once
      )
      SELECT lost || coalesce(jsonb_agg(jsonb_build_array(held.n, holders.present)), '[]') INTO lost
      FROM held JOIN holders ON holders.id = held.id;
    END IF;
    RETURN jsonb_build_object('won', won, 'lost', lost);
  END $$;
`

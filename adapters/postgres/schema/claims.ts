/**
 * Claims of payments, and the locks of the ledger's functions. Each function writes a group, in one round trip and one commit. The
 * functions know conditions, and no rule; `groupCommit.ts` and the ports beside it call them. All lock in one order: `books_lock`,
 * links, sessions, then payments by their number.
 *
 * A condition about rows that don't exist yet, such as "no payment has this key", is locked by a number that stands for them. A
 * transaction that creates such rows locks it shared, one that demands that there are none locks it alone, each until its commit.
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

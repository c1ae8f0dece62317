import { fn } from './fn.ts'

/** Payment sessions. */
export const sessions = `
  CREATE TABLE payment_sessions (
    id text COLLATE "C" PRIMARY KEY,
    store_id text COLLATE "C" NOT NULL,
    link_id text COLLATE "C",
    secret_hash text COLLATE "C" NOT NULL,
    price text COLLATE "C" NOT NULL, -- in USD, a decimal
    title text COLLATE "C" NOT NULL,
    description text COLLATE "C" NOT NULL,
    success_url text COLLATE "C",
    cancel_url text COLLATE "C",
    allowed_origin text COLLATE "C",
    client_reference_id text COLLATE "C",
    metadata text COLLATE "C" NOT NULL, -- a JSON object
    idempotency_key text COLLATE "C",
    request_hash text COLLATE "C",
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    state text COLLATE "C" NOT NULL CHECK (state = 'open' OR state = 'confirmed' OR state = 'expired' OR state = 'canceled' OR state = 'failed'),
    ended_at_ms bigint,
    payment_id bigint, -- the payment that is under way or that paid
    failures bigint NOT NULL DEFAULT 0,
    purchase_id text COLLATE "C",
    tx_hash text COLLATE "C",
    network text COLLATE "C",
    buyer_wallet text COLLATE "C",
    payout text COLLATE "C", -- the store's wallets when the session was created
    asks text COLLATE "C", -- the one token that it is paid in
    is_kept smallint NOT NULL DEFAULT 0 -- was considered for deletion and stays
  );
  CREATE INDEX payment_sessions_ended ON payment_sessions (ended_at_ms)
    WHERE is_kept = 0 AND state IN ('expired', 'canceled');
  CREATE UNIQUE INDEX payment_sessions_idempotency ON payment_sessions (store_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
  CREATE INDEX payment_sessions_link ON payment_sessions (link_id) WHERE state = 'open';
  CREATE INDEX payment_sessions_open ON payment_sessions (expires_at_ms) WHERE state = 'open';
  CREATE INDEX payment_sessions_reference ON payment_sessions (store_id, client_reference_id, created_at_ms, id)
    WHERE client_reference_id IS NOT NULL;
  CREATE INDEX payment_sessions_remembered ON payment_sessions (created_at_ms) WHERE idempotency_key IS NOT NULL;
  CREATE INDEX payment_sessions_state ON payment_sessions (store_id, state, created_at_ms, id);
  CREATE INDEX payment_sessions_store ON payment_sessions (store_id, created_at_ms, id);
  ${fn(
    'links_sessions_canceled',
    `UPDATE payment_sessions SET state = 'canceled', ended_at_ms = NEW.updated_at_ms
      WHERE link_id = NEW.id AND state = 'open' AND payment_id IS NULL AND expires_at_ms > NEW.updated_at_ms;`,
  )}
  CREATE TRIGGER links_sessions_canceled AFTER UPDATE OF is_active ON links FOR EACH ROW
    WHEN (OLD.is_active = 1 AND NEW.is_active = 0) EXECUTE FUNCTION links_sessions_canceled();
`

/** Needs the tables and functions of webhooks. */
export const sessionFunctions = `
  -- Answers with whether it was made: not when its key was used before, or the store has too many.
  CREATE FUNCTION sessions_create(
    p_session jsonb, p_most_open bigint, p_open_since_ms bigint, p_most_unpaid bigint, p_unpaid_since_ms bigint
  ) RETURNS boolean LANGUAGE plpgsql AS $$
  DECLARE
    store text := p_session ->> 'store_id';
  BEGIN
    -- No other transaction creates one of this store meanwhile.
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

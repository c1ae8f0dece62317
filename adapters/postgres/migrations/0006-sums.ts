import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/**
 * Notes of what was sold, which `sums.ts` adds up (docs/decisions/0025), and the traffic of stores. A sale only adds a row: many
 * that sell the same link at once wait for nothing of each other.
 */
export const sums: Migration = {
  async up(db: Kysely<unknown>) {
    await sql.raw(statements).execute(db)
  },
}

/** Traffic of a store, of all of its links together. */
const trafficOf = (unit: 'day' | 'hour') => `
  CREATE FUNCTION add_${unit}_of_store() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    more_views bigint := NEW.views;
    more_challenges bigint := NEW.challenges;
  BEGIN
    IF TG_OP = 'UPDATE' THEN
      more_views := more_views - OLD.views;
      more_challenges := more_challenges - OLD.challenges;
    END IF;
    IF more_views <> 0 OR more_challenges <> 0 THEN
      INSERT INTO store_${unit}s AS s (store_id, ${unit}, views, challenges)
        SELECT store_id, NEW.${unit}, more_views, more_challenges FROM links WHERE id = NEW.link_id
        ON CONFLICT (store_id, ${unit}) DO UPDATE
        SET views = s.views + excluded.views, challenges = s.challenges + excluded.challenges;
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER link_${unit}s_summed AFTER INSERT OR UPDATE OF views, challenges ON link_${unit}s FOR EACH ROW
    EXECUTE FUNCTION add_${unit}_of_store();
`

const statements = `
  CREATE FUNCTION wallet_of(network text, wallet text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN network LIKE 'eip155:%' THEN lower(wallet) ELSE wallet END
  $$;

  -- Bought by a wallet that signs in to the store, or that it is paid to.
  CREATE FUNCTION is_own_wallet(store text, wallet text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM store_wallets w WHERE w.store_id = store AND w.address = wallet)
      OR EXISTS (SELECT 1 FROM stores s WHERE s.id = store AND wallet IN (lower(s.payout_base), s.payout_solana))
  $$;

  CREATE FUNCTION note_purchase() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF TG_OP = 'INSERT' THEN
      INSERT INTO sums_due (payment_id, became) VALUES (NEW.payment_id, NEW.status);
    ELSE
      INSERT INTO sums_due (payment_id, was, became) VALUES (NEW.payment_id, OLD.status, NEW.status);
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER purchases_summed AFTER INSERT ON purchases FOR EACH ROW EXECUTE FUNCTION note_purchase();
  -- Of a sale that is handed over nothing changes that is added up.
  CREATE TRIGGER purchases_summed_anew AFTER UPDATE OF status ON purchases FOR EACH ROW
    WHEN (NEW.status <> OLD.status AND NOT (OLD.status = 'settled' AND NEW.status = 'delivered'))
    EXECUTE FUNCTION note_purchase();

  CREATE FUNCTION note_refund() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO sums_due (payment_id) VALUES (NEW.payment_id);
    RETURN NULL;
  END $$;
  CREATE TRIGGER refunds_summed AFTER INSERT ON refunds FOR EACH ROW EXECUTE FUNCTION note_refund();

  -- What is noted by now is judged by the wallets that the store has, before it has others.
  CREATE FUNCTION judge_own_sales(store text) RETURNS void LANGUAGE sql AS $$
    WITH judged AS (
      UPDATE sums_due d SET is_judged = 1 FROM purchases u
        WHERE u.payment_id = d.payment_id AND u.store_id = store AND d.is_judged = 0
        RETURNING u.payment_id, d.was, d.became, wallet_of(u.network, u.buyer_wallet) AS wallet)
    INSERT INTO own_sales SELECT payment_id FROM judged
      WHERE was IS NULL AND became IS NOT NULL AND is_own_wallet(store, wallet) ON CONFLICT DO NOTHING
  $$;
  CREATE FUNCTION judge_before_wallets() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF TG_TABLE_NAME = 'stores' THEN
      PERFORM judge_own_sales(NEW.id);
      RETURN NEW;
    ELSIF TG_OP = 'DELETE' THEN
      PERFORM judge_own_sales(OLD.store_id);
      RETURN OLD;
    END IF;
    PERFORM judge_own_sales(NEW.store_id);
    RETURN NEW;
  END $$;
  CREATE TRIGGER stores_judged BEFORE UPDATE OF payout_base, payout_solana ON stores FOR EACH ROW
    EXECUTE FUNCTION judge_before_wallets();
  CREATE TRIGGER store_wallets_judged BEFORE INSERT OR DELETE ON store_wallets FOR EACH ROW
    EXECUTE FUNCTION judge_before_wallets();
${trafficOf('day')}${trafficOf('hour')}
  CREATE FUNCTION forget_old_hours() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF TG_TABLE_NAME = 'link_hours' THEN
      DELETE FROM link_hours WHERE link_id = NEW.link_id AND hour < NEW.hour - 62 * 24;
    ELSE
      DELETE FROM store_hours WHERE store_id = NEW.store_id AND hour < NEW.hour - 62 * 24;
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER link_hours_kept AFTER INSERT ON link_hours FOR EACH ROW EXECUTE FUNCTION forget_old_hours();
  CREATE TRIGGER store_hours_kept AFTER INSERT ON store_hours FOR EACH ROW EXECUTE FUNCTION forget_old_hours();
`

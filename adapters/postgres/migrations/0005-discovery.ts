import { type Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'

/** What strangers find: rows that triggers keep beside the links, with the words that they are found by. */
export const discovery: Migration = {
  async up(db: Kysely<unknown>) {
    // Knows letters and their lower case in every script, whatever the database's language is; builds without ICU have none.
    const { rows } = await sql`SELECT 1 FROM pg_collation WHERE collname = 'und-x-icu'`.execute(db)
    await sql.raw(statements(rows.length > 0 ? '"und-x-icu"' : '"default"')).execute(db)
  },
}

const statements = (collation: string) => `
  -- Words without case and accents, one space between them.
  CREATE FUNCTION folded_words(given text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT btrim(regexp_replace(
      regexp_replace(lower(normalize(given, NFKD) COLLATE ${collation}), '[\\u0300-\\u036f]', '', 'g') COLLATE ${collation},
      '[^[:alnum:]]+', ' ', 'g'))
  $$;

  -- Not by to_tsvector: its parser has ideas of its own about numbers, hosts and hyphens.
  CREATE FUNCTION weighed_words(given text, weight text) RETURNS tsvector LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(string_agg(quote_literal(left(w, 200)) || ':' || least(n, 16383) || weight, ' '), '')::tsvector
    FROM unnest(string_to_array(folded_words(given), ' ')) WITH ORDINALITY AS s (w, n) WHERE w <> ''
  $$;

  -- Each begins a word; one letter begins too many to look for them all.
  CREATE FUNCTION words_wanted(words text[]) RETURNS tsquery LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(string_agg(quote_literal(left(w, 200)) || CASE WHEN length(w) > 1 THEN ':*' ELSE '' END, ' & '), '')::tsquery
    FROM unnest(words) AS given (word), regexp_split_to_table(folded_words(word), ' ') AS s (w) WHERE w <> ''
  $$;

  ALTER TABLE listings ADD COLUMN words tsvector NOT NULL DEFAULT '';
  CREATE INDEX listings_words ON listings USING gin (words);

  -- By their ids, and nothing else: the plan is one for all calls, and may not look at all links for one of them.
  -- A title says more than a description, a tag or a name. The names come last: they are replaced where the others stay.
  CREATE FUNCTION list_links(ids text[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO listings
        (link_id, store_id, is_standard, price, created_at_ms, paid_on_base, paid_on_solana, popularity, rating, words)
      SELECT l.id, l.store_id, (l.link_type = 'standard')::int, l.price::double precision, l.created_at_ms,
        (l.price::numeric > 0 AND s.payout_base IS NOT NULL)::int, (l.price::numeric > 0 AND s.payout_solana IS NOT NULL)::int,
        coalesce(c.popularity, 0), round(100.0 * r.positive / r.total)::bigint,
        weighed_words(l.title, 'A') || weighed_words(l.tags, 'B') || weighed_words(l.description, 'D')
          || weighed_words(s.username || ' ' || s.display_name, 'C')
      FROM links l JOIN stores s ON s.id = l.store_id
        LEFT JOIN link_stats c ON c.link_id = l.id LEFT JOIN review_counts r ON r.link_id = l.id
      WHERE l.is_active = 1 AND l.is_public = 1 AND l.is_stealth = 0 AND l.suspension IS NULL
        AND l.id = any(ids)
      ON CONFLICT (link_id) DO NOTHING;
    INSERT INTO listing_tags (tag, listing_id)
      SELECT DISTINCT t.tag, g.id FROM listings g JOIN links l ON l.id = g.link_id,
        jsonb_array_elements_text(l.tags::jsonb) AS t (tag)
      WHERE l.id = any(ids)
      ON CONFLICT DO NOTHING;
  $$;

  CREATE FUNCTION forget_listing_tags() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    DELETE FROM listing_tags WHERE listing_id = OLD.id;
    RETURN NULL;
  END $$;
  CREATE TRIGGER listings_deleted AFTER DELETE ON listings FOR EACH ROW EXECUTE FUNCTION forget_listing_tags();

  CREATE FUNCTION list_link() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    -- A store that is renamed meanwhile is waited for: the words have its name.
    PERFORM 1 FROM stores WHERE id = NEW.store_id FOR SHARE;
    DELETE FROM listings WHERE link_id = NEW.id;
    PERFORM list_links(ARRAY[NEW.id]);
    RETURN NULL;
  END $$;
  CREATE TRIGGER links_listed AFTER INSERT ON links FOR EACH ROW EXECUTE FUNCTION list_link();
  CREATE TRIGGER links_listed_anew AFTER UPDATE OF title, description, tags, price, link_type, is_active, is_public, is_stealth,
    suspension ON links FOR EACH ROW EXECUTE FUNCTION list_link();

  -- Of a store's links nothing else has changed: the words of thousands are not read again.
  CREATE FUNCTION list_store() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    names tsvector := weighed_words(NEW.username || ' ' || NEW.display_name, 'C');
  BEGIN
    UPDATE listings SET words = ts_filter(words, '{a,b,d}') || names,
        paid_on_base = (price > 0 AND NEW.payout_base IS NOT NULL)::int,
        paid_on_solana = (price > 0 AND NEW.payout_solana IS NOT NULL)::int
      WHERE store_id = NEW.id;
    RETURN NULL;
  END $$;
  CREATE TRIGGER stores_listed_anew AFTER UPDATE OF username, display_name, payout_base, payout_solana ON stores FOR EACH ROW
    WHEN ((OLD.username, OLD.display_name, OLD.payout_base IS NULL, OLD.payout_solana IS NULL)
      <> (NEW.username, NEW.display_name, NEW.payout_base IS NULL, NEW.payout_solana IS NULL))
    EXECUTE FUNCTION list_store();

  CREATE FUNCTION note_link(link text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO link_stats AS s (link_id, changed) VALUES (link, 1) ON CONFLICT (link_id) DO UPDATE SET changed = s.changed + 1
  $$;

  CREATE FUNCTION note_rating() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM note_link(NEW.link_id);
    UPDATE listings SET rating = round(100.0 * NEW.positive / NEW.total)::bigint WHERE link_id = NEW.link_id;
    RETURN NULL;
  END $$;
  CREATE TRIGGER reviews_noted AFTER INSERT OR UPDATE ON review_counts FOR EACH ROW EXECUTE FUNCTION note_rating();

  CREATE FUNCTION list_popularity() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    UPDATE listings SET popularity = NEW.popularity WHERE link_id = NEW.link_id;
    RETURN NULL;
  END $$;
  CREATE TRIGGER link_stats_counted AFTER UPDATE OF popularity ON link_stats FOR EACH ROW
    WHEN (OLD.popularity <> NEW.popularity) EXECUTE FUNCTION list_popularity();
`

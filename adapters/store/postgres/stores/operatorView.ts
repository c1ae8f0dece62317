import { sql } from 'kysely'
import type { LinkSuspension } from '../../../../core/domain/link.ts'
import type { OperatorView } from '../../../../core/ports/store/operatorView.ts'
import { backlogOf } from '../../sql/backlog.ts'
import type { Database } from '../database.ts'

interface StoreRow {
  readonly id: string
  readonly username: string
  readonly display_name: string
  readonly created_at_ms: number
  readonly links: number
  readonly last_sale: number | null
}

interface SuspendedRow {
  readonly id: string
  readonly title: string
  readonly slug: string
  readonly suspension: string
  readonly username: string
}

/** The operator's view of all stores, in PostgreSQL. */
export function createOperatorView({ query }: Pick<Database, 'query'>): OperatorView {
  return {
    async stores(search, after, limit) {
      // Usernames are in lower case. If there is no search term, the index of usernames returns the page directly.
      const isFound =
        search === ''
          ? sql`true`
          : sql`(strpos(s.username, ${search}) > 0 OR strpos(lower(s.display_name), ${search}) > 0)`
      const { rows } = await sql<StoreRow>`
        SELECT s.id, s.username, s.display_name, s.created_at_ms,
          (SELECT count(*) FROM links l WHERE l.store_id = s.id AND l.is_active = 1) AS links,
          greatest((SELECT u.created_at_ms FROM purchases u WHERE u.store_id = s.id AND u.status <> 'reorged'
            ORDER BY u.created_at_ms DESC LIMIT 1),
            (SELECT max(last_sale_at_ms) FROM channel_totals t WHERE t.store_id = s.id)) AS last_sale
        FROM (SELECT * FROM stores s WHERE s.username > ${after} AND ${isFound} ORDER BY s.username LIMIT ${limit}) s
        ORDER BY s.username`.execute(query)
      return rows.map((row) => ({
        id: row.id,
        username: row.username,
        displayName: row.display_name,
        createdAtMs: row.created_at_ms,
        links: row.links,
        lastSaleAtMs: row.last_sale,
      }))
    },

    async suspended(limit) {
      // The time is read as a number and not as JSON text. The reason in the same JSON may contain characters that PostgreSQL's
      // text cannot.
      const { rows } = await sql<SuspendedRow & { total: number }>`
        SELECT l.id, l.title, CASE WHEN l.is_stealth = 1 THEN l.private_slug ELSE l.slug END AS slug, l.suspension,
          s.username, t.total
        FROM (SELECT count(*) AS total FROM links WHERE is_active = 1 AND suspension IS NOT NULL) t
          LEFT JOIN links l ON l.is_active = 1 AND l.suspension IS NOT NULL
          LEFT JOIN stores s ON s.id = l.store_id
        ORDER BY (l.suspension::json -> 'sinceMs')::text::bigint DESC, l.id LIMIT greatest(${limit}::bigint, 1)`.execute(
        query,
      )
      return {
        total: rows[0]!.total,
        rows: rows
          .filter(({ id }) => id !== null)
          .slice(0, limit)
          .map((row) => ({
            linkId: row.id,
            title: row.title,
            username: row.username,
            slug: row.slug,
            suspension: JSON.parse(row.suspension) as LinkSuspension,
          })),
      }
    },

    async backlog() {
      // The statement repeats the conditions of the index payments_open, so that PostgreSQL uses it.
      const [payments, others] = await Promise.all([
        sql<{ state: string; total: number }>`
          SELECT state, count(*) AS total FROM payments
          WHERE (state <> 'delivered' OR due_at_ms IS NOT NULL) AND state IN ('claimed', 'settling', 'pending', 'refund_due')
          GROUP BY state`.execute(query),
        sql<{ webhooks: number; links: number }>`
          SELECT (SELECT count(*) FROM webhook_deliveries WHERE state = 'waiting') AS webhooks,
            (SELECT count(*) FROM links WHERE is_active = 1 AND suspension IS NOT NULL) AS links`.execute(
          query,
        ),
      ])
      return backlogOf(payments.rows, others.rows[0]!.webhooks, others.rows[0]!.links)
    },

    async gasByDay(network, fromDay) {
      const { rows } = await sql<{ day: number; spent: string }>`
        SELECT day, sum(spent::numeric)::text AS spent FROM gas_spent
        WHERE network = ${network} AND day >= ${fromDay} GROUP BY day ORDER BY day`.execute(query)
      return rows.map(({ day, spent }) => ({ day, spent: BigInt(spent) }))
    },
  }
}

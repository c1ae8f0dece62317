import type { LinkSuspension } from '../../../core/domain/link.ts'
import type { OperatorView } from '../../../core/ports/store/operatorView.ts'
import { backlogOf } from '../sql/backlog.ts'
import type { ReaderThread } from './reader/readerThread.ts'

// Usernames are in lower case. If there is no search term, the index of usernames returns the page directly.
const storesPage = (condition: string) => `
  SELECT s.id, s.username, s.display_name, s.created_at_ms,
    (SELECT count(*) FROM links l WHERE l.store_id = s.id AND l.is_active = 1) AS links,
    (SELECT max(at_ms) FROM (
      SELECT * FROM (SELECT u.created_at_ms AS at_ms FROM purchases u WHERE u.store_id = s.id AND u.status <> 'reorged'
        ORDER BY u.created_at_ms DESC LIMIT 1)
      UNION ALL SELECT t.last_sale_at_ms FROM channel_totals t WHERE t.store_id = s.id)) AS last_sale
  FROM stores s WHERE s.username > ?1 AND ${condition} ORDER BY s.username LIMIT ?2 + 0`
const everyStore = storesPage('true')
const foundStores = storesPage('(instr(s.username, ?3) > 0 OR instr(lower(s.display_name), ?3) > 0)')

// Every suspended link has a row in link_suspensions, so the query reads only links that were suspended at some time.
const suspended = `FROM (SELECT DISTINCT link_id FROM link_suspensions) b CROSS JOIN links l ON l.id = b.link_id
  WHERE l.is_active = 1 AND l.suspension IS NOT NULL`

// Repeats the conditions of the index payments_open, so that SQLite uses it.
const openPayments = `SELECT state, count(*) AS total FROM payments
  WHERE (state <> 'delivered' OR due_at_ms IS NOT NULL) AND state IN ('claimed', 'settling', 'pending', 'refund_due')
  GROUP BY state`
// Each half repeats the conditions of its index.
const webhooksWaiting = `SELECT
  (SELECT count(*) FROM webhook_deliveries WHERE state = 'waiting' AND is_due = 1)
  + (SELECT count(*) FROM webhook_deliveries WHERE state = 'waiting' AND is_due = 0) AS total`

/** The operator's view of all stores, in SQLite. A separate thread reads it. */
export function createOperatorView(thread: Pick<ReaderThread, 'read'>): OperatorView {
  return {
    async stores(search, after, limit) {
      const [rows] = await thread.read(
        search === ''
          ? { sql: everyStore, parameters: [after, limit] }
          : { sql: foundStores, parameters: [after, limit, search] },
      )
      return rows!.map((row) => ({
        id: String(row['id']),
        username: String(row['username']),
        displayName: String(row['display_name']),
        createdAtMs: Number(row['created_at_ms']),
        links: Number(row['links']),
        lastSaleAtMs: row['last_sale'] === null ? null : Number(row['last_sale']),
      }))
    },

    async suspended(limit) {
      const [totals, rows] = await thread.read(
        { sql: `SELECT count(*) AS total ${suspended}`, parameters: [] },
        {
          sql: `SELECT l.id, l.title, CASE WHEN l.is_stealth = 1 THEN l.private_slug ELSE l.slug END AS slug, l.suspension,
              (SELECT s.username FROM stores s WHERE s.id = l.store_id) AS username
            ${suspended} ORDER BY json_extract(l.suspension, '$.sinceMs') DESC, l.id LIMIT ? + 0`,
          parameters: [limit],
        },
      )
      return {
        total: Number(totals![0]!['total']),
        rows: rows!.map((row) => ({
          linkId: String(row['id']),
          title: String(row['title']),
          username: String(row['username']),
          slug: String(row['slug']),
          suspension: JSON.parse(String(row['suspension'])) as LinkSuspension,
        })),
      }
    },

    async backlog() {
      const [payments, webhooks, links] = await thread.read(
        { sql: openPayments, parameters: [] },
        { sql: webhooksWaiting, parameters: [] },
        { sql: `SELECT count(*) AS total ${suspended}`, parameters: [] },
      )
      return backlogOf(
        payments!.map((row) => ({ state: String(row['state']), total: Number(row['total']) })),
        Number(webhooks![0]!['total']),
        Number(links![0]!['total']),
      )
    },

    async gasByDay(network, fromDay) {
      const [rows] = await thread.read({
        sql: 'SELECT day, sum_atomic(spent) AS spent FROM gas_spent WHERE network = ? AND day >= ? GROUP BY day ORDER BY day',
        parameters: [network, fromDay],
      })
      return rows!.map((row) => ({ day: Number(row['day']), spent: BigInt(String(row['spent'])) }))
    },
  }
}

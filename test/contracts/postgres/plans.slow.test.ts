import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { moveFromSqlite } from '../../../adapters/store/postgres/move/moveFromSqlite.ts'
import { fillStore } from '../../../bench/scale/fillStore.ts'
import { DAY_MS, HOUR_MS } from '../../../core/ports/store/stats.ts'
import { databaseUrl, makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Index Cond'?: string
  readonly Plans?: readonly Plan[]
}

/** A table of fewer rows is read as a whole because that is cheaper: nothing is told by it. */
const FEW_ROWS = 50

/**
 * Tables that a plan reads from beginning to end. It is made without sequential scans and with nested loops only, so that what is left is
 * what no index could have found, regardless of the statistics of a small table.
 *
 * @param few indexes of some of the rows only: all of them are read as one wishes
 */
function scansOf(plan: Plan, few: ReadonlySet<string>, isLimited = false): string[] {
  const isOfAll = /^Index/.test(plan['Node Type']) && !few.has(plan['Index Name']!) && !isLimited
  const isWhole = plan['Node Type'] === 'Seq Scan' || (isOfAll && plan['Index Cond'] === undefined)
  const own = isWhole && plan['Relation Name'] !== undefined ? [plan['Relation Name']] : []
  const isCut = isLimited || plan['Node Type'] === 'Limit'
  return [...own, ...(plan.Plans ?? []).flatMap((part) => scansOf(part, few, isCut))]
}

t.test(
  'no page of the admin API reads a table that grows with sales or checks from beginning to end',
  { skip },
  async (t) => {
    const folder = join(t.testdir(), 'filled')
    const nowMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
    const { largest } = await fillStore({ folder, links: 120, sales: 900, upstreamPort: 1, nowMs })
    const store = await makePostgres(t)
    await moveFromSqlite(join(folder, 'tollgate.db'), { url: databaseUrl, schema: store.schema }, () => {})

    const requests = new Map<string, readonly unknown[]>()
    const query = pg.Client.prototype.query as (...args: unknown[]) => unknown
    pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
      const [first, values] = args as [string | pg.QueryConfig, unknown]
      const text = typeof first === 'string' ? first : first.text
      const given = typeof first === 'string' ? values : first.values
      if (/^\s*(SELECT|WITH|\(|UPDATE|DELETE|INSERT)/i.test(text ?? ''))
        requests.set(text, Array.isArray(given) ? given : [])
      return query.apply(this, args)
    } as never
    t.teardown(() => {
      pg.Client.prototype.query = query as never
    })
    await readAll()
    pg.Client.prototype.query = query as never
    t.ok(requests.size > 40, `${requests.size} statements`)

    const client = new pg.Client({ connectionString: databaseUrl, options: `-c search_path=${store.schema}` })
    await client.connect()
    t.teardown(() => client.end())
    for (const way of ['seqscan', 'hashjoin', 'mergejoin']) await client.query(`SET enable_${way} = off`)
    const partial = await client.query<{ name: string }>(
      "SELECT indexrelid::regclass::text AS name FROM pg_index WHERE indpred IS NOT NULL AND indrelid::regclass::text !~ '[.]'",
    )
    const few = new Set(partial.rows.map(({ name }) => name))
    const planOf = async (text: string, values: readonly unknown[]) => {
      const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>({
        text: `EXPLAIN (FORMAT JSON) ${text}`,
        values: [...values],
      })
      return scansOf(rows[0]!['QUERY PLAN'][0].Plan, few)
    }
    t.strictSame(await planOf("SELECT * FROM purchases WHERE amount_atomic = '1'", []), ['purchases'])
    t.strictSame(await planOf('SELECT * FROM purchases WHERE payment_id = 1', []), [])
    t.strictSame(await planOf('SELECT count(*) FROM purchases', []), ['purchases'])
    const { rows: tables } = await client.query<{ name: string }>(
      'SELECT relname AS name FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND reltuples >= $1',
      [FEW_ROWS],
    )
    const large = new Set(tables.map(({ name }) => name))
    for (const table of [
      'payments',
      'purchases',
      'ledger',
      'links',
      'link_days',
      'sales_rollups',
      'check_hours',
      'listings',
    ])
      t.ok(large.has(table), `${table} has rows enough`)
    for (const [text, values] of requests)
      for (const table of await planOf(text, values))
        if (large.has(table))
          t.fail(`${table} is read from beginning to end: ${text.replaceAll(/\s+/g, ' ').trim()}`)

    async function readAll(): Promise<void> {
      const { stores, links, stats, purchases, fees, discovery, reviews, operatorView, webhooks, sessions } =
        store
      const seller = (await stores.byUsername(largest.username))!
      const { id, payout } = seller
      const page = await links.page(id, { limit: 20 })
      const [link] = page.links
      const always = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER }
      const today = Math.floor(nowMs / DAY_MS) * DAY_MS
      for (const state of ['suspended', 'stealth', 'public', 'unlisted'] as const)
        await links.page(id, { limit: 20, state })
      if (page.nextCursor !== null) await links.page(id, { limit: 20, cursor: page.nextCursor })
      await links.page(id, { limit: 20, words: ['chess'], isPaid: true })
      await links.served(largest.username, link!.slug)
      await stats.totals(id, always)
      await stats.totals(id, { fromMs: today, toMs: nowMs - 1 })
      await stats.totals(id, { linkId: link!.id, fromMs: nowMs - DAY_MS, toMs: nowMs })
      await stats.series(id, { ...always, bucketMs: DAY_MS })
      await stats.series(id, { fromMs: nowMs - DAY_MS, toMs: nowMs, bucketMs: HOUR_MS })
      await stats.ofLinks(
        id,
        page.links.map((one) => one.id),
        today - 30 * DAY_MS,
      )
      await stats.healthDays(link!.id, today - 30 * DAY_MS)
      const { purchases: sold, nextCursor } = await purchases.page(id, { limit: 5 })
      await purchases.page(id, { limit: 5, cursor: nextCursor! })
      await purchases.page(id, { limit: 5, linkId: link!.id })
      for (const status of ['refund_due', 'refunded', 'reorged'] as const)
        await purchases.page(id, { limit: 5, status })
      const [sale] = sold
      await purchases.find(sale!.id)
      await purchases.ledger(sale!.id)
      await purchases.refundOf(sale!.id)
      const { network, asset, amountAtomic, buyerWallet: to } = sale!
      await purchases.soldIn(network, [sale!.txHash!, 'nobody'])
      await store.ledger.statesOf([sale!.paymentKey, '00'.repeat(32)])
      const back = { network, asset, from: payout.base!, to, amountAtomic }
      await purchases.isOwedBack(back)
      await purchases.hasSold(id, back, today)
      await fees.months(id)
      for (const sort of ['relevance', 'popular', 'newest', 'price_asc', 'price_desc'] as const)
        await discovery.search({ words: ['chess'], sort, limit: 20, offset: 0 })
      await discovery.search({ sort: 'popular', limit: 20, offset: 0 })
      await discovery.search({
        tag: 'chess',
        username: largest.username,
        sort: 'newest',
        limit: 20,
        offset: 0,
      })
      await discovery.recount(nowMs)
      await reviews.ofStore(id, { limit: 20, offset: 0 })
      await reviews.ofLink(link!.id, { limit: 20, offset: 0 })
      await operatorView.stores('', '', 20)
      await operatorView.stores('seller', '', 20)
      await operatorView.suspended(20)
      await stores.walletsOf(id)
      await stores.paidLonger(id, 'base', payout.base!)
      await stores.redirectOf('nobody', nowMs)
      const [endpoint] = await webhooks.ofStore(id)
      if (endpoint !== undefined) await webhooks.deliveries(endpoint.id, { limit: 20 })
      await sessions.list(id, { limit: 20, nowMs })
      await store.ledger.parked(5, 20)
      await store.ledger.list({ states: ['claimed', 'settling'], limit: 20 })
      await store.healthChecks.hours(link!.id, 0)
      await store.keys.ofStore(id)
    }
  },
)

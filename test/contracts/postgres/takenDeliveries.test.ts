import pg from 'pg'
import t from 'tap'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

interface Plan {
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly Plan[]
}

/** Rows of deliveries that a statement read. */
const readBy = (plan: Plan): number =>
  (plan['Relation Name'] === 'webhook_deliveries'
    ? (plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0)) * plan['Actual Loops']
    : 0) + (plan.Plans ?? []).reduce((sum, part) => sum + readBy(part), 0)

t.test('the choice of deliveries reads neither what is over nor the backlog', { skip }, async (t) => {
  const { webhooks, database } = await makePostgres(t)
  const endpoint = { url: 'https://seller.example', description: '', kinds: ['test'], salt: '' } as const
  for (const n of [1, 2])
    await webhooks.create({ ...endpoint, id: `e${n}`, storeId: `s${n}`, createdAtMs: 1 }, 9)
  await database.pool.query(`
    INSERT INTO webhook_events (id, kind, store_id, at_ms, body) VALUES ('m1', 'test', 's1', 0, '{}');
    INSERT INTO webhook_deliveries (id, event_seq, endpoint_id, store_id, state, due_at_ms, is_due, created_at_ms)
      SELECT 'd' || i, 1, 'e1', 's1', CASE WHEN i <= 20000 THEN 'delivered' ELSE 'waiting' END, 0, 1, 0
      FROM generate_series(1, 40000) AS i
      UNION ALL SELECT 'f' || i, 1, 'e2', 's2', 'waiting', 0, 1, 0 FROM generate_series(1, 50) AS i;
    ANALYZE webhook_deliveries`)
  const requests: pg.QueryConfig[] = []
  const query = pg.Client.prototype.query as (...args: unknown[]) => unknown
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    requests.push(args[0] as pg.QueryConfig)
    return query.apply(this, args)
  } as never
  const taken = await webhooks.take({ limit: 16, nowMs: 1 }).finally(() => {
    pg.Client.prototype.query = query as never
  })
  t.ok(taken.length > 1, `${taken.length} are taken`)
  await database.pool.query(
    'UPDATE webhook_deliveries SET leased_until_ms = NULL WHERE leased_until_ms IS NOT NULL',
  )
  const choosing = requests.filter(({ text }) => /^\s*WITH RECURSIVE/.test(text))
  t.equal(choosing.length, 2)
  for (const { text, values } of choosing) {
    const { rows } = await database.pool.query({
      text: `EXPLAIN (ANALYZE, FORMAT JSON) ${text}`,
      values: [...values!],
    })
    const read = readBy(rows[0]['QUERY PLAN'][0].Plan)
    t.ok(read < 100, `${read} rows are read`)
  }
})

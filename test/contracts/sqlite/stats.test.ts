import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { decideOwnSales } from '../../../adapters/store/repositories/stores.ts'
import { createTemplates, transactionAt } from '../../../adapters/store/repositories/transaction.ts'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { rarelyCounted } from '../../../adapters/store/sqlite/stats.ts'
import { runSteps } from '../../../adapters/store/sqlite/templates.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { DAY_MS, HOUR_MS, type Stats } from '../../../core/ports/store/stats.ts'
import { sampleKey, sampleLink, sampleStore, sell, startMs, testClock } from '../samples.ts'

const open = (path: string) => openSqlite({ path, clock: testClock(), log: silentLog })
const always = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER }
const viewer = fileURLToPath(new URL('./fixtures/viewer.ts', import.meta.url))

t.test('two processes on one file add up, and kill -9 takes no view that was written', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const store = await open(path)
  t.teardown(() => store.close())
  await store.stores.create(sampleStore('store-1'), null, sampleKey('k', 'store-1'))
  await store.links.create(sampleLink('link-1', 'store-1'))
  const killed = [1, 2].map(async () => {
    const child = spawn(process.execPath, [viewer, path], { stdio: ['ignore', 'pipe', 'inherit'] })
    const lines = createInterface({ input: child.stdout })
    let written = 0
    lines.on('line', (line) => {
      written = Number(line)
      if (written === 1_000) child.kill('SIGKILL')
    })
    await once(lines, 'close')
    return written
  })
  const written = (await Promise.all(killed)).reduce((sum, one) => sum + one, 0)
  const { views } = await store.stats.totals('store-1', always)
  t.ok(written >= 2_000)
  t.ok(views >= written, `${views} of ${written} are there`)
  t.ok(views <= written + 200, 'and of each at most the one that it had not told yet')
})

t.test("the ledger check finds the days on which a store's views are not those of its links", async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const store = await open(path)
  t.teardown(() => store.close())
  const hour = Math.floor(startMs / HOUR_MS)
  for (const id of ['a', 'b', 'c']) {
    await store.stores.create(sampleStore(id), null, sampleKey(`k-${id}`, id))
    for (const n of [1, 2]) {
      await store.links.create(sampleLink(`${id}${n}`, id))
      const some = { linkId: `${id}${n}`, calls: 0, failedCalls: 0, challenges: 1 }
      await store.stats.addTraffic([
        { ...some, hour, views: n },
        { ...some, hour: hour + 24, views: 2 },
      ])
    }
  }
  await store.links.deactivate('a1', startMs)
  t.match(await store.purchases.ledgerCheck(), { broken: { length: 0 } })
  const day = Math.floor(startMs / DAY_MS)
  const date = (later: number) => new Date(startMs + later * DAY_MS).toISOString().slice(0, 10)
  const { writer } = store.database
  for (const sql of [
    `UPDATE store_days SET views = views + 1 WHERE store_id = 'b' AND day = ${day}`,
    `UPDATE store_days SET challenges = 0 WHERE store_id = 'c' AND day = ${day + 1}`,
    `DELETE FROM store_days WHERE store_id = 'c' AND day = ${day}`,
  ])
    await writer.write('run', { sql, parameters: [] })
  const careless = new DatabaseSync(path, { enableForeignKeyConstraints: false })
  careless.exec(`INSERT INTO store_days (store_id, day, views, challenges) VALUES ('nobody', ${day}, 1, 0)`)
  careless.close()
  t.strictSame((await store.purchases.ledgerCheck()).broken, [
    `the views of b on ${date(0)} are not those of its links`,
    `the views of c on ${date(0)} are not those of its links`,
    `the views of c on ${date(1)} are not those of its links`,
    `the views of nobody on ${date(0)} are not those of its links`,
  ])
})

t.test('the figures of many sales hold up neither the event loop nor a write', async (t) => {
  const store = await open(':memory:')
  t.teardown(() => store.close())
  await store.stores.create(sampleStore('store-1'), null, sampleKey('k', 'store-1'))
  await store.links.create(sampleLink('link-1', 'store-1'))
  const under = { ...store, clock: testClock(), storeClock: testClock() }
  await sell(under, 'first', '0x01', { buyerWallet: '0xb' })
  // As many copies of one sale as take a while to read.
  const { reader: query, writer } = store.database
  const columns = query
    .prepare(`SELECT name FROM pragma_table_info('purchases')`)
    .all()
    .map(({ name }) => `${name}`)
  const copied = columns.map(
    (name) => ({ payment_id: 'p.id', id: 'p.purchase_id', tx_hash: `'0x' || p.id` })[name] ?? `u.${name}`,
  )
  await writer.write('runAll', [
    {
      sql: `WITH RECURSIVE numbers (n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100999)
        INSERT INTO payments (id, key, network, asset, payer, nonce, pay_to, amount_atomic, valid_before_ms, scheme,
          link_id, store_id, request_hash, purchase_id, claimed_at_ms, state, updated_at_ms)
        SELECT n, randomblob(32), network, asset, payer, nonce, pay_to, amount_atomic, valid_before_ms, scheme,
          link_id, store_id, request_hash, 'p' || n, claimed_at_ms, 'delivered', 0 FROM payments, numbers`,
      parameters: [],
    },
    {
      sql: `INSERT INTO purchases (${columns}) SELECT ${copied} FROM purchases u, payments p WHERE p.id >= 1000`,
      parameters: [],
    },
    { sql: 'DELETE FROM rollups_due', parameters: [] },
  ])
  const order: string[] = []
  const read = store.stats
    .series('store-1', { ...always, linkId: 'link-1', bucketMs: HOUR_MS })
    .then((buckets) => order.push(`read ${buckets.at(-1)!.purchases}`))
  await new Promise((resolve) => setImmediate(resolve))
  order.push('turn of the event loop')
  await store.stats.addTraffic([
    { linkId: 'link-1', hour: 1, views: 1, challenges: 0, calls: 0, failedCalls: 0 },
  ])
  order.push('write')
  await read
  t.strictSame(order, ['turn of the event loop', 'write', 'read 100001'])
})

t.test('who asks what a store may give back holds up nobody, whatever it has sold', async (t) => {
  const store = await open(':memory:')
  t.teardown(() => store.close())
  await store.stores.create(sampleStore('store-1'), null, sampleKey('k', 'store-1'))
  await store.links.create(sampleLink('link-1', 'store-1'))
  const under = { ...store, clock: testClock(), storeClock: testClock() }
  const { claim, purchase } = await sell(under, 'first', '0x01')
  const { network, asset, amountAtomic } = purchase
  const back = { network, asset, amountAtomic, from: claim.payTo, to: claim.payer }
  const order: string[] = []
  const read = store.purchases.hasSold('store-1', back, 0).then((has) => order.push(`read ${has}`))
  await new Promise((resolve) => setImmediate(resolve))
  order.push('turn of the event loop')
  await read
  t.strictSame(order, ['turn of the event loop', 'read true'])
})

t.test('figures of many sales are counted again after a while, those of few at once', async (t) => {
  let requestCount = 0
  let purchases = 999
  const totals = async () => {
    requestCount++
    return {
      ...{ views: 0, challenges: 0, refunds: 0, refundedE18: 0n, buyers: 0, revenueE18: 0n },
      purchases,
    }
  }
  const clock = testClock()
  const stats = rarelyCounted({ totals } as Partial<Stats> as Stats, clock)
  const ask = (more: object = {}) => stats.totals('store-1', { ...always, ...more })
  await ask()
  await ask()
  t.equal(requestCount, 2)
  purchases = 5_000
  await Promise.all([ask(), ask(), ask({ fromMs: 59_999 })])
  t.equal(requestCount, 3, 'who asks at once waits for one answer')
  clock.nowMs += 499
  await ask()
  t.equal(requestCount, 3)
  for (const other of [{ linkId: 'a' }, { fromMs: 60_000 }, { toMs: 5 }]) await ask(other)
  t.equal(requestCount, 6)
  clock.nowMs += 2
  await ask()
  t.equal(requestCount, 7)
})

t.test('who fails to count leaves nothing behind', async (t) => {
  let isDown = true
  const totals = async () => {
    if (isDown) throw new Error('down')
    return { purchases: 7 }
  }
  const stats = rarelyCounted({ totals } as unknown as Stats, testClock())
  await t.rejects(stats.totals('store-1', always), /down/)
  isDown = false
  t.match(await stats.totals('store-1', always), { purchases: 7 })
})

t.test(
  'a store whose wallets change is judged by the sales that wait, not by all that it has sold',
  async (t) => {
    const store = await open(':memory:')
    t.teardown(() => store.close())
    const { reader } = store.database
    const textOf = createTemplates('sqlite', (text) => text)
    const plan: string[] = []
    runSteps(decideOwnSales(transactionAt(startMs), 'store-1'), (request) => {
      if (!('strings' in request)) return undefined
      const { prepared } = textOf(request.strings, request.slots)
      plan.push(
        ...reader
          .prepare(`EXPLAIN QUERY PLAN ${prepared}`)
          .all()
          .map(({ detail }) => String(detail)),
      )
      return [{ payment_id: 1, was: null, became: 'settled' }]
    })
    const ofSales = plan.filter((line) => /\bu\b|purchases/.test(line))
    t.equal(ofSales.length, 2)
    for (const line of ofSales) t.match(line, 'SEARCH u USING INTEGER PRIMARY KEY')
  },
)

t.test('the ledger check names the sum that says something else than its sales', async (t) => {
  const store = await open(':memory:')
  t.teardown(() => store.close())
  await store.stores.create(sampleStore('store-1'), null, sampleKey('k', 'store-1'))
  await store.links.create(sampleLink('link-1', 'store-1'))
  const under = { ...store, clock: testClock(), storeClock: testClock() }
  await sell(under, 'first', '0x01', { buyerWallet: '0xb' })
  const hour = Math.floor(startMs / HOUR_MS)
  const traffic = { linkId: 'link-1', hour, views: 1, challenges: 0, calls: 0, failedCalls: 0 }
  await store.stats.addTraffic([traffic])
  const rollups = async () =>
    (await store.purchases.ledgerCheck()).broken.filter((line) => !line.includes('settled'))
  t.strictSame(await rollups(), [], 'a note that waits is no mistake')
  await store.stats.sumUp()
  t.strictSame(await rollups(), [])
  const mistakes = [
    [
      "UPDATE sales_rollups SET revenue_e18 = '1' WHERE unit = 'hour'",
      /the sums of store-1 on 2026-06-02T12 are not/,
    ],
    [
      "UPDATE sales_rollups SET buyers = NULL WHERE scope = 'store-1/link-1'",
      /the sums of store-1\/link-1 on 2026-06-02 are/,
    ],
    [
      "DELETE FROM sales_rollups WHERE unit = 'day' AND scope = 'store-1'",
      /the sums of store-1 on 2026-06-02 are not/,
    ],
    [
      "UPDATE sales_rollups SET at = at + 1 WHERE unit = 'day' AND scope = 'store-1'",
      /store-1 on 2026-06-03 .* not there/,
    ],
    [
      "UPDATE sales_rollups SET scope = 'store-2' WHERE scope = 'store-1'",
      /the sums of store-2 on .* are of sales/,
    ],
    ["UPDATE fee_rollups SET fees = fees || '0'", /the fees of store-1 in 2026-06 are not/],
    ["UPDATE fee_rollups SET month = '2026-05'", /the fees of store-1 in 2026-05 .* not there/],
    ['UPDATE store_days SET views = 2', /the views of store-1 on 2026-06-02 are not/],
  ] as const
  for (const [sql, named] of mistakes) {
    const tables = ['sales_rollups', 'fee_rollups', 'store_days']
    const run = (statements: readonly string[]) =>
      store.database.writer.write(
        'runAll',
        statements.map((sql) => ({ sql, parameters: [] })),
      )
    await run([...tables.map((name) => `CREATE TABLE kept_${name} AS SELECT * FROM ${name}`), sql])
    const found = await rollups()
    t.ok(
      found.some((line) => named.test(line)),
      `${named}: ${found.join('; ')}`,
    )
    await run(
      tables.flatMap((name) => [
        `DELETE FROM ${name}`,
        `INSERT INTO ${name} SELECT * FROM kept_${name}`,
        `DROP TABLE kept_${name}`,
      ]),
    )
    t.strictSame(await rollups(), [], 'whole again')
  }
})

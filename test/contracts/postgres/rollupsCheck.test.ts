import t, { type Test } from 'tap'
import { HOUR_MS } from '../../../core/ports/store/stats.ts'
import { sampleKey, sampleLink, sampleStore, sell, startMs } from '../samples.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

async function sold(t: Test) {
  const store = await makePostgres(t)
  await store.stores.create(sampleStore('store-1'), null, sampleKey('k', 'store-1'))
  await store.links.create(sampleLink('link-1', 'store-1'))
  await sell(store, 'first', '0x01', { buyerWallet: '0xb' })
  const traffic = { linkId: 'link-1', hour: Math.floor(startMs / HOUR_MS), views: 1, challenges: 0 }
  await store.stats.addTraffic([{ ...traffic, calls: 0, failedCalls: 0 }])
  const findings = async () =>
    (await store.purchases.ledgerCheck()).broken.filter((line) => /sum|fees|views/.test(line))
  return { store, findings }
}

const mistakes = [
  [
    "UPDATE sales_rollups SET revenue_e18 = '1' WHERE unit = 'hour'",
    /the sums of store-1 on 2026-06-02T12 are not/,
  ],
  [
    "UPDATE sales_rollups SET calls = 2 WHERE scope = 'store-1/link-1'",
    /the sums of store-1\/link-1 on 2026-06-02 are not/,
  ],
  [
    "UPDATE sales_rollups SET refunds = 1, refunded_e18 = '1' WHERE unit = 'day' AND scope = 'store-1'",
    /the sums of store-1 on 2026-06-02 are not/,
  ],
  [
    "DELETE FROM sales_rollups WHERE unit = 'day' AND scope = 'store-1'",
    /the sums of store-1 on 2026-06-02 are not/,
  ],
  [
    "UPDATE sales_rollups SET at = at + 1 WHERE unit = 'day' AND scope = 'store-1'",
    /store-1 on 2026-06-03 .* not there/,
  ],
  ["UPDATE sales_rollups SET at = at + 4000 WHERE unit = 'day'", /store-1 on 2037-.* not there/],
  [
    "UPDATE sales_rollups SET scope = 'store-2' WHERE scope = 'store-1'",
    /the sums of store-2 on .* are of sales that are not there/,
  ],
  ["UPDATE fee_rollups SET fees = fees || '0'", /the fees of store-1 in 2026-06 are not/],
  ["UPDATE fee_rollups SET standing = '0'", /the fees of store-1 in 2026-06 are not/],
  ["UPDATE fee_rollups SET month = '2026-05'", /the fees of store-1 in 2026-05 .* not there/],
  ['DELETE FROM fee_rollups', /the fees of store-1 in 2026-06 are not/],
  ["UPDATE purchases SET price_usd = 'much'", /the sums of store-1 on 2026-06-02 are not/],
  ['UPDATE store_days SET views = 2', /the views of store-1 on 2026-06-02 are not/],
] as const

t.test(
  'the ledger check in PostgreSQL names the sum that says something else than its sales',
  { skip },
  async (t) => {
    const { store, findings } = await sold(t)
    t.strictSame(await findings(), [], 'a note that waits is no mistake')
    await store.stats.sumUp()
    t.strictSame(await findings(), [])
    const run = (text: string) => store.database.pool.query(text)
    for (const [text, named] of mistakes) {
      const tables = ['sales_rollups', 'fee_rollups', 'store_days']
      for (const name of tables) await run(`CREATE TABLE kept_${name} AS SELECT * FROM ${name}`)
      await run('CREATE TABLE kept_prices AS SELECT payment_id, price_usd FROM purchases')
      t.ok((await run(text)).rowCount! > 0, text)
      const found = await findings()
      t.ok(
        found.some((line) => named.test(line)),
        `${named}: ${found.join('; ')}`,
      )
      for (const name of tables)
        await run(
          `DELETE FROM ${name}; INSERT INTO ${name} SELECT * FROM kept_${name}; DROP TABLE kept_${name}`,
        )
      await run(
        'UPDATE purchases u SET price_usd = k.price_usd FROM kept_prices k WHERE k.payment_id = u.payment_id',
      )
      await run('DROP TABLE kept_prices')
      t.strictSame(await findings(), [], 'whole again')
    }
  },
)

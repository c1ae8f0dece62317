import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t, { type Test } from 'tap'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { sumUp } from '../../../adapters/store/sqlite/stats.ts'
import { fillStore } from '../../../bench/scale/fillStore.ts'
import { entriesOfRefund } from '../../../core/domain/ledger.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { EVENT_RETENTION_MS } from '../../../core/ports/store/webhooks.ts'
import { change, sell, testClock } from '../samples.ts'

const skipsCheckedDays = { skipsCheckedDays: true }
const nowMs = Date.UTC(2026, 5, 2, 12)

/** A year of sales, and a tool that knows nothing of the gateway. */
async function sold(t: Test) {
  const folder = t.testdir({})
  await fillStore({ folder, links: 30, sales: 300, upstreamPort: 1, nowMs })
  const path = join(folder, 'tollgate.db')
  const store = await openSqlite({ path, clock: { now: () => nowMs }, log: silentLog })
  const tool = new DatabaseSync(path, { enableForeignKeyConstraints: false })
  t.teardown(async () => {
    tool.close()
    await store.close()
  })
  return { store, tool, check: () => store.purchases.ledgerCheck({}, skipsCheckedDays) }
}

t.test('days that were found right are not read again, and what they come to is the same', async (t) => {
  const { store, tool, check } = await sold(t)
  const whole = await store.purchases.ledgerCheck()
  t.match(whole, { purchases: 300, skippedDays: 0, broken: { length: 0 }, unbalanced: { length: 0 } })
  t.strictSame(await check(), whole, 'the first reads all of it')
  const again = await check()
  t.ok(again.skippedDays > 100)
  t.strictSame({ ...again, skippedDays: 0 }, whole)
  const { newest } = tool.prepare('SELECT max(day) AS newest FROM ledger_checked_days').get()!
  t.ok((Number(newest) + 1) * 86_400_000 <= nowMs - EVENT_RETENTION_MS, 'what is recent is read each time')
  t.strictSame(await store.purchases.ledgerCheck(), whole, 'all of it is read when that is asked for')
})

t.test('whatever moves something of an old day has it read again', async (t) => {
  const { tool, check } = await sold(t)
  const { skippedDays } = (await check()) && (await check())
  const old = `(SELECT payment_id FROM purchases u JOIN payments p ON p.id = u.payment_id WHERE u.status = 'delivered'
    AND u.session_id IS NULL AND u.payment_id NOT IN own_sales AND p.state = 'delivered' ORDER BY 1 LIMIT 1 OFFSET 20)`
  const oldId = `(SELECT id FROM purchases WHERE payment_id = ${old})`
  const oldDay = `(SELECT created_at_ms / 86400000 FROM purchases WHERE payment_id = ${old})`
  const back = `(SELECT payment_id FROM refunds ORDER BY 1 LIMIT 1)`
  const mistakes = [
    `UPDATE sales_rollups SET calls = calls + 1 WHERE unit = 'day' AND at = ${oldDay} AND instr(scope, '/') = 0`,
    `UPDATE sales_rollups SET revenue_e18 = '1' WHERE unit = 'hour' AND at / 24 = ${oldDay}`,
    `UPDATE sales_rollups SET at = at + 4000 WHERE unit = 'day' AND at = ${oldDay}`,
    `UPDATE sales_rollups SET buyers = NULL WHERE unit = 'day' AND at = ${oldDay}`,
    `DELETE FROM sales_rollups WHERE unit = 'day' AND at = ${oldDay}`,
    `INSERT INTO sales_rollups VALUES ('hour', 'deleted-store', ${oldDay} * 24, 1, '1', 0, '0', NULL)`,
    `UPDATE fee_rollups SET fees = fees || '0' WHERE month = (SELECT min(month) FROM fee_rollups)`,
    `DELETE FROM fee_rollups WHERE month = (SELECT min(month) FROM fee_rollups)`,
    `UPDATE purchases SET price_usd = '7' WHERE payment_id = ${old}`,
    `UPDATE purchases SET fee_atomic = '7' WHERE payment_id = ${old}`,
    `UPDATE purchases SET status = 'refund_due' WHERE payment_id = ${old}`,
    `DELETE FROM purchases WHERE payment_id = ${old}`,
    `UPDATE payments SET state = 'refund_due' WHERE id = ${old}`,
    `DELETE FROM payments WHERE id = ${old}`,
    `UPDATE ledger SET entries = '[]' WHERE purchase_id = ${oldId}`,
    `INSERT INTO ledger SELECT purchase_id, 1, entries FROM ledger WHERE purchase_id = ${oldId}`,
    `DELETE FROM ledger WHERE purchase_id = ${oldId}`,
    `INSERT INTO own_sales SELECT ${old}`,
    `INSERT INTO refunds SELECT ${old}, 'eip155:84532', '0x1', 1`,
    `DELETE FROM refunds WHERE payment_id = ${back}`,
  ]
  const tables = [
    'sales_rollups',
    'fee_rollups',
    'purchases',
    'payments',
    'ledger',
    'own_sales',
    'refunds',
    'rollups_due',
  ]
  const triggers = tool.prepare("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").all()
  const unseen = (work: () => void) => {
    for (const { name } of triggers) tool.exec(`DROP TRIGGER ${name}`)
    work()
    for (const { sql } of triggers) tool.exec(String(sql))
  }
  for (const name of ['ledger_checked_days', 'ledger_checked_months', ...tables])
    tool.exec(`CREATE TABLE kept_${name} AS SELECT * FROM ${name}`)
  const restore = (names: readonly string[]) =>
    unseen(() => {
      for (const name of names)
        tool.exec(`DELETE FROM ${name}; INSERT INTO ${name} SELECT * FROM kept_${name}`)
    })
  for (const sql of mistakes) {
    tool.exec(sql)
    const found = await check()
    t.ok(found.broken.length + found.unbalanced.length > 0, sql)
    t.ok(
      found.skippedDays < skippedDays || /fee_rollups/.test(sql),
      `${skippedDays} before, ${found.skippedDays} now`,
    )
    t.strictSame((await check()).broken, found.broken, 'what is wrong stays so')
    restore([...tables, 'ledger_checked_days', 'ledger_checked_months'])
  }
  t.match(await check(), { broken: { length: 0 }, unbalanced: { length: 0 }, skippedDays })

  unseen(() => tool.exec(mistakes[0]!))
  t.strictSame(
    (await check()).broken,
    [],
    'what no trigger saw, as a broken disk, is not looked for in old days',
  )
})

t.test(
  'what moves while a day is checked has it read again, and what was read before an end is kept',
  async (t) => {
    const { store, tool } = await sold(t)
    const noted = () =>
      Number(tool.prepare('SELECT count(*) AS n FROM ledger_checked_days WHERE is_right = 1').get()!['n'])
    const stop = new Error('stop')
    let days = 0
    const dies = store.purchases.ledgerCheck(
      {
        onProgress() {
          days++
          if (days > 40) throw stop
        },
      },
      skipsCheckedDays,
    )
    await t.rejects(dies, stop)
    t.ok(noted() >= 10, 'the days before are noted')
    t.ok(noted() < 100)
    const { day } = tool.prepare('SELECT max(day) AS day FROM ledger_checked_days WHERE is_right = 1').get()!
    const later = tool
      .prepare("SELECT min(at) AS at FROM sales_rollups WHERE unit = 'day' AND at > ?")
      .get(Number(day) + 20)!
    const atLater = Number(later['at'])
    let hasMoved = false
    const found = await store.purchases.ledgerCheck(
      {
        onProgress(_, seen) {
          // The last sale of that day has been looked at.
          const sale = tool
            .prepare('SELECT created_at_ms / 86400000 AS day FROM purchases WHERE payment_id = ?')
            .get(seen)
          if (hasMoved || Number(sale?.['day']) !== atLater) return
          hasMoved = true
          tool
            .prepare("UPDATE sales_rollups SET calls = calls + 1 WHERE unit = 'day' AND at = ?")
            .run(atLater)
        },
      },
      skipsCheckedDays,
    )
    t.ok(hasMoved)
    t.strictSame(found.broken, [], 'it came after the look')
    t.ok(noted() > 100)
    t.notOk(tool.prepare('SELECT 1 FROM ledger_checked_days WHERE is_right = 1 AND day = ?').get(atLater))
    t.ok((await store.purchases.ledgerCheck({}, skipsCheckedDays)).broken.length > 0)
  },
)

t.test('what moves of a refund has the day read again on which it was made', async (t) => {
  const clock = testClock()
  const path = join(t.testdir({}), 'tollgate.db')
  const store = await openSqlite({ path, clock, log: silentLog })
  const tool = new DatabaseSync(path, { enableForeignKeyConstraints: false })
  t.teardown(async () => {
    tool.close()
    await store.close()
  })
  const check = () => store.purchases.ledgerCheck({}, skipsCheckedDays)
  const DAY_MS = 86_400_000
  const soldAtMs = nowMs - 150 * DAY_MS
  const soldAt = async (name: string, days: number) => {
    clock.nowMs = soldAtMs + days * DAY_MS
    return sell(store, name, `0x${days}`, { createdAtMs: clock.nowMs })
  }
  const { claim, row, purchase } = await soldAt('returned', 0)
  const late = await soldAt('late', 1)
  await store.ledger.apply(
    change(late.claim, late.row, 'settled', 'delivered', { purchaseStatus: 'delivered' }),
  )
  clock.nowMs = soldAtMs + 5 * DAY_MS
  const back = { network: purchase.network, transaction: '0xb', paymentKeys: [] }
  const end = { purchaseStatus: 'refunded', entries: entriesOfRefund(purchase), refund: back } as const
  t.equal(await store.ledger.apply(change(claim, row, 'settled', 'refunded', end)), true)
  await soldAt('last', 140)
  clock.nowMs = nowMs
  await sumUp(store.database)
  t.match(await check(), { broken: { length: 0 }, unbalanced: { length: 0 } })
  t.equal((await check()).skippedDays, 3, 'the days of both sales, and of the refund')

  const mistakes = [
    [
      `UPDATE refunds SET refunded_at_ms = refunded_at_ms + ${DAY_MS}`,
      `UPDATE refunds SET refunded_at_ms = refunded_at_ms - ${DAY_MS}`,
    ],
    [
      `UPDATE purchases SET price_usd = '7' WHERE status = 'refunded'`,
      `UPDATE purchases SET price_usd = '0.1' WHERE status = 'refunded'`,
    ],
    [`INSERT INTO own_sales VALUES (${row})`, `DELETE FROM own_sales WHERE payment_id = ${row}`],
  ] as const
  for (const [wrong, right] of mistakes) {
    tool.exec(wrong)
    t.match((await check()).broken, [/sums of store-1/], wrong)
    tool.exec(right)
    t.strictSame((await check()).broken, [], right)
    t.equal((await check()).skippedDays, 3)
  }
})

t.test('no sale looks for notes: those of its own day are not made yet', async (t) => {
  const store = await openSqlite({ path: ':memory:', clock: testClock(), log: silentLog })
  t.teardown(() => store.close())
  // Whichever trigger runs takes these away: every payment is in the stretch, and June is the month.
  const columns = 'first_id, last_id, rules, run'
  const values = `${Number.MIN_SAFE_INTEGER}, ${Number.MAX_SAFE_INTEGER}, 1, 'run'`
  const notes = [
    `INSERT INTO ledger_checked_days (day, ${columns}) VALUES (1, ${values})`,
    `INSERT INTO ledger_checked_months (month, ${columns}) VALUES ('2026-06', ${values})`,
  ]
  const { writer, reader } = store.database
  await writer.write(
    'runAll',
    notes.map((sql) => ({ sql, parameters: [] })),
  )
  const { claim, row, purchase } = await sell(store, 'one', '0x01')
  const end = { purchaseStatus: 'delivered' } as const
  t.equal(await store.ledger.apply(change(claim, row, 'settled', 'delivered', end)), true)
  t.equal((await store.purchases.find(purchase.id))!.status, 'delivered')
  t.ok(reader.prepare('SELECT 1 FROM ledger_checked_days').get())
  t.ok(reader.prepare('SELECT 1 FROM ledger_checked_months').get())
  await writer.write('run', { sql: "UPDATE purchases SET price_usd = '2'", parameters: [] })
  t.notOk(reader.prepare('SELECT 1 FROM ledger_checked_days').get(), 'what is no sale takes them away')
  t.notOk(reader.prepare('SELECT 1 FROM ledger_checked_months').get())
})

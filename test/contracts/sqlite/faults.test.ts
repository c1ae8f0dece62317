import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t, { type Test } from 'tap'
import { startWriter } from '../../../adapters/store/sqlite/commit/writer.ts'
import { openSqlite, type SqliteStore } from '../../../adapters/store/sqlite/openSqlite.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { mountSmallDisk } from '../../helpers/servers/mountSmallDisk.ts'
import { keyOf, sampleClaim, sell as sellOne } from '../samples.ts'

async function open(t: Test, path = ':memory:'): Promise<SqliteStore> {
  const store = await openSqlite({ path, clock: systemClock, log: silentLog })
  t.teardown(() => store.close())
  return store
}

const run = (store: SqliteStore, sql: string) => store.database.writer.write('run', { sql, parameters: [] })
const unavailable = { code: 'store_unavailable', status: 503 }
const large = (name: string) => sampleClaim(name, { payload: 'x'.repeat(20_000) })

const sell = (store: SqliteStore, name: string) => sellOne(store, name, `0x${name}`)

/** Claims until one is refused. @returns the keys that were acknowledged. */
async function claimUntilFull(t: Test, store: SqliteStore): Promise<string[]> {
  const claimed: string[] = []
  for (let i = 0; i < 2_000; i++) {
    try {
      await store.ledger.claim(large(`k${i}`))
      claimed.push(`k${i}`)
    } catch (error) {
      t.match(error, unavailable)
      return claimed
    }
  }
  throw new Error('It never became full.')
}

t.test('a full database refuses writes with store_unavailable, goes on reading, and recovers', async (t) => {
  const store = await open(t)
  await sell(store, 'before')
  await run(store, 'PRAGMA max_page_count = 120')
  const claimed = await claimUntilFull(t, store)
  const group = await Promise.allSettled(['g1', 'g2', 'g3'].map((key) => store.ledger.claim(large(key))))
  t.ok(group.every((r) => r.status === 'rejected' && r.reason.code === 'store_unavailable'))
  t.match(await store.ledger.find(keyOf('before')), { state: 'settled' })
  for (const key of ['g1', 'g2', 'g3'])
    t.equal(await store.ledger.find(keyOf(key)), undefined, 'nothing of the group')

  await run(store, 'PRAGMA max_page_count = 1000000')
  t.strictSame(await store.health(), [])
  await sell(store, 'after')
  for (const key of ['after', ...claimed]) t.ok(await store.ledger.find(keyOf(key)))
  t.match(await store.purchases.ledgerCheck(), {
    purchases: 2,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test('a full disk refuses writes with store_unavailable, goes on reading, and recovers', async (t) => {
  const disk = mountSmallDisk(t, '2m')
  if (disk === undefined) return
  const store = await openSqlite({ path: join(disk, 'tollgate.db'), clock: systemClock, log: silentLog })
  try {
    const ballast = join(disk, 'ballast')
    writeFileSync(ballast, Buffer.alloc(300_000))
    await sell(store, 'before')
    const claimed = await claimUntilFull(t, store)
    t.match(await store.health(), [/accepts no writes: .*(full|I\/O)/])
    t.match(await store.ledger.find(keyOf('before')), { state: 'settled' })

    rmSync(ballast)
    t.strictSame(await store.health(), [])
    await sell(store, 'after')
    for (const key of ['after', ...claimed]) t.ok(await store.ledger.find(keyOf(key)))
    t.match(await store.purchases.ledgerCheck(), {
      purchases: 2,
      broken: { length: 0 },
      unbalanced: { length: 0 },
    })
  } finally {
    await store.close()
  }
})

t.test('a database that turns read-only refuses writes and goes on reading', async (t) => {
  const store = await open(t)
  await sell(store, 'k1')
  await run(store, 'PRAGMA query_only = 1')
  await t.rejects(store.ledger.claim(sampleClaim('k2')), unavailable)
  await t.rejects(store.leases.take('o', 1_000), unavailable)
  t.match(await store.health(), [/accepts no writes: .*readonly/])
  t.match(await store.ledger.find(keyOf('k1')), { state: 'settled' })
  t.match(await store.purchases.ledgerCheck(), { purchases: 1 })
})

t.test('a write lock that another process keeps is waited for, not failed on', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const store = await open(t, path)
  const other = new DatabaseSync(path)
  other.exec('BEGIN IMMEDIATE')
  const claim = store.ledger.claim(sampleClaim('k1'))
  // Opening another store takes longer than the writer needs to come to the lock.
  await open(t)
  t.equal(await store.ledger.find(keyOf('k1')), undefined)
  other.exec('COMMIT')
  other.close()
  t.match(await claim, { won: true })
})

t.test('a writer that dies fails what it had in hand; the next write finds another writer', async (t) => {
  const options = { path: '', isDurable: true, flushMs: 1, maxRows: 32 }
  const program = new URL('./fixtures/dyingWriter.ts', import.meta.url)
  const writer = await startWriter(options, silentLog, program)
  t.teardown(() => writer.close())
  const results = await Promise.allSettled([writer.write('probe', 0), writer.write('runAll', [])])
  t.ok(results.every((r) => r.status === 'rejected' && r.reason.code === 'store_unavailable'))
  t.equal(await writer.write('runAll', []), true)
  const late = writer.write('probe', 0)
  await t.rejects(late, unavailable)
  t.equal(await writer.write('runAll', []), true)
})

t.test('after close every write is refused, and close may be called again', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const store = await openSqlite({ path, clock: systemClock, log: silentLog })
  const last = store.ledger.claim(sampleClaim('k1'))
  await store.close()
  t.match(await last, { won: true }, 'what was handed over is committed')
  await t.rejects(store.ledger.claim(sampleClaim('k2')), unavailable)
  await t.rejects(store.ledger.find(keyOf('k1')), unavailable)
  await store.close()
  t.throws(() => statSync(`${path}-wal`), { code: 'ENOENT' }, 'the log was copied back')
  t.match(await (await open(t, path)).ledger.find(keyOf('k1')), { state: 'claimed' })
})

t.test('a backup taken under load opens, is whole, and never replaces a file', async (t) => {
  const folder = t.testdir()
  const store = await open(t, join(folder, 'tollgate.db'))
  await sell(store, 'k1')
  const copy = join(folder, 'backup.db')
  const [, ...during] = await Promise.all([
    store.backup(copy),
    ...Array.from({ length: 50 }, (_, i) => sell(store, `during${i}`)),
  ])
  t.equal(during.length, 50)
  t.equal(statSync(copy).mode & 0o777, 0o600)
  const restored = await open(t, copy)
  t.strictSame(await restored.ledger.find(keyOf('k1')), await store.ledger.find(keyOf('k1')))
  t.match(await restored.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
  await sell(restored, 'in-the-copy')

  const before = readFileSync(copy)
  await t.rejects(store.backup(copy), /exists/)
  t.ok(before.equals(readFileSync(copy)))
  await t.rejects(store.backup(join(folder, 'nowhere', 'backup.db')))

  const second = join(folder, 'second.db')
  await store.backup(second)
  const twin = await open(t, second)
  t.strictSame(await twin.purchases.ledgerCheck(), await store.purchases.ledgerCheck())
  t.strictSame(
    await twin.ledger.list({ states: ['settled'], limit: 100 }),
    await store.ledger.list({ states: ['settled'], limit: 100 }),
  )
})

t.test(
  'a backup for which the disk has no room says so, leaves nothing behind and harms nobody',
  async (t) => {
    const small = mountSmallDisk(t, '2m')
    if (small === undefined) return
    const store = await open(t, join(t.testdir(), 'tollgate.db'))
    await Promise.all(Array.from({ length: 150 }, (_, i) => store.ledger.claim(large(`k${i}`))))
    await t.rejects(store.backup(join(small, 'backup.db')), { message: /full/ })
    t.strictSame(readdirSync(small), [])
    await sell(store, 'after')
    t.match(await store.purchases.ledgerCheck(), { purchases: 1, broken: { length: 0 } })
  },
)

t.test('a backup that is killed leaves nothing of its name that is not whole', async (t) => {
  const folder = t.testdir({ copies: {} })
  const [path, copies] = [join(folder, 'tollgate.db'), join(folder, 'copies')]
  const store = await open(t, path)
  await Promise.all(Array.from({ length: 500 }, (_, i) => store.ledger.claim(large(`k${i}`))))
  await sell(store, 'sold')
  const copy = join(copies, 'backup.db')
  const module = new URL('../../../adapters/store/sqlite/backup/backup.ts', import.meta.url).href
  const script = `const { backupTo } = await import(${JSON.stringify(module)}); await backupTo(...process.argv.slice(1))`
  const watcher = watch(copies)
  const begun = once(watcher, 'change')
  const child = spawn(process.execPath, ['--input-type=module', '-e', script, path, copy], {
    stdio: 'ignore',
  })
  await begun
  watcher.close()
  child.kill('SIGKILL')
  await once(child, 'exit')
  // On a machine that stood still meanwhile it may be through; then it has to be whole.
  if (existsSync(copy)) rmSync(copy)
  else t.match(readdirSync(copies), [/\.unfinished$/])
  await store.backup(copy)
  const restored = await open(t, copy)
  t.match(await restored.purchases.ledgerCheck(), {
    purchases: 1,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

t.test('what waits in the log when a backup ends is copied back by it, so that no sale has to', async (t) => {
  const folder = t.testdir()
  const path = join(folder, 'tollgate.db')
  const store = await open(t, path)
  await Promise.all(Array.from({ length: 300 }, (_, i) => store.ledger.claim(large(`k${i}`))))
  await store.backup(join(folder, 'backup.db'))
  // Without its log, the file has what was copied back.
  copyFileSync(path, join(folder, 'alone.db'))
  const alone = new DatabaseSync(join(folder, 'alone.db'))
  t.match(alone.prepare('SELECT count(*) AS n FROM payments').get(), { n: 300 })
  alone.close()
})

t.test('a database of a newer version is refused by name, and left alone', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  await (await openSqlite({ path, clock: systemClock, log: silentLog })).close()
  const database = new DatabaseSync(path)
  database.exec("INSERT INTO kysely_migration VALUES ('9999-future', '2030-01-01')")
  database.close()
  await t.rejects(openSqlite({ path, clock: systemClock, log: silentLog }), /9999-future.*newer version/)
})

t.test('a file that is no database is refused', async (t) => {
  const path = join(t.testdir({ 'tollgate.db': 'x'.repeat(5_000) }), 'tollgate.db')
  await t.rejects(openSqlite({ path, clock: systemClock, log: silentLog }), unavailable)
  t.equal(readFileSync(path, 'utf8'), 'x'.repeat(5_000))
})

t.test('the file is readable by its owner only', async (t) => {
  const path = join(t.testdir(), 'sub', 'tollgate.db')
  const store = await open(t, path)
  await sell(store, 'k1')
  for (const file of [path, `${path}-wal`]) t.equal(statSync(file).mode & 0o777, 0o600)
})

t.test('the ledger check names what is wrong', async (t) => {
  const store = await open(t)
  for (const key of ['k1', 'k2', 'k3', 'k4', 'k5', 'k6', 'k7', 'k8', 'k9']) await sell(store, key)
  await run(store, "UPDATE payments SET state = 'claimed' WHERE nonce = '0xk1'")
  await run(store, "UPDATE purchases SET status = 'delivered' WHERE id = 'purchase-of-k2'")
  await run(store, "DELETE FROM purchases WHERE id = 'purchase-of-k3'")
  await run(
    store,
    "UPDATE ledger SET entries = json_remove(entries, '$[3][4]', '$[3][3]') WHERE purchase_id = 'purchase-of-k4'",
  )
  await run(store, "UPDATE payments SET state = 'refunded', lease = NULL WHERE nonce = '0xk5'")
  await run(store, "UPDATE purchases SET status = 'refunded' WHERE id = 'purchase-of-k5'")
  await run(store, "INSERT INTO refunds SELECT id, network, '0xbb', 1 FROM payments WHERE nonce = '0xk6'")
  await run(store, "UPDATE ledger SET entries = '[[\"torn' WHERE purchase_id = 'purchase-of-k7'")
  await run(store, "DELETE FROM ledger WHERE purchase_id = 'purchase-of-k8'")
  await run(store, "UPDATE purchases SET fee_atomic = '7' WHERE id = 'purchase-of-k9'")
  const { broken, unbalanced } = await store.purchases.ledgerCheck()
  t.strictSame(
    new Set(broken),
    new Set([
      `payment ${keyOf('k1')} is claimed, its purchase purchase-of-k1 is settled`,
      `payment ${keyOf('k2')} is settled, its purchase purchase-of-k2 is delivered`,
      `payment ${keyOf('k3')} is settled and has no purchase`,
      `payment ${keyOf('k5')} is refunded, and no transfer back is known`,
      `payment ${keyOf('k6')} is settled, and 0xbb has paid it back`,
      'the ledger entries of purchase-of-k7 cannot be read',
      'purchase purchase-of-k8 has no ledger entries',
      'purchase purchase-of-k5 is refunded, and its ledger entries say that -5000 of fees is owed, but the purchase says 0',
      'purchase purchase-of-k9 is settled, and its ledger entries say that -5000 of fees is owed, but the purchase says -7',
    ]),
  )
  t.strictSame(unbalanced, ['purchase-of-k4'])
})

/** Sales by one statement, as they lie in the tables. */
async function sellMany(store: SqliteStore, count: number): Promise<void> {
  const numbers = `WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < ${1_000 + count - 1})`
  const unit = `'["eip155:1","0xa",'`
  for (const sql of [
    `${numbers} INSERT INTO payments (id, key, network, asset, payer, nonce, pay_to, amount_atomic, valid_before_ms, scheme,
        link_id, store_id, request_hash, purchase_id, claimed_at_ms, state, tx_hash, event, charged_atomic, updated_at_ms)
      SELECT i, randomblob(32), 'eip155:1', '0xa', '0xb', '0x' || i, '0xc', '100', 1, 'exact', 'l', 's', 'h', 'p' || i, i,
        'delivered', '0x' || i, '1', '100', i FROM n`,
    `INSERT INTO purchases SELECT id, purchase_id, link_id, store_id, payer, network, asset, 'USDC', 6, amount_atomic, '5',
      '0.1', tx_hash, event, state, request_hash, claimed_at_ms, NULL FROM payments WHERE id >= 1000`,
    `INSERT INTO ledger SELECT id, 0, ${unit} || '["sale","buyer:0xb","-100","seller:s","100"],'
      || '["fee","fees-owed:s","-5","platform:fees","5"]]' FROM purchases WHERE payment_id >= 1000`,
  ])
    await run(store, sql)
}

t.test(
  'however much was sold, each sale is checked once, and wherever something is wrong it is found',
  async (t) => {
    const path = join(t.testdir(), 'tollgate.db')
    const store = await open(t, path)
    await sellMany(store, 4_100)
    const { purchases } = store
    t.match(await purchases.ledgerCheck(), {
      purchases: 4_100,
      broken: { length: 0 },
      unbalanced: { length: 0 },
    })
    for (const [i, id] of [1_000, 2_999, 3_000, 4_999, 5_099].entries())
      await run(
        store,
        `UPDATE ledger SET entries = replace(entries, '"-100"', '"-10${i + 1}"') WHERE purchase_id = 'p${id}'`,
      )
    await run(store, "UPDATE ledger SET purchase_id = 'nobody' WHERE purchase_id = 'p2000'")
    await run(store, "UPDATE ledger SET entries = replace(entries, '100', '99') WHERE purchase_id = 'nobody'")
    const careless = new DatabaseSync(path, { enableForeignKeyConstraints: false })
    careless.exec('UPDATE purchases SET payment_id = 900000 WHERE payment_id = 4000')
    careless.close()
    t.match(await purchases.ledgerCheck(), {
      broken: ['purchase p2000 has no ledger entries', / has no purchase$/, 'purchase p4000 has no payment'],
      unbalanced: ['p1000', 'p2999', 'p3000', 'p4999', 'p5099'],
    })
    await run(
      store,
      "UPDATE ledger SET entries = replace(entries, '\"99\"', '\"98\"') WHERE purchase_id = 'nobody'",
    )
    t.ok(
      (await purchases.ledgerCheck()).unbalanced.includes('nobody'),
      'what belongs to no purchase adds up as well',
    )
    await run(store, "UPDATE purchases SET status = 'settled'")
    const { broken } = await purchases.ledgerCheck()
    t.equal(broken.length, 1_001)
    t.match(broken.at(-1), /^and \d+ more$/)
  },
)

t.test('while the ledger is checked, the log can be copied back and sales go on', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const store = await open(t, path)
  await sellMany(store, 4_100)
  // It waits for the sale that goes on meanwhile, as another process does.
  const other = new DatabaseSync(path, { timeout: 5_000 })
  t.teardown(() => other.close())
  const seen: number[] = []
  const check = store.purchases.ledgerCheck({
    onProgress(rows, number, all) {
      if (rows !== 'payments') return
      seen.push(number)
      t.equal(all, 5_099)
      other.exec(
        `INSERT INTO probes VALUES (1, ${number}, zeroblob(9)) ON CONFLICT DO UPDATE SET at_ms = excluded.at_ms`,
      )
      t.match(other.prepare('PRAGMA wal_checkpoint(RESTART)').get(), { busy: 0 }, 'nobody holds an old state')
    },
  })
  await sell(store, 'meanwhile')
  t.match(await check, { broken: { length: 0 }, unbalanced: { length: 0 } })
  t.strictSame(seen, [2_999, 4_999])
})

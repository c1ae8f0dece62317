import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t, { type Test } from 'tap'
import { openSqlite, type SqliteStore } from '../../../adapters/sqlite/openSqlite.ts'
import { startWriter } from '../../../adapters/sqlite/writer.ts'
import { entriesOfRefund, entriesOfSale } from '../../../core/domain/ledger.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { sampleClaim, sampleKey, samplePurchase, sampleStore } from '../samples.ts'

async function open(t: Test, path = ':memory:'): Promise<SqliteStore> {
  const store = await openSqlite({ path, clock: systemClock, log: silentLog })
  t.teardown(() => store.close())
  return store
}

const run = (store: SqliteStore, sql: string) => store.database.writer.write('run', { sql, parameters: [] })
const unavailable = { code: 'store_unavailable', status: 503 }
const large = (key: string) => sampleClaim(key, { payload: 'x'.repeat(20_000) })

async function sell({ payments }: SqliteStore, key: string): Promise<void> {
  const claim = sampleClaim(key)
  const purchase = samplePurchase(claim, `0x${key}`)
  await payments.claim(claim)
  await payments.advance(key, claim.owner, 'claimed', 'verified')
  const attempt = { settler: 'evm', bytes: '0x', transaction: '0x', sequence: null }
  await payments.beginSettlement(key, claim.owner, attempt, null)
  await payments.settle(key, claim.owner, purchase.txHash, purchase, entriesOfSale(purchase))
}

/** A disk of 1 MB, where this user may mount one. */
function mountSmallDisk(): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-disk-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder], { stdio: 'ignore' })
    return folder
  } catch {
    rmdirSync(folder)
    return undefined
  }
}

/** Claims until one is refused. @returns the keys that were acknowledged. */
async function claimUntilFull(t: Test, store: SqliteStore): Promise<string[]> {
  const claimed: string[] = []
  for (let i = 0; i < 2_000; i++) {
    try {
      await store.payments.claim(large(`k${i}`))
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
  const group = await Promise.allSettled(['g1', 'g2', 'g3'].map((key) => store.payments.claim(large(key))))
  t.ok(group.every((r) => r.status === 'rejected' && r.reason.code === 'store_unavailable'))
  t.match(await store.payments.find('before'), { state: 'settled' })
  for (const key of ['g1', 'g2', 'g3'])
    t.equal(await store.payments.find(key), undefined, 'nothing of the group')

  await run(store, 'PRAGMA max_page_count = 1000000')
  t.strictSame(await store.health(), [])
  await sell(store, 'after')
  for (const key of ['after', ...claimed]) t.ok(await store.payments.find(key))
  t.match(await store.purchases.ledgerCheck(), { purchases: 2, broken: [], unbalanced: [] })
})

const disk = mountSmallDisk()

t.test(
  'a full disk refuses writes with store_unavailable, goes on reading, and recovers',
  {
    skip: disk === undefined && 'needs the right to mount a small tmpfs',
  },
  async (t) => {
    const store = await openSqlite({ path: join(disk!, 'tollgate.db'), clock: systemClock, log: silentLog })
    try {
      const ballast = join(disk!, 'ballast')
      writeFileSync(ballast, Buffer.alloc(300_000))
      await sell(store, 'before')
      const claimed = await claimUntilFull(t, store)
      t.match(await store.health(), [/takes no writes: .*(full|I\/O)/])
      t.match(await store.payments.find('before'), { state: 'settled' })

      rmSync(ballast)
      t.strictSame(await store.health(), [])
      await sell(store, 'after')
      for (const key of ['after', ...claimed]) t.ok(await store.payments.find(key))
      t.match(await store.purchases.ledgerCheck(), { purchases: 2, broken: [], unbalanced: [] })
    } finally {
      await store.close()
      execFileSync('umount', [disk!])
      rmdirSync(disk!)
    }
  },
)

t.test('a database that turns read-only refuses writes and goes on reading', async (t) => {
  const store = await open(t)
  await sell(store, 'k1')
  await run(store, 'PRAGMA query_only = 1')
  await t.rejects(store.payments.claim(sampleClaim('k2')), unavailable)
  await t.rejects(store.payments.heartbeat('o'), unavailable)
  t.match(await store.health(), [/takes no writes: .*readonly/])
  t.match(await store.payments.find('k1'), { state: 'settled' })
  t.match(await store.purchases.ledgerCheck(), { purchases: 1 })
})

t.test('a write lock that another process keeps is waited for, not failed on', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const store = await open(t, path)
  const other = new DatabaseSync(path)
  other.exec('BEGIN IMMEDIATE')
  const claim = store.payments.claim(sampleClaim('k1'))
  // Opening another store takes longer than the writer needs to come to the lock.
  await open(t)
  t.equal(await store.payments.find('k1'), undefined)
  other.exec('COMMIT')
  other.close()
  t.match(await claim, { won: true })
})

t.test('a writer that dies fails what it had in hand; the next write finds another writer', async (t) => {
  const options = { path: '', synchronous: 'FULL', flushMs: 1, maxRows: 32 } as const
  const program = new URL('./fixtures/dyingWriter.ts', import.meta.url)
  const writer = await startWriter(options, silentLog, program)
  t.teardown(() => writer.close())
  const results = await Promise.allSettled([writer.write('probe', 0), writer.write('advance', [])])
  t.ok(results.every((r) => r.status === 'rejected' && r.reason.code === 'store_unavailable'))
  t.equal(await writer.write('advance', []), true)
  const late = writer.write('probe', 0)
  await t.rejects(late, unavailable)
  t.equal(await writer.write('advance', []), true)
})

t.test('after close every write is refused, and close may be called again', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const store = await openSqlite({ path, clock: systemClock, log: silentLog })
  const last = store.payments.claim(sampleClaim('k1'))
  await store.close()
  t.match(await last, { won: true }, 'what was handed over is committed')
  await t.rejects(store.payments.claim(sampleClaim('k2')), unavailable)
  await t.rejects(store.payments.find('k1'), unavailable)
  await store.close()
  t.throws(() => statSync(`${path}-wal`), { code: 'ENOENT' }, 'the log was copied back')
  t.match(await (await open(t, path)).payments.find('k1'), { state: 'claimed' })
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
  t.strictSame(await restored.payments.find('k1'), await store.payments.find('k1'))
  t.match(await restored.purchases.ledgerCheck(), { broken: [], unbalanced: [] })
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
    await twin.payments.list({ states: ['settled'], limit: 100 }),
    await store.payments.list({ states: ['settled'], limit: 100 }),
  )
})

t.test('a database of a newer version is refused by name, and left alone', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  await (await openSqlite({ path, clock: systemClock, log: silentLog })).close()
  const database = new DatabaseSync(path)
  database.exec("INSERT INTO kysely_migration VALUES ('9999-future', '2030-01-01')")
  database.close()
  await t.rejects(openSqlite({ path, clock: systemClock, log: silentLog }), /9999-future.*newer version/)
})

t.test('a database of the first version keeps its sales and takes refunds from then on', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const before = await openSqlite({ path, clock: systemClock, log: silentLog })
  await sell(before, 'k1')
  await before.close()
  toFirstVersion(path)

  const store = await open(t, path)
  const purchase = samplePurchase(sampleClaim('k1'), '0xk1')
  t.strictSame(await store.purchases.find(purchase.id), purchase)
  const refund = { transaction: '0xbb', paymentKeys: [] }
  t.equal(await store.payments.recordRefund('k1', refund, entriesOfRefund(purchase)), 'refunded')
  await store.close()
  const after = await open(t, path)
  t.match(await after.purchases.refundOf(purchase.id), { transaction: '0xbb' })
  t.equal(await after.payments.recordRefund('k1', refund, []), 'refunded', 'after a restart, too')
  await sell(after, 'k2')
  t.equal(await after.payments.recordRefund('k2', refund, []), 'transaction_used')
  t.match(await after.purchases.ledgerCheck(), { broken: [], unbalanced: [] })
})

t.test('of the former usernames that an older version kept for a store the last one goes on', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const before = await openSqlite({ path, clock: systemClock, log: silentLog })
  for (const id of ['s1', 's2']) await before.stores.create(sampleStore(id), null, sampleKey(id, id))
  await before.close()
  const olderNames = "('a', 's1', 5), ('c', 's1', 7), ('b', 's1', 7), ('d', 's2', 1)"
  toFirstVersion(
    path,
    `INSERT INTO username_redirects (username, store_id, expires_at_ms) VALUES ${olderNames}`,
  )

  const { stores } = await open(t, path)
  const led = await Promise.all(['a', 'b', 'c', 'd'].map((name) => stores.redirectOf(name, 0)))
  t.strictSame(led, [undefined, undefined, 's1', 's2'])
  t.match(await stores.update('s2', { username: 'abc' }, 2, 2), { username: 'abc' })
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
  for (const key of ['k1', 'k2', 'k3', 'k4', 'k5', 'k6']) await sell(store, key)
  await run(store, "UPDATE payments SET state = 'claimed' WHERE key = 'k1'")
  await run(store, "UPDATE purchases SET status = 'delivered' WHERE payment_key = 'k2'")
  await run(store, "DELETE FROM purchases WHERE payment_key = 'k3'")
  await run(
    store,
    "DELETE FROM ledger_entries WHERE purchase_id = 'purchase-of-k4' AND account = 'platform:fees'",
  )
  await run(store, "UPDATE payments SET state = 'refunded' WHERE key = 'k5'")
  await run(store, "UPDATE purchases SET status = 'refunded' WHERE payment_key = 'k5'")
  await run(store, "INSERT INTO refunds SELECT id, network, '0xbb', 1 FROM payments WHERE key = 'k6'")
  const { broken, unbalanced } = await store.purchases.ledgerCheck()
  t.strictSame([...broken].sort(), [
    'payment k1 is claimed, its purchase purchase-of-k1 is settled',
    'payment k2 is settled, its purchase purchase-of-k2 is delivered',
    'payment k3 is settled and has no purchase',
    'payment k5 is refunded, and no transfer back is known',
    'payment k6 is settled, and 0xbb has paid it back',
  ])
  t.strictSame(unbalanced, ['purchase-of-k4'])
})

/** Takes away what later migrations made, and writes what stood there then. */
function toFirstVersion(path: string, more = ''): void {
  const database = new DatabaseSync(path)
  database.exec('DROP TABLE refunds; DROP TABLE renames; DROP INDEX store_wallets_store')
  database.exec('DROP TRIGGER username_redirects_deleted')
  database.exec(`DELETE FROM kysely_migration WHERE name <> '0001-start'; ${more}`)
  database.close()
}

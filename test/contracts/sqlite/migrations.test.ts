import { execFileSync } from 'node:child_process'
import { rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { Migrator } from 'kysely/migration'
import t, { type Test } from 'tap'
import { start } from '../../../adapters/sqlite/migrations/0001-start.ts'
import { refunds } from '../../../adapters/sqlite/migrations/0002-refunds.ts'
import { renames } from '../../../adapters/sqlite/migrations/0003-renames.ts'
import { payoutChanges } from '../../../adapters/sqlite/migrations/0004-payout-changes.ts'
import { nodeSqliteDialect } from '../../../adapters/sqlite/nodeSqliteDialect.ts'
import { openSqlite } from '../../../adapters/sqlite/openSqlite.ts'
import { entriesOfRefund, entriesOfSale, type LedgerEntry } from '../../../core/domain/ledger.ts'
import { openStates } from '../../../core/domain/payment.ts'
import type { Purchase } from '../../../core/domain/purchase.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { DAY_MS, HOUR_MS } from '../../../core/ports/store/figures.ts'
import { mountSmallDisk } from '../../helpers/mountSmallDisk.ts'
import { change, keyOf, saleOf, sampleClaim, samplePurchase, sell, startMs } from '../samples.ts'

const released = {
  '0001-start': start,
  '0002-refunds': refunds,
  '0003-renames': renames,
  '0004-payout-changes': payoutChanges,
}
const states = [
  ...['claimed', 'verified', 'settling', 'pending', 'rejected', 'failed_final', 'settled', 'delivered'],
  ...['refund_due', 'refunded', 'reorged'],
]
const sold = ['settled', 'delivered', 'refund_due', 'refunded', 'reorged']
/** What the books have of a sale in a state: one that went back was taken back there. */
const booked = (purchase: Purchase, state: string): LedgerEntry[] => [
  ...entriesOfSale(purchase),
  ...(state === 'refunded' || state === 'reorged' ? entriesOfRefund(purchase) : []),
]

/** A database as an older version left it, with the migrations up to this one. */
async function older(path: string, until: keyof typeof released): Promise<DatabaseSync> {
  const database = new DatabaseSync(path)
  database.exec('PRAGMA journal_mode = WAL')
  const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(database) })
  const provider = { getMigrations: async () => ({ ...released }) }
  const { error } = await new Migrator({ db, provider }).migrateTo(until)
  if (error !== undefined) throw error
  return database
}

/** A payment in the tables of versions 1 to 4, with what its state comes with. */
function insertOld(database: DatabaseSync, id: number, name: string, state: string, more: OldRow = {}): void {
  const claim = sampleClaim(name)
  const { isAnswered = true, updatedAtMs = startMs, isLandedLate = false } = more
  const tx = `0xA${id}`
  const isSold = sold.includes(state) && !isLandedLate
  const insert = (table: string, row: Record<string, string | number | null | Uint8Array>) => {
    const columns = Object.keys(row)
    const marks = columns.map(() => '?')
    database.prepare(`INSERT INTO ${table} (${columns}) VALUES (${marks})`).run(...Object.values(row))
  }
  insert('payments', {
    ...{ id, key: claim.key, network: claim.network, asset: claim.asset, payer: claim.payer },
    ...{ nonce: claim.nonce, pay_to: claim.payTo, amount_atomic: '100000' },
    ...{ valid_before_ms: claim.validBeforeMs, state, owner: 'gateway-1', link_id: claim.linkId },
    ...{ store_id: claim.storeId, request_hash: claim.requestHash, purchase_id: claim.purchaseId },
    ...{ tx_hash: isSold ? tx : null, error_reason: state === 'rejected' ? 'why' : null },
    ...{ landed_late: Number(isLandedLate), claimed_at_ms: startMs, updated_at_ms: updatedAtMs },
  })
  insert('payment_payloads', { payment_id: id, payload: claim.payload })
  if (!['claimed', 'verified', 'rejected'].includes(state)) {
    insert('attempts', { payment_id: id, settler: 'evm:a', bytes: '0x02', tx, sequence: '7' })
    if (isAnswered)
      insert('answers', { payment_id: id, status: 200, headers: '["a","b"]', body: Buffer.from(name) })
  }
  if (!isSold) return
  const purchase = samplePurchase(claim, tx)
  insert('purchases', {
    ...{ payment_id: id, id: purchase.id, payment_key: claim.key, link_id: purchase.linkId },
    ...{ store_id: purchase.storeId, buyer_wallet: purchase.buyerWallet, network: purchase.network },
    ...{ asset: purchase.asset, symbol: 'USDC', decimals: 6, amount_atomic: '100000', fee_atomic: '5000' },
    ...{ price_usd: '0.1', tx_hash: tx, status: state, review_token_hash: purchase.reviewTokenHash },
    created_at_ms: startMs,
  })
  for (const [line, entry] of booked(purchase, state).entries()) {
    insert('ledger_entries', {
      ...{ purchase_id: purchase.id, line, account: entry.account, network: entry.network },
      ...{ asset: entry.asset, amount_atomic: `${entry.amountAtomic}`, kind: entry.kind },
    })
  }
  if (state === 'refunded')
    insert('refunds', {
      ...{ payment_id: id, network: claim.network, tx_hash: '0xback', refunded_at_ms: startMs },
    })
}

interface OldRow {
  readonly isAnswered?: boolean
  readonly isLandedLate?: boolean
  readonly updatedAtMs?: number
}

async function open(t: Test, path: string) {
  const store = await openSqlite({ path, clock: systemClock, log: silentLog })
  t.teardown(() => store.close())
  return store
}

for (const version of ['0003-renames', '0004-payout-changes'] as const) {
  t.test(`payments of every state that ${version} left are brought over, and go on`, (t) => goOn(t, version))
}

async function goOn(t: Test, version: keyof typeof released): Promise<void> {
  const path = join(t.testdir(), 'tollgate.db')
  const old = await older(path, version)
  for (const [i, state] of states.entries()) insertOld(old, i + 1, state, state)
  insertOld(old, 20, 'unserved', 'settled', { isAnswered: false })
  insertOld(old, 21, 'late', 'refund_due', { isLandedLate: true })
  insertOld(old, 22, 'given up', 'failed_final', { updatedAtMs: Date.now() - 60_000 })
  old.exec("INSERT INTO heartbeats VALUES ('gateway-1', 1)")
  old.close()

  const store = await open(t, path)
  const { books, purchases, leases } = store
  for (const [i, state] of states.entries()) {
    const claim = sampleClaim(state)
    const isSold = sold.includes(state)
    const { lease: _, ...facts } = claim
    t.match(await books.find(claim.key), {
      ...{ ...facts, row: i + 1, state: state === 'verified' ? 'claimed' : state, scheme: 'exact' },
      ...{ transaction: isSold ? `0xA${i + 1}` : null, event: isSold ? `nonce:${claim.nonce}` : null },
      ...{ chargedAtomic: isSold ? 100_000n : null, tries: 0, dueReason: null, block: null },
      ...{ claimedAtMs: startMs, updatedAtMs: startMs, isLandedLate: false },
    })
    const purchase = await purchases.find(claim.purchaseId)
    const sample = samplePurchase(claim, `0xA${i + 1}`, { status: state as 'settled' })
    t.strictSame(purchase, isSold ? sample : undefined)
    t.strictSame(await purchases.ledger(claim.purchaseId), isSold ? booked(sample, state) : [])
  }
  t.match(await books.answerOf(3), { status: 200, headers: ['a', 'b'], body: Buffer.from('settling') })
  t.match(await books.refundOf(10), { transaction: '0xback' })
  t.match(await purchases.ledgerCheck(), {
    ...{
      purchases: 5,
      chargedPayments: 6,
      unresolvedPayments: 2,
      unbalanced: { length: 0 },
      broken: { length: 0 },
    },
  })

  const mine = (await leases.take('process:me', 10_000))!
  t.equal(await books.adopt(mine, openStates, 100), 5)
  const adopted = await books.due({ states: openStates, limit: 100 })
  t.strictSame(
    new Set(adopted.map(({ nonce }) => nonce)),
    new Set(['0xclaimed', '0xverified', '0xsettling', '0xpending', '0xunserved']),
  )
  const due = await books.due({ states: ['failed_final', 'reorged'], limit: 100 })
  t.strictSame(
    due.map(({ nonce }) => nonce),
    ['0xreorged', '0xgiven up'],
  )

  const settling = adopted.find(({ state }) => state === 'settling')!
  const purchase = samplePurchase(sampleClaim('settling'), '0xA3')
  t.ok(await books.apply(change(settling, settling.row, 'settling', 'settled', saleOf(purchase, '1'))))
  await sell(store, 'same transaction', '0xA7', { event: '9' })
  const [settled] = [await books.find(keyOf('settled'))]
  const refund = { network: settled!.network, transaction: '0xBACK', paymentKeys: [] }
  const back = {
    ...{ refund, purchaseStatus: 'refunded' as const },
    entries: entriesOfRefund(samplePurchase(sampleClaim('settled'), '0xA7')),
  }
  const payBack = (transaction: string) =>
    books.apply(
      change(settled!, settled!.row, 'settled', 'refunded', { ...back, refund: { ...refund, transaction } }),
    )
  t.equal(await payBack('0xBACK'), false, 'what paid another one back')
  t.equal(await payBack('0xa8'), false, 'what paid for a purchase')
  t.equal(await payBack('0xother'), true)
  t.ok((await books.claim(sampleClaim('rejected', { purchaseId: 'again' }))).won)
  t.match(await purchases.ledgerCheck(), { purchases: 7, unbalanced: { length: 0 }, broken: { length: 0 } })
}

t.test('a database of the first version takes refunds from then on', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const old = await older(path, '0001-start')
  insertOld(old, 1, 'k1', 'settled')
  old.close()
  const store = await open(t, path)
  const record = (await store.books.find(keyOf('k1')))!
  const refund = { network: record.network, transaction: '0xbb', paymentKeys: [] }
  t.ok(
    await store.books.apply(
      change(record, record.row, 'settled', 'refunded', { refund, purchaseStatus: 'refunded' }),
    ),
  )
  await store.close()
  const after = await open(t, path)
  t.match(await after.purchases.refundOf(record.purchaseId), { transaction: '0xbb' })
})

t.test('of the former usernames that an older version kept for a store the last one goes on', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const old = await older(path, '0001-start')
  for (const id of ['s1', 's2'])
    old.exec(`INSERT INTO stores VALUES ('${id}', '${id}', '', '', '', 0, 'agent', NULL, NULL, 1, 1)`)
  const names = "('a', 's1', 5), ('c', 's1', 7), ('b', 's1', 7), ('d', 's2', 1)"
  old.exec(`INSERT INTO username_redirects (username, store_id, expires_at_ms) VALUES ${names}`)
  old.close()
  const { stores } = await open(t, path)
  const led = await Promise.all(['a', 'b', 'c', 'd'].map((name) => stores.redirectOf(name, 0)))
  t.strictSame(led, [undefined, undefined, 's1', 's2'])
  t.match(await stores.update('s2', { username: 'abc' }, 2, { maxRenamesADay: 2 }), { username: 'abc' })
})

t.test('a database whose rows belong to none is left as it was', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const old = await older(path, '0004-payout-changes')
  insertOld(old, 1, 'k1', 'claimed')
  old.exec('PRAGMA foreign_keys = OFF; INSERT INTO payment_payloads VALUES (9, "x")'.replaceAll('"', "'"))
  old.close()
  await t.rejects(openSqlite({ path, clock: systemClock, log: silentLog }), /row 9 of payment_payloads/)
  const again = new DatabaseSync(path)
  t.equal(again.prepare('SELECT owner FROM payments').get()?.['owner'], 'gateway-1')
  again.close()
})

t.test('a disk that becomes full in the middle leaves it as it was, and it goes on with room', async (t) => {
  const disk = mountSmallDisk(t, '4m')
  if (disk === undefined) return
  const path = join(disk, 'tollgate.db')
  const old = await older(path, '0003-renames')
  old.exec('BEGIN')
  for (let id = 1; id <= 1_000; id++) insertOld(old, id, `k${id}`, 'rejected')
  old.exec('COMMIT')
  old.close()
  const ballast = join(disk, 'ballast')
  const { bavail, bsize } = statfsSync(disk)
  writeFileSync(ballast, Buffer.alloc(bavail * bsize - 200_000))
  await t.rejects(open(t, path), { message: /the disk is full\. It is as it was\. Make room/ })
  const untouched = new DatabaseSync(path)
  t.match(untouched.prepare('SELECT count(*) AS n, max(owner) AS owner FROM payments').get(), {
    ...{ n: 1_000, owner: 'gateway-1' },
  })
  untouched.close()
  rmSync(ballast)
  const { books } = await open(t, path)
  t.match(await books.find(keyOf('k1000')), { state: 'rejected' })
})

t.test('a file of an older version that can not be written is named', async (t) => {
  const disk = mountSmallDisk(t, '4m')
  if (disk === undefined) return
  const path = join(disk, 'tollgate.db')
  const old = await older(path, '0003-renames')
  old.close()
  execFileSync('mount', ['-o', 'remount,ro', disk])
  await t.rejects(open(t, path), { code: 'store_unavailable', message: new RegExp(path) })
})

t.test('links that an older version left are found, with what was bought of them', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const database = await older(path, '0004-payout-changes')
  database.exec(`INSERT INTO stores (id, username, display_name, bio, avatar_url, developer_mode_enabled, created_by,
    created_at_ms, updated_at_ms) VALUES ('store-1', 'ann', 'Ann', '', '', 0, 'agent', 1, 1)`)
  for (const [id, isPublic] of [
    ['link-1', 1],
    ['link-2', 0],
  ])
    database.exec(`INSERT INTO links (id, store_id, url, title, description, slug, price, is_public, is_active,
      link_type, is_stealth, methods, tags, response_mode, settle, created_at_ms, updated_at_ms, version)
      VALUES ('${id}', 'store-1', 'https://a.test/', 'Tides', '', '${id}', '0.1', ${isPublic}, 1, 'api', 0, '[]', '["sea"]',
        'wrap', 'after', 1, 1, 1)`)
  insertOld(database, 1, 'k1', 'delivered')
  database.close()
  const store = await openSqlite({ path, clock: systemClock, log: silentLog })
  t.teardown(() => store.close())
  t.equal(await store.discovery.recount(startMs), 1)
  const query = { sort: 'relevance', words: ['tide'], tag: 'sea', limit: 9, offset: 0 } as const
  t.match(await store.discovery.search(query), {
    total: 1,
    links: [{ id: 'link-1', username: 'ann', buyers: 1 }],
  })
})

t.test(
  'health checks that an older version had kept one by one are summed up, a few at a time',
  async (t) => {
    const path = join(t.testdir(), 'tollgate.db')
    const database = await older(path, '0004-payout-changes')
    database.exec(`INSERT INTO stores (id, username, display_name, bio, avatar_url, developer_mode_enabled, created_by,
    created_at_ms, updated_at_ms) VALUES ('s1', 'ann', 'Ann', '', '', 0, 'agent', 1, 1)`)
    for (const [id, isActive] of [
      ['a', 1],
      ['b', 1],
      ['gone', 0],
    ])
      database.exec(`INSERT INTO links (id, store_id, url, title, description, slug, price, is_public, is_active,
      link_type, is_stealth, methods, tags, response_mode, settle, created_at_ms, updated_at_ms, version)
      VALUES ('${id}', 's1', 'https://a.test/', 'Tides', '', '${id}', '0.1', 1, ${isActive}, 'api', 0, '[]', '[]',
        'wrap', 'after', 1, 1, 1)`)
    const add =
      database.prepare(`INSERT INTO health_events (link_id, at_ms, kind, ok, status, latency_ms, detail)
    VALUES (?, ?, ?, ?, ?, ?, 'so')`)
    // A day and a half of checks, of which every hundredth failed, and a suspension.
    const nowMs = startMs + 30 * 60_000
    const hour = Math.floor(nowMs / HOUR_MS)
    for (let i = 36 * 60; i >= 0; i--)
      for (const id of ['a', 'b']) {
        const ok = i % 100 !== 0
        add.run(id, nowMs - i * 60_000, 'probe', Number(ok), ok ? 200 : null, ok ? 10 : null)
      }
    add.run('a', nowMs - 5, 'suspended', 0, null, null)
    database.close()

    const store = await open(t, path)
    const { healthChecks, figures, links } = store
    const checksOf = async (id: string) =>
      (await figures.healthDays(id, 0)).days.map(({ probes, failedProbes }) => [probes, failedProbes])
    const before = await checksOf('a')
    t.equal(
      before.reduce((sum, [probes]) => sum + probes!, 0),
      36 * 60 + 1,
    )
    t.match((await links.healthEvents('b', 1))[0], { kind: 'probe', ok: false, atMs: nowMs })
    const due = { queue: 'rest', nowMs, latestMs: nowMs + 60_000, limit: 9 } as const
    t.strictSame(
      (await healthChecks.due(due)).map(({ linkId }) => linkId),
      ['a', 'b'],
      'each has its turn',
    )
    // One that was made meanwhile counts once.
    await healthChecks.note([
      { linkId: 'a', atMs: nowMs + 1, ok: true, status: 200, latencyMs: 50, detail: '' },
    ])
    let steps = 0
    while (await healthChecks.sumUpOld(nowMs)) steps++
    t.ok(steps > 20, `${steps} steps`)

    const hours = await healthChecks.hours('a', nowMs - DAY_MS)
    t.equal(hours.length, 25)
    for (const one of hours.slice(0, -1)) t.match(one, { checks: 60, maxLatencyMs: 10 })
    t.match(hours.at(-1), { hour, checks: 32, failedChecks: 1, maxLatencyMs: 50 })
    const failedIn = (some: typeof hours) => some.reduce((sum, one) => sum + one.failedChecks, 0)
    t.equal(failedIn(hours.slice(1)), 15)
    const after = await checksOf('a')
    t.strictSame(after, [...before.slice(0, -1), [before.at(-1)![0]! + 1, before.at(-1)![1]]], 'as they were')
    const events = await links.healthEvents('a', 200)
    t.equal(
      events.filter(({ kind, ok }) => kind === 'probe' && !ok).length,
      22,
      'those that failed stand there',
    )
    t.equal(events.filter(({ kind }) => kind === 'suspended').length, 1)
    t.ok(events.length < 30)
    t.strictSame((await healthChecks.due({ ...due, limit: 1 })).length, 1)
  },
)

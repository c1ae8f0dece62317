import { spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { Kysely } from 'kysely'
import { Migrator } from 'kysely/migration'
import t, { type Test } from 'tap'
import { migrations } from '../../../adapters/sqlite/migrate.ts'
import { nodeSqliteDialect } from '../../../adapters/sqlite/nodeSqliteDialect.ts'
import { openSqlite } from '../../../adapters/sqlite/openSqlite.ts'
import { entriesOfSale, entriesText } from '../../../core/domain/ledger.ts'
import { newPurchaseId } from '../../../core/payments/purchase.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { change, claimed, saleOf, sampleClaim, samplePurchase, sell, startMs, testClock } from '../samples.ts'

const sha = (text: string) => hash('sha256', text)
const solana = 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp'
const mark = (of: string) => hash('sha256', of, 'base64url').slice(0, 22)

async function open(t: Test, path: string) {
  const store = await openSqlite({ path, clock: systemClock, log: silentLog })
  t.teardown(() => store.close())
  return { ...store, clock: testClock(), storeClock: testClock() }
}

/** How a hash, a nonce or a wallet may be spelled by whoever sends it. */
const spelled = fc
  .tuple(fc.nat(), fc.constantFrom(0, 1, 2, 3, 4), fc.string({ maxLength: 3 }))
  .map(([n, how, odd]) => {
    const digits = sha(`${n}`)
    return [`0x${digits}`, `0x${digits.toUpperCase()}`, `0X${digits}`, digits, `0x${odd}${n}`][how]!
  })

t.test('what a sale is kept as comes back as it was, however it is spelled', async (t) => {
  const store = await open(t, ':memory:')
  let n = 0
  const property = fc.asyncProperty(spelled, spelled, spelled, spelled, async (nonce, payer, tx, call) => {
    const name = `k${++n}`
    const claim = sampleClaim(name, {
      nonce,
      payer,
      requestHash: n % 2 === 0 ? call : `${sha(call)}:${mark(call)}`,
    })
    const purchase = samplePurchase(claim, `${tx}${n}`, { reviewTokenHash: sha(payer) })
    const row = await claimed(store, claim)
    t.ok(await store.books.apply(change(claim, row, 'claimed', 'settled', saleOf(purchase, '1'))))
    const { requestHash } = claim
    t.match(await store.books.find(claim.key), { nonce, payer, requestHash, transaction: purchase.txHash })
    t.strictSame(await store.purchases.find(purchase.id), purchase)
    const again = await store.books.claim(claim)
    t.match(again, { won: false, record: { nonce, payer, requestHash } })
  })
  await fc.assert(property, { numRuns: 60 })
})

t.test('a transfer pays for one purchase, in whichever case its hash is written', async (t) => {
  const store = await open(t, ':memory:')
  const digits = sha('a transfer')
  const spellings = [`0x${digits}`, `0x${digits.toUpperCase()}`, `0X${digits}`]
  for (const [i, first] of spellings.entries()) {
    const event = `${i}`
    await sell(store, `first${i}`, first, { event })
    for (const [j, other] of spellings.entries())
      await t.rejects(sell(store, `other${i}${j}`, other, { event }), { code: 'CONFLICT' })
    await sell(store, `next${i}`, first, { event: `another ${i}` })
    const back = { network: sampleClaim('x').network, transaction: first, paymentKeys: [] }
    const [payment] = [await store.books.find(sampleClaim(`first${i}`).key)]
    const refunds = spellings.map((transaction) =>
      store.books.apply(
        change(payment!, payment!.row, 'settled', 'refunded', { refund: { ...back, transaction } }),
      ),
    )
    t.strictSame(await Promise.all(refunds), [false, false, false], 'what paid for a purchase pays none back')
  }
})

t.test('a sale takes at most 1,500 bytes', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const store = await open(t, path)
  const links = Array.from({ length: 200 }, (_, i) => ({
    linkId: `00000000-0000-4000-8000-${`${i}`.padStart(12, '0')}`,
    storeId: `00000000-0000-4000-8000-${`${i % 20}`.padStart(12, '1')}`,
  }))
  const count = 2_000
  const address = (of: string) => `0x${sha(of).slice(0, 40)}`
  const sellOne = async (i: number) => {
    const claim = sampleClaim(`sale ${i}`, {
      ...links[i % links.length]!,
      ...{ network: 'eip155:84532', asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e' },
      ...{
        payer: address(`buyer ${i}`),
        payTo: address(`seller ${i % 20}`),
        nonce: `0x${sha(`nonce ${i}`)}`,
      },
      ...{ requestHash: `${sha(`call ${i}`)}:${mark(`${i}`)}`, purchaseId: newPurchaseId(startMs + i) },
    })
    const { id: _id, ...rest } = samplePurchase(claim, `0x${sha(`transfer ${i}`)}`)
    const purchase = { ...rest, id: claim.purchaseId, reviewTokenHash: sha(`review ${i}`) }
    const row = await claimed(store, claim)
    t.ok(await store.books.apply(change(claim, row, 'claimed', 'settled', saleOf(purchase, '7'))))
    t.ok(await store.books.apply(change(claim, row, 'settled', 'delivered', { purchaseStatus: 'delivered' })))
    return { row, state: 'delivered' as const, afterMs: 270_000, tries: 0, reason: 'seen once' }
  }
  const looked = []
  for (let i = 0; i < count; i += 20)
    looked.push(...(await Promise.all(Array.from({ length: 20 }, (_, n) => sellOne(i + n)))))
  await store.books.putOff(looked)
  await store.books.putOff(looked.map(({ reason: _, ...row }) => ({ ...row, afterMs: null })))
  const database = new DatabaseSync(path, { readOnly: true })
  t.teardown(() => database.close())
  const { bytes } = database
    .prepare(`SELECT sum(s.pgsize) AS bytes FROM dbstat s JOIN sqlite_master m ON m.name = s.name
      WHERE m.tbl_name IN ('payments', 'purchases', 'ledger')`)
    .get()!
  t.ok(Number(bytes) / count < 1_500, `${Number(bytes) / count} bytes`)
  const { left } = database.prepare('SELECT count(due_reason) AS left FROM payments').get()!
  t.equal(left, 0, 'nobody looks at it any more: nothing says which look is next')
})

/** A database as the version before left it. */
async function before(path: string): Promise<DatabaseSync> {
  const database = new DatabaseSync(path)
  database.exec('PRAGMA journal_mode = WAL')
  const all = migrations({ database, onProgress() {} })
  const db = new Kysely<unknown>({ dialect: nodeSqliteDialect(database) })
  const { error } = await new Migrator({ db, provider: { getMigrations: async () => all } }).migrateTo(
    '0032-shared-attempts',
  )
  if (error !== undefined) throw error
  return database
}

const states = [
  'claimed',
  'settling',
  'pending',
  'rejected',
  'settled',
  'delivered',
  'refund_due',
  'refunded',
  'reorged',
]
const isSold = (state: string) => states.indexOf(state) > 3

/** Payments of every state as that version wrote them; what is not of Base is of Solana. */
function insertBefore(database: DatabaseSync, count: number) {
  const insert = (table: string, row: Record<string, string | number | null | Uint8Array>) => {
    const marks = Object.keys(row).map(() => '?')
    const into = `INSERT INTO ${table} (${Object.keys(row)}) VALUES (${marks})`
    database.prepare(into).run(...Object.values(row))
  }
  return Array.from({ length: count }, (_, i) => {
    const state = states[i % states.length]!
    const isEvm = i % 4 !== 3
    const claim = sampleClaim(`old ${i}`, {
      ...(isEvm
        ? { nonce: `0x${sha(`${i}`)}`, payer: `0x${sha(`${i}`).slice(0, 40)}` }
        : { network: solana }),
      ...{ requestHash: i % 3 === 0 ? sha(`${i}`) : `${sha(`${i}`)}:${mark(`${i}`)}` },
    })
    const digits = i % 8 === 5 ? sha(`tx ${i}`).toUpperCase() : sha(`tx ${i}`)
    const tx = isEvm
      ? `0x${digits}`
      : `5h6xBEauJ3PK6SWCZ1PGjBvj8vDdWG3KpwATGy1ARAXFSDwt8GFXM7W5Ncn16wmqokgpiKRLuS83KUxyZyv${i}`
    const purchase = samplePurchase(claim, tx, { status: state as 'settled', reviewTokenHash: sha(`r${i}`) })
    const event = state === 'reorged' ? null : '3'
    insert('payments', {
      ...{ id: i + 1, key: Buffer.from(claim.key, 'hex'), network: claim.network, asset: claim.asset },
      ...{ payer: claim.payer, nonce: claim.nonce, pay_to: claim.payTo, amount_atomic: '100000' },
      ...{
        valid_before_ms: claim.validBeforeMs,
        scheme: 'exact',
        link_id: claim.linkId,
        store_id: claim.storeId,
      },
      ...{ request_hash: claim.requestHash, purchase_id: claim.purchaseId, claimed_at_ms: startMs, state },
      ...{ due_reason: i % 2 === 0 ? 'confirmed once; one more look is due' : null, updated_at_ms: startMs },
      ...(isSold(state) && { tx_hash: tx, event: '3', block: 9, charged_atomic: '100000' }),
      ...(state === 'pending' && { due_at_ms: 5, tries: 2, due_reason: 'why' }),
    })
    if (isSold(state)) {
      insert('purchases', {
        ...{ payment_id: i + 1, id: purchase.id, link_id: purchase.linkId, store_id: purchase.storeId },
        ...{ buyer_wallet: purchase.buyerWallet, network: purchase.network, asset: purchase.asset },
        ...{ symbol: 'USDC', decimals: 6, amount_atomic: '100000', fee_atomic: '5000', price_usd: '0.1' },
        ...{ tx_hash: tx, event, status: state, review_token_hash: purchase.reviewTokenHash },
        created_at_ms: startMs,
      })
      const sale = entriesOfSale(purchase)
      insert('ledger', { purchase_id: purchase.id, move: 0, entries: entriesText(sale) })
      if (state === 'refunded' || state === 'reorged') {
        const back = sale.map((e) => ({ ...e, amountAtomic: -e.amountAtomic, kind: 'refund' as const }))
        insert('ledger', { purchase_id: purchase.id, move: 1, entries: entriesText(back) })
      }
    }
    if (state === 'refunded')
      insert('refunds', {
        ...{ payment_id: i + 1, network: claim.network, tx_hash: `0xback${i}`, refunded_at_ms: startMs },
      })
    return { claim, state, tx, purchase, event }
  })
}

t.test(
  'sales of the version before are brought over, also by a start after one that was killed',
  async (t) => {
    const path = join(t.testdir(), 'tollgate.db')
    const old = await before(path)
    const sales = insertBefore(old, 180)
    old.close()
    const dies = fileURLToPath(new URL('./fixtures/dyingMigration.ts', import.meta.url))
    for (const table of ['payments', 'purchases']) {
      t.equal(spawnSync(process.execPath, [dies, path, table], { stdio: 'inherit' }).signal, 'SIGKILL')
      const left = new DatabaseSync(path)
      const shape = left.prepare("SELECT sql FROM sqlite_master WHERE name = 'payments'").get()!['sql']
      t.match(shape, /nonce TEXT/, 'it is as it was')
      left.close()
    }
    const store = await open(t, path)
    for (const { claim, state, tx, purchase } of sales) {
      const { lease: _, payload: _payload, ...facts } = claim
      t.match(await store.books.find(claim.key), {
        ...{ ...facts, state, transaction: isSold(state) ? tx : null, block: isSold(state) ? 9 : null },
        ...{ dueReason: state === 'pending' ? 'why' : null, tries: state === 'pending' ? 2 : 0 },
      })
      t.strictSame(await store.purchases.find(purchase.id), isSold(state) ? purchase : undefined)
    }
    t.match(await store.purchases.ledgerCheck(), {
      ...{ purchases: 80, chargedPayments: 80, broken: { length: 0 }, unbalanced: { length: 0 } },
    })
    const one = sales.find(({ state, purchase }) => state === 'delivered' && purchase.network !== solana)!
    await t.rejects(
      sell(store, 'again', one.tx.toUpperCase().replace('0X', '0x'), { event: '3' }),
      { code: 'CONFLICT' },
      'its transfer is known',
    )
    const kept = new DatabaseSync(path, { readOnly: true })
    t.teardown(() => kept.close())
    t.match(kept.prepare('PRAGMA integrity_check').get(), { integrity_check: 'ok' })
    const { packed } = kept
      .prepare("SELECT count(*) AS packed FROM payments WHERE typeof(nonce) = 'blob'")
      .get()!
    t.equal(packed, 135, 'those of Base')
  },
)

t.test('sales are not packed below a gateway of the version before, which would misread them', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const old = await before(path)
  t.teardown(() => old.close())
  const { claim } = insertBefore(old, 9)[0]!
  const storeClock = testClock()
  const ttlMs = 10_000
  const renew = () =>
    old
      .prepare(
        `INSERT OR REPLACE INTO leases (id, name, ttl_ms, expires_at_ms) VALUES (1, 'process:old', ?, ?)`,
      )
      .run(ttlMs, storeClock.nowMs + ttlMs)
  const shape = () =>
    String(old.prepare("SELECT sql FROM sqlite_master WHERE name = 'payments'").get()!['sql'])
  let warnings = 0
  let heard = () => {}
  const log = {
    ...silentLog,
    warn() {
      warnings++
      heard()
    },
  }
  const opened = () => {
    const waits = new Promise<void>((resolve) => {
      heard = resolve
    })
    return { waits, store: openSqlite({ path, clock: systemClock, storeClock, log }) }
  }

  renew()
  const refused = opened()
  await refused.waits
  storeClock.nowMs += 20_000
  renew()
  await t.rejects(refused.store, { message: /^A gateway of an earlier version works on this database/ })
  t.match(shape(), /nonce TEXT/, 'it is as it was')
  t.equal(old.prepare('SELECT typeof(nonce) AS is_a FROM payments WHERE id = 1').get()!['is_a'], 'text')

  const patient = opened()
  await patient.waits
  t.match(shape(), /nonce TEXT/)
  // That gateway has ended without a word.
  storeClock.nowMs += ttlMs
  const store = await patient.store
  t.teardown(() => store.close())
  t.match(await store.books.find(claim.key), { nonce: claim.nonce, requestHash: claim.requestHash })
  t.equal(warnings, 2, 'each start says so once')

  await store.leases.take('process:new', ttlMs)
  const beside = await openSqlite({ path, clock: systemClock, storeClock, log })
  t.teardown(() => beside.close())
  t.equal(warnings, 2, 'those of one version share the file')
})

import { hash } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { newPurchaseId } from '../../../core/payments/purchase.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { change, claimed, saleOf, sampleClaim, samplePurchase, sell, startMs, testClock } from '../samples.ts'

const sha = (text: string) => hash('sha256', text)
const mark = (of: string) => hash('sha256', of, 'base64url').slice(0, 22)

async function open(t: Test, path: string) {
  const store = await openSqlite({ path, clock: systemClock, log: silentLog })
  t.teardown(() => store.close())
  return { ...store, clock: testClock(), storeClock: testClock() }
}

/** The spellings of a hash, a nonce or a wallet that clients may send. */
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
    t.ok(await store.ledger.apply(change(claim, row, 'claimed', 'settled', saleOf(purchase, '1'))))
    const { requestHash } = claim
    t.match(await store.ledger.find(claim.key), { nonce, payer, requestHash, transaction: purchase.txHash })
    t.strictSame(await store.purchases.find(purchase.id), purchase)
    const again = await store.ledger.claim(claim)
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
    const [payment] = [await store.ledger.find(sampleClaim(`first${i}`).key)]
    const refunds = spellings.map((transaction) =>
      store.ledger.apply(
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
    t.ok(await store.ledger.apply(change(claim, row, 'claimed', 'settled', saleOf(purchase, '7'))))
    t.ok(
      await store.ledger.apply(change(claim, row, 'settled', 'delivered', { purchaseStatus: 'delivered' })),
    )
    return { row, state: 'delivered' as const, afterMs: 270_000, tries: 0, reason: 'seen once' }
  }
  const looked = []
  for (let i = 0; i < count; i += 20)
    looked.push(...(await Promise.all(Array.from({ length: 20 }, (_, n) => sellOne(i + n)))))
  await store.ledger.putOff(looked)
  await store.ledger.putOff(looked.map(({ reason: _, ...row }) => ({ ...row, afterMs: null })))
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

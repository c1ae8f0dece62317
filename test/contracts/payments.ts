import fc from 'fast-check'
import type { Test } from 'tap'
import { entriesOfRefund, entriesOfSale } from '../../core/domain/ledger.ts'
import { landedLate } from '../../core/domain/payment.ts'
import { action, followModel } from './paymentHistories.ts'
import {
  sampleAnswer as answer,
  sampleAttempt as attempt,
  type PaymentsUnderTest,
  sampleClaim,
  sampleEntries,
  samplePurchase,
  startMs,
} from './samples.ts'

/** What every implementation of the port Payments keeps. `make` gives a store of its own, empty, to each test. */
export function paymentsContract(t: Test, make: (t: Test) => Promise<PaymentsUnderTest>): void {
  t.test('a payment is claimed once, and the loser sees the row that has it', async (t) => {
    const { payments } = await make(t)
    const claim = sampleClaim('k1')
    t.strictSame(await payments.claim(claim), { won: true, purchaseId: claim.purchaseId })
    const again = await payments.claim({
      ...claim,
      owner: 'gateway-2',
      purchaseId: 'other',
      requestHash: 'other',
    })
    t.strictSame(again, {
      won: false,
      record: {
        ...claim,
        ...{ state: 'claimed', attempt: null, answer: null, transaction: null, errorReason: null },
        ...{ claimedAtMs: startMs, updatedAtMs: startMs },
      },
    })
  })

  t.test('of many claims at once one wins', async (t) => {
    const { payments } = await make(t)
    const results = await Promise.all(
      Array.from({ length: 100 }, (_, i) => payments.claim(sampleClaim('k1', { purchaseId: `p${i}` }))),
    )
    const winner = results.find((r) => r.won)
    t.equal(results.filter((r) => r.won).length, 1)
    t.ok(results.every((r) => r.won || r.record.purchaseId === (winner as { purchaseId: string }).purchaseId))
  })

  t.test('a rejected payment is taken over whole by the next claim', async (t) => {
    const { payments, clock } = await make(t)
    await payments.claim(sampleClaim('k1'))
    t.ok(await payments.advance('k1', 'gateway-1', 'claimed', 'rejected', 'invalid_signature'))
    t.equal((await payments.find('k1'))?.errorReason, 'invalid_signature')
    clock.nowMs += 1_000
    const second = sampleClaim('k1', {
      ...{ owner: 'gateway-2', linkId: 'link-2', storeId: 'store-2', requestHash: 'r2', purchaseId: 'p2' },
      ...{ payload: '{"second":true}', amountAtomic: 5n, payTo: '0x33', validBeforeMs: startMs + 9_000 },
    })
    t.strictSame(await payments.claim(second), { won: true, purchaseId: 'p2' })
    t.strictSame(await payments.find('k1'), {
      ...second,
      ...{ state: 'claimed', attempt: null, answer: null, transaction: null, errorReason: null },
      ...{ claimedAtMs: startMs + 1_000, updatedAtMs: startMs + 1_000 },
    })
  })

  t.test('amounts and times come back exactly, however large', async (t) => {
    const { payments } = await make(t)
    const facts = { amountAtomic: 2n ** 256n - 1n, validBeforeMs: Number.MAX_SAFE_INTEGER }
    await payments.claim(sampleClaim('k1', facts))
    t.match(await payments.find('k1'), facts)
    await t.rejects(
      payments.claim(sampleClaim('k2', { validBeforeMs: Number.POSITIVE_INFINITY })),
      RangeError,
    )
    await t.rejects(payments.claim(sampleClaim('k2', { validBeforeMs: 0.5 })), RangeError)
    t.equal(await payments.find('k2'), undefined)
  })

  t.test(
    'what was signed and the answer are stored before the broadcast, and read back byte by byte',
    async (t) => {
      const { payments } = await make(t)
      t.equal(await payments.beginSettlement('k1', 'gateway-1', attempt, answer), false, 'not claimed')
      await payments.claim(sampleClaim('k1'))
      t.equal(await payments.beginSettlement('k1', 'gateway-2', attempt, answer), false, 'not the owner')
      t.equal((await payments.find('k1'))?.attempt, null)
      const body = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
      t.ok(await payments.beginSettlement('k1', 'gateway-1', attempt, { ...answer, body }))
      const record = await payments.find('k1')
      t.match(record, { state: 'settling', attempt, answer: { status: 200, headers: answer.headers } })
      t.ok(body.equals(record!.answer!.body))
      t.equal(await payments.beginSettlement('k1', 'gateway-1', attempt, null), false, 'signed only once')
    },
  )

  t.test('a settlement writes purchase and ledger with it, once, however often it is reported', async (t) => {
    const under = await make(t)
    const { claim, purchase, entries } = await settling(under, 'k1')
    const settle = (owner = claim.owner) => under.payments.settle('k1', owner, '0xaa', purchase, entries)
    t.equal(await settle('gateway-2'), false, 'not the owner')
    t.strictSame(await Promise.all([settle(), settle(), settle()]), [true, true, true])
    t.equal(await settle('gateway-2'), true, 'settled is settled, whoever asks')
    t.strictSame(await under.purchases.find(purchase.id), purchase)
    t.strictSame(await under.purchases.ledger(purchase.id), entries)
    t.match(await under.payments.find('k1'), { state: 'settled', transaction: '0xaa' })
    t.match(await under.purchases.ledgerCheck(), {
      ...{
        purchases: 1,
        chargedPayments: 1,
        unresolvedPayments: 0,
        refundDue: 0,
        broken: [],
        unbalanced: [],
      },
      transactions: [{ network: claim.network, transaction: '0xaa', purchaseId: purchase.id }],
    })
  })

  t.test(
    'one transaction settles one payment: its second use is refused by name and changes nothing',
    async (t) => {
      const under = await make(t)
      const first = await settling(under, 'k1', '0xAbCd')
      const second = await settling(under, 'k2', '0xabcd')
      await under.payments.settle('k1', 'gateway-1', '0xAbCd', first.purchase, first.entries)
      await t.rejects(under.payments.settle('k2', 'gateway-1', '0xabcd', second.purchase, second.entries), {
        code: 'CONFLICT',
        message: /0xabcd on eip155:84532.*k2/,
      })
      t.match(await under.payments.find('k2'), { state: 'settling', transaction: null })
      t.equal(await under.purchases.find(second.purchase.id), undefined)
      t.strictSame(await under.purchases.ledger(second.purchase.id), [])
    },
  )

  t.test('base58 transactions that differ in case are two', async (t) => {
    const under = await make(t)
    const network = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1' as const
    for (const [key, tx] of Object.entries({ k1: '5abC', k2: '5ABc' })) {
      const { claim, entries } = await settling(under, key, tx, { network })
      t.ok(await under.payments.settle(key, 'gateway-1', tx, samplePurchase(claim, tx), entries))
    }
  })

  t.test('a write that breaks a rule leaves the writes beside it standing', async (t) => {
    const under = await make(t)
    const first = await settling(under, 'k1', '0xaa')
    const second = await settling(under, 'k2', '0xaa')
    const results = await Promise.allSettled([
      under.payments.claim(sampleClaim('before')),
      under.payments.settle('k1', 'gateway-1', '0xaa', first.purchase, first.entries),
      under.payments.settle('k2', 'gateway-1', '0xaa', second.purchase, second.entries),
      under.payments.claim(sampleClaim('after')),
    ])
    t.strictSame(
      results.map((r) => r.status),
      ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
    )
    t.ok(await under.payments.find('before'))
    t.ok(await under.payments.find('after'))
    t.match(await under.purchases.ledgerCheck(), { purchases: 1, broken: [], unbalanced: [] })
  })

  t.test('books that do not fit the payment are refused before anything is written', async (t) => {
    const under = await make(t)
    const { claim, purchase, entries } = await settling(under, 'k1')
    const settle = (p = purchase, e = entries) => under.payments.settle('k1', 'gateway-1', '0xaa', p, e)
    await t.rejects(settle(purchase, [entries[0]!]), /add up to zero/)
    await t.rejects(settle(purchase, sampleEntries(sampleClaim('k2'))), /purchase/)
    await t.rejects(settle({ ...purchase, paymentKey: 'k2' }), /another payment/)
    await t.rejects(settle({ ...purchase, txHash: '0xbb' }), /another payment/)
    const stranger = { ...claim, purchaseId: 'p9' }
    await t.rejects(settle(samplePurchase(stranger, '0xaa'), sampleEntries(stranger)), /fixed at the claim/)
    t.match(await under.payments.find('k1'), { state: 'settling' })
    t.match(await under.purchases.ledgerCheck(), { purchases: 0, broken: [], unbalanced: [] })
  })

  t.test('a payment that lands after it was given up is refundable, and counts as a transfer', async (t) => {
    const under = await make(t)
    const { claim, entries } = await settling(under, 'k1')
    await under.payments.advance('k1', 'gateway-1', 'settling', 'failed_final', 'expired')
    t.ok(await under.payments.moveCharged('k1', 'failed_final', 'refund_due', entries, 'landed_late'))
    t.match(await under.payments.find('k1'), { state: 'refund_due', errorReason: 'landed_late' })
    t.notOk(await under.payments.resume('k1', 'gateway-1'), 'it bought nothing that could be served')
    t.equal(
      await under.payments.settle('k1', 'gateway-1', '0xaa', samplePurchase(claim, '0xaa'), entries),
      false,
    )
    t.match(await under.purchases.ledgerCheck(), {
      ...{ purchases: 0, chargedPayments: 1, refundDue: 1, broken: [], unbalanced: [] },
      transactions: [{ transaction: attempt.transaction, purchaseId: claim.purchaseId }],
    })
  })

  t.test('what landed late is resumed once, by one, and only while it is owed for that', async (t) => {
    const under = await make(t)
    const { claim, purchase } = await settling(under, 'k1')
    await under.payments.settle('k1', 'gateway-1', '0xaa', purchase, entriesOfSale(purchase))
    t.notOk(await under.payments.resume('k1', 'gateway-2'), 'it is not owed')
    await under.payments.moveCharged('k1', 'settled', 'refund_due', [], landedLate)
    const tries = await Promise.all(
      ['a', 'b', 'c', 'd'].map((owner) => under.payments.resume('k1', owner).then((won) => ({ owner, won }))),
    )
    const winners = tries.filter(({ won }) => won)
    t.equal(winners.length, 1)
    t.match(await under.payments.find('k1'), {
      ...{ state: 'settled', owner: winners[0]!.owner, errorReason: null, transaction: '0xaa' },
    })
    t.match(await under.purchases.find(claim.purchaseId), { status: 'settled' })
    t.match(await under.purchases.ledgerCheck(), { purchases: 1, refundDue: 0, broken: [], unbalanced: [] })
    await under.payments.moveCharged('k1', 'settled', 'refund_due', [], 'upstream_error')
    t.notOk(await under.payments.resume('k1', 'gateway-2'), 'owed because the seller failed')

    const paidBack = await settling(under, 'k2', '0xbb')
    await under.payments.settle('k2', 'gateway-1', '0xbb', paidBack.purchase, paidBack.entries)
    await under.payments.moveCharged('k2', 'settled', 'refund_due', [], landedLate)
    const refund = entriesOfRefund(paidBack.purchase)
    await under.payments.recordRefund('k2', { transaction: '0xcc', paymentKeys: [] }, refund)
    t.notOk(await under.payments.resume('k2', 'gateway-2'), 'the money went back')
    t.match(await under.purchases.find(paidBack.purchase.id), { status: 'refunded' })
    t.notOk(await under.payments.resume('k9', 'gateway-2'), 'there is no such payment')
  })

  t.test('a transfer that leaves the chain and comes back is still one purchase', async (t) => {
    const under = await make(t)
    const { claim, purchase } = await settling(under, 'k1')
    const sale = entriesOfSale(purchase)
    await under.payments.settle('k1', 'gateway-1', '0xaa', purchase, sale)
    t.ok(await under.payments.moveCharged('k1', 'settled', 'reorged', entriesOfRefund(purchase)))
    t.match(await under.purchases.find(purchase.id), { status: 'reorged' })
    t.match(await under.purchases.ledgerCheck(), {
      purchases: 0,
      transactions: [],
      broken: [],
      unbalanced: [],
    })
    const back = samplePurchase(claim, '0xbb')
    t.ok(await under.payments.settle('k1', 'gateway-1', '0xbb', back, sale))
    t.match(await under.purchases.find(purchase.id), { status: 'settled', txHash: '0xbb' })
    t.equal((await under.purchases.page('store-1', { limit: 10 })).purchases.length, 1)
    t.match(await under.purchases.ledgerCheck(), { purchases: 1, broken: [], unbalanced: [] })
  })

  t.test('the list gives the rows of silent owners, oldest first', async (t) => {
    const { payments, clock } = await make(t)
    for (const [key, owner] of [
      ['k1', 'gone'],
      ['k2', 'alive'],
      ['k3', 'never'],
      ['k4', 'gone'],
    ] as const) {
      await payments.claim(sampleClaim(key, { owner }))
      clock.nowMs += 1_000
    }
    await payments.heartbeat('gone')
    clock.nowMs += 60_000
    await payments.heartbeat('alive')
    const keys = async (more: object) =>
      (await payments.list({ states: ['claimed'], limit: 10, ...more })).map((row) => row.key)
    t.strictSame(await keys({}), ['k1', 'k2', 'k3', 'k4'])
    t.strictSame(await keys({ silentOwnersBeforeMs: clock.nowMs - 30_000 }), ['k1', 'k3', 'k4'])
    t.strictSame(await keys({ silentOwnersBeforeMs: clock.nowMs - 30_000, limit: 2 }), ['k1', 'k3'])
    t.strictSame(await keys({ isNewestFirst: true, limit: 3 }), ['k4', 'k3', 'k2'])
    t.strictSame(await keys({ updatedBeforeMs: startMs + 1_000 }), ['k1'])
    t.strictSame(await keys({ states: ['settling', 'pending'] }), [])
    t.strictSame(await keys({ states: ['settling', 'claimed'] }), ['k1', 'k2', 'k3', 'k4'])
    t.strictSame(await keys({ states: [] }), [])
    t.strictSame(await keys({ settler: attempt.settler }), [])
    await payments.advance('k2', 'alive', 'claimed', 'verified')
    await payments.beginSettlement('k2', 'alive', attempt, null)
    t.strictSame(await keys({ states: ['settling'], settler: attempt.settler }), ['k2'])
  })

  t.test('a list of those without an answer leaves out whoever has one to be handed', async (t) => {
    const { payments } = await make(t)
    for (const key of ['k1', 'k2', 'k3']) {
      const claim = sampleClaim(key)
      const transaction = `0x${key}`
      await payments.claim(claim)
      await payments.beginSettlement(
        key,
        claim.owner,
        { ...attempt, transaction },
        key === 'k1' ? answer : null,
      )
      await payments.settle(
        key,
        claim.owner,
        transaction,
        samplePurchase(claim, transaction),
        sampleEntries(claim),
      )
    }
    await payments.keepAnswer('k3', answer)
    const unanswered = await payments.list({ states: ['settled'], isUnanswered: true, limit: 10 })
    t.strictSame(
      unanswered.map(({ key }) => key),
      ['k2'],
    )
  })

  t.test('of many who take over a row one does, and the former owner can do nothing any more', async (t) => {
    const { payments } = await make(t)
    await payments.claim(sampleClaim('k1'))
    const took = await Promise.all(
      ['a', 'b', 'c'].map((owner) => payments.takeOver('k1', 'gateway-1', owner)),
    )
    t.equal(took.filter(Boolean).length, 1)
    t.equal(await payments.advance('k1', 'gateway-1', 'claimed', 'verified'), false)
    t.equal(await payments.advance('k1', (await payments.find('k1'))!.owner, 'claimed', 'verified'), true)
  })

  t.test('a settlement that is refused leaves nothing half done, and its neighbours stand', async (t) => {
    const under = await make(t)
    const { payments, purchases } = under
    const [first, twin, other] = await Promise.all([
      settling(under, 'k1', '0xaa'),
      settling(under, 'k2', '0xaa'),
      settling(under, 'k3', '0xbb'),
    ])
    const settle = ({ claim, purchase, entries }: typeof first) =>
      payments.settle(claim.key, claim.owner, purchase.txHash, purchase, entries)
    const done = await Promise.allSettled([settle(first), settle(twin), settle(other)])
    t.strictSame(
      done.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    )
    t.equal((await payments.find('k2'))?.state, 'settling')
    t.strictSame(await purchases.ledger(twin.claim.purchaseId), [])
    for (const { claim, entries } of [first, other]) {
      t.equal((await payments.find(claim.key))?.state, 'settled')
      t.strictSame(await purchases.ledger(claim.purchaseId), entries, 'booked once')
    }
  })

  t.test('any interleaving of two owners ends where the state machine says', async (t) => {
    const under = await make(t)
    let run = 0
    await fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 5, maxLength: 40 }), async (actions) => {
        under.clock.nowMs = startMs
        await followModel(under, actions, `run${run++}-`)
      }),
      { numRuns: 300 },
    )
    t.match(await under.purchases.ledgerCheck(), { broken: [], unbalanced: [] })
  })
}

/** A payment that was claimed, verified and signed. */
async function settling(under: PaymentsUnderTest, key: string, tx = '0xaa', more = {}) {
  const claim = sampleClaim(key, more)
  await under.payments.claim(claim)
  await under.payments.advance(key, claim.owner, 'claimed', 'verified')
  await under.payments.beginSettlement(key, claim.owner, attempt, answer)
  return { claim, purchase: samplePurchase(claim, tx), entries: sampleEntries(claim) }
}

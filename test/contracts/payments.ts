import fc from 'fast-check'
import type { Test } from 'tap'
import { entriesOfRefund, entriesOfSale } from '../../core/domain/ledger.ts'
import { landedLate, mayMove, type PaymentState } from '../../core/domain/payment.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { Payments } from '../../core/ports/payments.ts'
import type { Purchases } from '../../core/ports/purchases.ts'
import { type Outcome, PaymentModel } from './paymentModel.ts'
import { sampleClaim, sampleEntries, samplePurchase, startMs, type TestClock } from './samples.ts'

export interface PaymentsUnderTest {
  readonly payments: Payments
  readonly purchases: Purchases
  readonly clock: TestClock
}

const attempt = { settler: 'evm:eip155:84532:0xabc', bytes: '0x02f8', transaction: '0xfeed', sequence: '7' }
const answer = { status: 200, headers: ['content-type', 'application/json'], body: Buffer.from('{"data":1}') }

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

const states: PaymentState[] = [
  ...(['claimed', 'verified', 'rejected', 'settling', 'pending', 'failed_final'] as const),
  ...(['settled', 'delivered', 'refund_due', 'refunded', 'reorged'] as const),
]
const key = fc.constantFrom('k1', 'k2')
const owner: fc.Arbitrary<string> = fc.constantFrom('o1', 'o1', 'o1', 'o2')
const tx = fc.constantFrom('0xa1', '0xa2', '0xa3')
/** Transfers back, and one that has settled a payment. */
const back = fc.constantFrom('0xb1', '0xb2', '0xa1')
const state = fc.constantFrom(...states)
const from = fc.option(state, { nil: 'present' as const })
const chargedTo = fc.constantFrom(...(['delivered', 'refund_due', 'reorged'] as const))

// `go` takes the row's owner along one of the arrows that leave its state, so that runs get to the far end; the others try
// what may not be. `from: present` stands for the state that the row is in, so that most moves go somewhere.
const action = fc.oneof(
  { weight: 14, arbitrary: fc.record({ do: fc.constant('go' as const), key, tx, pick: fc.nat(100) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('claim' as const), key, owner }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('advance' as const), key, owner, from, to: state }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('verify' as const), key, owner }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('begin' as const), key, owner, answer: fc.option(fc.nat(599)) }),
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('settle' as const), key, owner, tx }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('answer' as const), key, status: fc.nat(599) }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('move' as const), key, from, to: chargedTo, late: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('resume' as const), key, owner }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('refund' as const), key, tx: back }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('takeOver' as const), key, owner, to: owner }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('forget' as const),
      ageMs: fc.constantFrom(0, 1, 3),
      spanMs: fc.constantFrom(0, 2, 1_000_000),
    }),
  },
)
type Action = typeof action extends fc.Arbitrary<infer A> ? A : never

async function followModel(
  { payments, purchases, clock }: PaymentsUnderTest,
  actions: Action[],
  prefix: string,
) {
  const model = new PaymentModel()
  await payments.forgetAnswers(0, Number.MAX_SAFE_INTEGER)
  for (const [step, action] of actions.entries()) {
    clock.nowMs++
    const [said, expected] = await act({ payments, clock, model, prefix, step }, action)
    if (said !== expected)
      throw new Error(`Step ${step}, ${JSON.stringify(action)}: expected ${expected}, got ${said}`)
  }
  for (const key of ['k1', 'k2'].map((k) => prefix + k)) {
    const record = await payments.find(key)
    const row = model.rows.get(key)
    const seen = record && {
      ...{ state: record.state, owner: record.owner, purchaseId: record.purchaseId },
      ...{
        transaction: record.transaction,
        errorReason: record.errorReason,
        updatedAtMs: record.updatedAtMs,
      },
      ...{ attempt: record.attempt?.bytes ?? null, answer: record.answer?.status ?? null },
    }
    same(seen, row, `the row of ${key}`)
    const wanted = model.purchases.get(key)
    const purchase = row && (await purchases.find(row.purchaseId))
    same(
      purchase && { id: purchase.id, status: purchase.status, transaction: purchase.txHash },
      wanted,
      'purchase',
    )
  }
}

interface Stage {
  readonly payments: Payments
  readonly clock: TestClock
  readonly model: PaymentModel
  readonly prefix: string
  readonly step: number
}

/** Does the same to the port and to the model: what each said. */
async function act(stage: Stage, action: Action): Promise<[unknown, unknown]> {
  const { payments, clock, model, prefix, step } = stage
  if (action.do === 'forget') {
    const beforeMs = clock.nowMs - action.ageMs
    const afterMs = beforeMs - action.spanMs
    return [await payments.forgetAnswers(afterMs, beforeMs), model.forgetAnswers(afterMs, beforeMs)]
  }
  const key = prefix + action.key
  const row = model.rows.get(key)
  const claim = sampleClaim(key, { purchaseId: row?.purchaseId ?? `${key}-none` })
  const present = row?.state ?? 'claimed'
  switch (action.do) {
    case 'go':
      return act(stage, alongAnArrow(action, row?.state, row?.owner ?? 'o1'))
    case 'claim': {
      const purchaseId = `${key}-${step}`
      const result = await payments.claim({ ...claim, owner: action.owner, purchaseId })
      return [result.won, model.claim(key, action.owner, purchaseId, clock.nowMs)]
    }
    case 'verify':
    case 'advance': {
      const from = action.do === 'verify' || action.from === 'present' ? present : action.from
      const to = action.do === 'verify' ? 'verified' : action.to
      return [
        await outcome(payments.advance(key, action.owner, from, to, `r${step}`)),
        model.advance(key, action.owner, from, to, `r${step}`, clock.nowMs),
      ]
    }
    case 'begin': {
      const stored = action.answer === null ? null : { ...answer, status: action.answer }
      return [
        await outcome(payments.beginSettlement(key, action.owner, { ...attempt, bytes: `b${step}` }, stored)),
        model.beginSettlement(key, action.owner, `b${step}`, action.answer, clock.nowMs),
      ]
    }
    case 'settle': {
      const transaction = prefix + action.tx
      const purchase = samplePurchase(claim, transaction)
      return [
        await outcome(payments.settle(key, action.owner, transaction, purchase, entriesOfSale(purchase))),
        model.settle(key, action.owner, transaction, clock.nowMs),
      ]
    }
    case 'answer':
      await payments.keepAnswer(key, { ...answer, status: action.status })
      model.keepAnswer(key, action.status)
      return [null, null]
    case 'move': {
      const reason = action.to === 'refund_due' && action.late ? landedLate : undefined
      const from = action.from === 'present' ? present : action.from
      return [
        await outcome(payments.moveCharged(key, from, action.to, sampleEntries(claim), reason)),
        model.moveCharged(key, from, action.to, reason, clock.nowMs),
      ]
    }
    case 'resume':
      return [await payments.resume(key, action.owner), model.resume(key, action.owner, clock.nowMs)]
    case 'refund': {
      const transaction = prefix + action.tx
      const entries = entriesOfRefund(samplePurchase(claim, transaction))
      return [
        await payments.recordRefund(key, { transaction, paymentKeys: [] }, entries),
        model.recordRefund(key, transaction, clock.nowMs),
      ]
    }
    case 'takeOver':
      return [
        await payments.takeOver(key, action.owner, action.to),
        model.takeOver(key, action.owner, action.to, clock.nowMs),
      ]
  }
}

function alongAnArrow(
  { key, tx, pick }: Extract<Action, { do: 'go' }>,
  from: PaymentState | undefined,
  owner: string,
): Action {
  const next = from === undefined ? ['claimed' as const] : states.filter((to) => mayMove(from, to))
  const to = next[pick % next.length] ?? 'claimed'
  if (to === 'claimed') return { do: 'claim', key, owner }
  if (to === 'settling') return { do: 'begin', key, owner, answer: pick }
  if (from === 'refund_due' && to === 'settled') return { do: 'resume', key, owner }
  if (to === 'settled') return { do: 'settle', key, owner, tx }
  if (to === 'refunded') return { do: 'refund', key, tx: tx === '0xa1' ? '0xb1' : '0xb2' }
  if (to === 'delivered' || to === 'refund_due' || to === 'reorged') {
    return { do: 'move', key, from: 'present', to, late: pick % 2 === 0 }
  }
  return { do: 'advance', key, owner, from: 'present', to }
}

async function outcome(promise: Promise<boolean>): Promise<Outcome> {
  try {
    return await promise
  } catch (error) {
    return isTollgateError(error) && error.code === 'CONFLICT' ? 'conflict' : 'throws'
  }
}

function same(got: unknown, expected: unknown, what: string): void {
  const sorted = (value: unknown) =>
    JSON.stringify(value && Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))))
  if (sorted(got) !== sorted(expected))
    throw new Error(`${what}: expected ${sorted(expected)}, got ${sorted(got)}`)
}

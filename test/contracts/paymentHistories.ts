import fc from 'fast-check'
import { entriesOfRefund, entriesOfSale } from '../../core/domain/ledger.ts'
import { landedLate, mayMove, type PaymentState } from '../../core/domain/payment.ts'
import { isTollgateError } from '../../core/errors/error.ts'
import type { Payments } from '../../core/ports/payments.ts'
import { type Outcome, PaymentModel } from './paymentModel.ts'
import {
  type PaymentsUnderTest,
  sampleAnswer,
  sampleAttempt,
  sampleClaim,
  sampleEntries,
  samplePurchase,
  type TestClock,
} from './samples.ts'

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
export const action = fc.oneof(
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
export type Action = typeof action extends fc.Arbitrary<infer A> ? A : never

/**
 * Does the same to the port and to the model, step by step.
 *
 * @param prefix of the payments' keys, so that runs in one store do not meet
 * @throws when they say different things, or end differently
 */
export async function followModel(
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
      const stored = action.answer === null ? null : { ...sampleAnswer, status: action.answer }
      return [
        await outcome(
          payments.beginSettlement(key, action.owner, { ...sampleAttempt, bytes: `b${step}` }, stored),
        ),
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
      await payments.keepAnswer(key, { ...sampleAnswer, status: action.status })
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

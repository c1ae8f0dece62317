import fc from 'fast-check'
import { entriesOfSale } from '../../../core/domain/ledger.ts'
import { openStates, type PaymentState } from '../../../core/domain/payment.ts'
import type { PurchaseStatus } from '../../../core/domain/purchase.ts'
import { isTollgateError } from '../../../core/errors/error.ts'
import type { Lease } from '../../../core/ports/store/leases.ts'
import type { PaymentChange } from '../../../core/ports/store/ledger.ts'
import {
  change,
  type LedgerUnderTest,
  sampleAttempt,
  sampleClaim,
  samplePurchase,
  sampleResponse,
} from '../samples.ts'
import { BookModel } from './ledgerModel.ts'

const name = fc.constantFrom('k1', 'k2', 'k3')
const state = fc.constantFrom<PaymentState>(
  ...(['claimed', 'rejected', 'settling', 'pending', 'failed_final'] as const),
  ...(['settled', 'delivered', 'refund_due', 'refunded', 'reorged'] as const),
)
const status = fc.constantFrom<PurchaseStatus>('settled', 'delivered', 'refund_due', 'refunded', 'reorged')
/** Which of the two processes, or none. */
const holder = fc.constantFrom(0, 1, null)
const rarely = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: undefined, freq: 2 })
const dueInMs = fc.constantFrom(null, 0, 2)

// Any change at all, most of them of the state, lease and claim that the row has: an adapter does what it is told.
export const action = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('claim' as const), name, who: fc.constantFrom(0, 1) }),
  },
  {
    weight: 16,
    arbitrary: fc.record({
      do: fc.constant('apply' as const),
      name,
      from: fc.option(state, { nil: 'present' as const, freq: 6 }),
      lease: fc.oneof(
        { weight: 5, arbitrary: fc.constant('present' as const) },
        { weight: 1, arbitrary: holder },
      ),
      isOtherClaim: fc.oneof(
        { weight: 9, arbitrary: fc.constant(false) },
        { weight: 1, arbitrary: fc.constant(true) },
      ),
      was: rarely(fc.constantFrom('r1', 'r2')),
      to: state,
      reason: rarely(fc.constantFrom('r1', 'r2', null)),
      takenBy: rarely(holder),
      attempt: rarely(fc.constantFrom('b1', 'b2', null)),
      response: rarely(fc.constantFrom(200, 404, null)),
      sale: rarely(
        fc.record({ tx: fc.constantFrom('0xa1', '0xa2'), event: fc.constantFrom('0', '1'), status }),
      ),
      status: rarely(status),
      back: rarely(fc.constantFrom('0xb1', '0xb2', '0xa1')),
      dueInMs,
      durability: fc.constantFrom('flushed', 'visible'),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('putOff' as const), name, afterMs: dueInMs, tries: fc.nat(3) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('adopt' as const), who: fc.constantFrom(0, 1) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lose' as const), who: fc.constantFrom(0, 1) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(1, 3) }) },
)
type Action = typeof action extends fc.Arbitrary<infer A> ? A : never

/**
 * Does the same to the ports and to the model, step by step: two processes that work on three payments and lose their
 * leases now and then.
 *
 * @param prefix of the payments' names, so that runs in one store do not meet
 * @throws when they say different things, or end differently
 */
export async function followModel(under: LedgerUnderTest, actions: Action[], prefix: string): Promise<void> {
  const { ledger, leases, purchases, clock, storeClock } = under
  const model = new BookModel()
  const names = ['k1', 'k2', 'k3'].map((one) => prefix + one)
  const rows = new Map<string, number>()
  const take = async (who: number) => (await leases.take(`process:${prefix}${who}`, 300_000))!
  const held: Lease[] = [await take(0), await take(1)]
  const idOf = (who: number | null) => (who === null ? null : held[who]!.id)

  const changeOf = (name: string, action: Extract<Action, { do: 'apply' }>): PaymentChange => {
    const row = model.rows.get(name)
    const claim = { ...sampleClaim(name), purchaseId: row?.purchaseId ?? 'none' }
    const { sale, was, reason, takenBy, attempt, response, back } = action
    const transaction = sale && prefix + sale.tx
    const purchase = transaction && samplePurchase(claim, transaction, { status: sale!.status })
    return change(
      action.isOtherClaim ? { purchaseId: 'another' } : claim,
      rows.get(name) ?? 0,
      action.from === 'present' ? (row?.state ?? 'claimed') : action.from,
      action.to,
      {
        lease: action.lease === 'present' ? (row?.lease ?? null) : idOf(action.lease),
        dueInMs: action.dueInMs,
        durability: action.durability as PaymentChange['durability'],
        ...(was !== undefined && { errorWas: was }),
        ...(reason !== undefined && { errorReason: reason }),
        ...(takenBy !== undefined && { takenBy: idOf(takenBy) }),
        ...(attempt !== undefined && { attempt: attempt && { ...sampleAttempt, bytes: attempt } }),
        ...(response !== undefined && { response: response && { ...sampleResponse, status: response } }),
        ...(purchase && {
          settled: { transaction: transaction!, event: sale!.event, block: null, chargedAtomic: 1n },
          purchase,
          entries: entriesOfSale(purchase),
        }),
        ...(action.status !== undefined && { purchaseStatus: action.status }),
        ...(back !== undefined && {
          refund: { network: claim.network, transaction: prefix + back, paymentKeys: [] },
        }),
      } as Partial<PaymentChange>,
    )
  }

  async function act(action: Action, step: number): Promise<[unknown, unknown]> {
    const [nowMs, storeNowMs] = [clock.nowMs, storeClock.nowMs]
    switch (action.do) {
      case 'claim': {
        const name = prefix + action.name
        const purchaseId = `${name}-${step}`
        const lease = idOf(action.who)!
        const result = await ledger.claim(sampleClaim(name, { lease, purchaseId }))
        if (result.won) rows.set(name, result.row)
        return [result.won, model.claim(name, lease, purchaseId, nowMs)]
      }
      case 'apply': {
        const name = prefix + action.name
        const next = changeOf(name, action)
        return [await outcome(ledger.apply(next)), model.apply(name, next, nowMs, storeNowMs)]
      }
      case 'putOff': {
        const name = prefix + action.name
        const { afterMs, tries } = action
        const off = {
          row: rows.get(name) ?? 0,
          state: model.rows.get(name)?.state ?? 'claimed',
          afterMs,
          tries,
        }
        await ledger.putOff([off])
        return [null, model.putOff(name, off, storeNowMs) ?? null]
      }
      case 'adopt': {
        const living = held.map(({ id }) => id)
        const count = await ledger.adopt(held[action.who]!, openStates, 100)
        return [count, model.adopt(names, held[action.who]!.id, living, storeNowMs)]
      }
      case 'lose':
        await leases.release(held[action.who]!)
        held[action.who] = await take(action.who)
        return [null, null]
      case 'wait':
        clock.nowMs += action.ms
        storeClock.nowMs += action.ms
        return [null, null]
    }
  }

  for (const [step, action] of actions.entries()) {
    const [lines, expected] = await act(action, step)
    if (lines !== expected)
      throw new Error(`Step ${step}, ${JSON.stringify(action)}: expected ${expected}, got ${lines}`)
  }

  for (const name of names) {
    const record = await ledger.find(sampleClaim(name).key)
    const row = model.rows.get(name)
    same(record && (await seen(record)), row && { ...row, dueAtMs: undefined }, `the row of ${name}`)
    if (row === undefined) continue
    const purchase = await purchases.find(record!.purchaseId)
    const sold = model.purchases.get(name)
    const isOfThisClaim = purchase !== undefined
    if (isOfThisClaim)
      same(
        { status: purchase.status, tx: purchase.txHash },
        { status: sold?.status, tx: sold?.transaction },
        'purchase',
      )
    same(
      await ledger.refundOf(record!.row),
      undefined === model.refunds.get(name) ? undefined : { transaction: model.refunds.get(name) },
      'refund',
    )
    same(
      { lines: (await purchases.ledger(row.purchaseId)).length },
      { lines: model.lines.get(row.purchaseId) ?? 0 },
      'ledger',
    )
  }
  const due = (await ledger.due({ states: [...openStates, ...closed], limit: 1_000 })).map(({ nonce }) =>
    nonce.slice(2),
  )
  const expected = names.filter((name) => {
    const dueAtMs = model.rows.get(name)?.dueAtMs
    return dueAtMs != null && dueAtMs <= storeClock.nowMs
  })
  const mine = due.filter((one) => one.startsWith(prefix)).toSorted()
  if (mine.join() !== expected.join()) throw new Error(`Due: expected ${expected}, got ${mine}`)

  // The next run is not to find them.
  for (const [name, { state, purchaseId }] of model.rows)
    await ledger.apply(change({ purchaseId }, rows.get(name)!, state, 'rejected'))

  async function seen(record: NonNullable<Awaited<ReturnType<typeof ledger.find>>>) {
    const { state, lease, purchaseId, transaction, event, errorReason, tries, updatedAtMs } = record
    return {
      ...{ state, lease, purchaseId, transaction, event, errorReason, tries, updatedAtMs },
      attempt: record.attempt?.bytes ?? null,
      response: (await ledger.responseOf(record.row))?.status ?? null,
    }
  }
}

const closed = ['rejected', 'failed_final', 'delivered', 'refund_due', 'refunded', 'reorged'] as const

async function outcome(promise: Promise<boolean>): Promise<boolean | 'conflict'> {
  try {
    return await promise
  } catch (error) {
    if (isTollgateError(error) && error.code === 'CONFLICT') return 'conflict'
    throw error
  }
}

/** @param got may say more than is expected of it */
function same(got: object | undefined, expected: object | undefined, what: string): void {
  const text = (value: object | undefined) =>
    value &&
    JSON.stringify(
      Object.keys(expected ?? value)
        .toSorted()
        .map((key) => [key, (value as Record<string, unknown>)[key]]),
    )
  if (text(got) !== text(expected)) throw new Error(`${what}: expected ${text(expected)}, got ${text(got)}`)
}

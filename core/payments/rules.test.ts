import fc from 'fast-check'
import t from 'tap'
import { builtInAssets } from '../domain/asset.ts'
import { bookable, feesAccountOf } from '../domain/ledger.ts'
import { mayMove, type PaymentState, paymentStates, sentFirst } from '../domain/payment.ts'
import type { PaymentChange } from '../ports/store/ledger.ts'
import type { DeliveryOutcome } from './payments.ts'
import { purchaseOf, type Sale } from './purchase.ts'
import { bookTransfer, land, leaveChain, mayResume, payBack, resume, takeUp } from './reconciliation.ts'
import * as rules from './rules.ts'

const asset = builtInAssets[0]!
const attempt = { settler: 's', bytes: '0x00', transaction: '0xaa', sequence: '1' }
const response = { status: 200, headers: [], body: Buffer.from('{}') }
const purchaseId = '0190b2a4-0000-7000-8000-000000000000'

const saleOf = (chargedAtomic: bigint, storeId = 'store'): Sale => ({
  payment: {
    key: 'ab'.repeat(32),
    network: asset.network,
    asset: asset.address,
    payer: '0x2',
    amountAtomic: chargedAtomic,
    purchaseId,
    linkId: 'link',
    sessionId: null,
    storeId,
  },
  landed: { transaction: '0xaa', event: '0', block: 1, chargedAtomic },
  asset,
  reviewTokenHash: 'hash',
  atMs: 1,
})

const state = fc.constantFrom(...paymentStates)
const outcome = fc.constantFrom<DeliveryOutcome>(
  'delivered',
  'unsent',
  'seller_failed',
  'not_asked',
  'not_charged',
)
const left = fc.record({
  row: fc.constant(7),
  purchaseId: fc.constant(purchaseId),
  lease: fc.constantFrom(null, 3),
  state,
  hasResponse: fc.boolean(),
  hasBegun: fc.boolean(),
  chargedAtomic: fc.constantFrom(null, 100n),
  errorReason: fc.constantFrom(null, 'landed_late', 'reorged_after_delivery', 'other'),
  requestHash: fc.constant('h'),
})
const amount = fc.bigInt({ min: 0n, max: 10n ** 30n })

/** Every rule, with any arguments, on a payment in any state. */
const anyRule = fc
  .tuple(left, outcome, amount, fc.boolean(), fc.boolean())
  .map(([payment, how, charged, hasMore, isFirst]) => {
    const sale = saleOf(charged)
    const { purchase } = purchaseOf(sale)
    const back = { network: asset.network, transaction: '0xbb', paymentKeys: [] }
    const makers: Record<string, () => PaymentChange | undefined> = {
      begin: () => rules.begin(payment, attempt, hasMore ? response : null),
      free: () => rules.free(payment, hasMore ? 'why' : undefined),
      pend: () => rules.pend(payment, 'why'),
      giveUp: () => rules.giveUp(payment, 'why'),
      sell: () => rules.sell(payment, sale, attempt, isFirst),
      sellForNothing: () => rules.sellForNothing(payment, sale, response),
      land: () => land(payment, sale),
      conclude: () => rules.conclude(payment, how, hasMore ? response : undefined, 'why'),
      deliver: () => rules.deliver(payment),
      owe: () => rules.owe(payment, 'why'),
      handOn: () => rules.handOn(payment),
      takeUp: () => takeUp(payment, 9),
      leaveChain: () => leaveChain(payment, hasMore ? purchase : undefined),
      resume: () => resume(payment, 9),
      payBack: () => payBack(payment, purchase, back),
    }
    return { payment, makers }
  })

const made = (make: () => PaymentChange | undefined): PaymentChange | undefined => {
  try {
    return make()
  } catch (error) {
    if (/^Expected an allowed transition/.test((error as Error).message)) return undefined
    throw error
  }
}

t.test('no rule makes a change that is no arrow, or of another row or claim', async () => {
  fc.assert(
    fc.property(anyRule, ({ payment, makers }) =>
      Object.values(makers).every((make) => {
        const change = made(make)
        if (change === undefined) return true
        return (
          change.row === payment.row &&
          change.purchaseId === payment.purchaseId &&
          (change.lease === payment.lease || change.to === 'refunded') &&
          change.from.length > 0 &&
          change.from.every((from) => from === change.to || mayMove(from, change.to))
        )
      }),
    ),
    { numRuns: 1_000 },
  )
})

t.test(
  'the entries of every change add up to zero, and those of a sale and its end to nothing at all',
  async () => {
    fc.assert(
      fc.property(anyRule, ({ makers }) =>
        Object.values(makers).every((make) => {
          const entries = made(make)?.entries ?? []
          return entries.reduce((sum, { amountAtomic }) => sum + amountAtomic, 0n) === 0n
        }),
      ),
    )
    fc.assert(
      fc.property(amount, (charged) => {
        const payment = { row: 1, purchaseId, lease: 1, state: 'settled' as const }
        const sold = rules.sell(payment, saleOf(charged), attempt, false)
        const ends = [
          leaveChain({ ...payment, errorReason: null }, sold.purchase),
          payBack(payment, sold.purchase!, {
            network: asset.network,
            transaction: '0x',
            paymentKeys: [],
          }),
        ]
        return ends.every((end) => {
          const rollups = new Map<string, bigint>()
          for (const { account, amountAtomic } of [...sold.entries!, ...end.entries!])
            rollups.set(account, (rollups.get(account) ?? 0n) + amountAtomic)
          return [...rollups.values()].every((sum) => sum === 0n)
        })
      }),
    )
  },
)

t.test('entries that do not cancel out, or are of another purchase, are refused', async (t) => {
  const { entries } = rules.sell({ row: 1, purchaseId, lease: 1 }, saleOf(100n), attempt, false)
  t.throws(() => bookable(entries!.slice(1), purchaseId), /add up to zero/)
  t.throws(() => bookable(entries!, 'another'), /of purchase another/)
})

t.test('what lands is booked as what landed, with its purchase, in one change', async () => {
  fc.assert(
    fc.property(left, amount, (payment, charged) => {
      const change = made(() => land(payment, saleOf(charged)))
      if (change === undefined)
        return !['pending', 'settling', 'failed_final', 'reorged'].includes(payment.state)
      return (
        change.purchase?.amountAtomic === charged &&
        change.settled?.chargedAtomic === charged &&
        change.purchase.status === change.to &&
        change.entries?.length === 4
      )
    }),
  )
})

t.test('what is booked, owed or paid back is told in its own change, and nothing else is', async () => {
  fc.assert(
    fc.property(anyRule, ({ makers }) =>
      Object.values(makers).every((make) => {
        const change = made(make)
        if (change === undefined) return true
        const isOwed = (change.purchase?.status ?? change.purchaseStatus) === 'refund_due'
        const expected = [
          ...(change.purchase === undefined ? [] : ['purchase.confirmed']),
          ...(isOwed ? ['refund.due'] : []),
          ...(change.refund === undefined ? [] : ['refund.recorded']),
        ]
        return String((change.events ?? []).map(({ kind }) => kind)) === String(expected)
      }),
    ),
  )
})

t.test('what has to be on disk before anybody goes on is, and nothing else', async (t) => {
  const standing = (state: PaymentState) => ({ row: 1, purchaseId, lease: 1, state })
  const remote = { ...attempt, transaction: '' }
  const { purchase } = rules.sell(standing('settling'), saleOf(1n), attempt, false)
  const back = { network: asset.network, transaction: '0x', paymentKeys: [] }
  t.match(
    {
      'before the broadcast': rules.begin(standing('claimed'), attempt, null).durability,
      'stored bytes were never sent': rules.free(standing('settling')).durability,
      'nothing was stored': rules.free(standing('claimed')).durability,
      'an attempt that anybody can find': rules.sell(standing('settling'), saleOf(1n), attempt, false)
        .durability,
      'before the seller works': rules.sell(standing('settling'), saleOf(1n), attempt, true).durability,
      'only a facilitator knows': rules.sell(standing('settling'), saleOf(1n), remote, false).durability,
      'the seller is asked late': resume(standing('refund_due'), 2).durability,
      'paid back': payBack(standing('delivered'), purchase!, back).durability,
      delivered: rules.deliver(standing('settled')).durability,
      owed: rules.owe(standing('settled'), 'why').durability,
      open: rules.pend(standing('settling'), 'why').durability,
    },
    {
      'before the broadcast': 'flushed',
      'stored bytes were never sent': 'flushed',
      'nothing was stored': 'visible',
      'an attempt that anybody can find': 'visible',
      'before the seller works': 'flushed',
      'only a facilitator knows': 'flushed',
      'the seller is asked late': 'flushed',
      'paid back': 'flushed',
      delivered: 'flushed',
      owed: 'visible',
      open: 'visible',
    },
  )
})

t.test('nobody who was charged is left without an answer, a way back to it, or a debt', async () => {
  fc.assert(
    fc.property(left, outcome, fc.boolean(), (payment, how, hasMore) => {
      const change = rules.conclude({ ...payment, state: 'settled' }, how, hasMore ? response : undefined)
      if (how === 'delivered') return change?.to === 'delivered'
      if (change?.to === 'refund_due') return true
      const isKept = payment.hasResponse || change?.response === response
      return change?.to === 'settled' && change.takenBy === null && isKept
    }),
  )
})

t.test('a charged call of which the seller was not asked can be served when its buyer is back', async () => {
  fc.assert(
    fc.property(left, (payment) => {
      const change = rules.conclude({ ...payment, state: 'settled', hasResponse: false }, 'not_asked')
      return mayResume({ state: change!.to, errorReason: change!.errorReason ?? null })
    }),
  )
})

t.test('nothing is owed back of a call that cost nothing', async () => {
  fc.assert(
    fc.property(left, outcome, fc.boolean(), (payment, how, hasMore) => {
      const free = { ...payment, state: 'settled', chargedAtomic: 0n } as const
      const change = rules.conclude(free, how, hasMore ? response : undefined)
      return rules.expire(free).to === 'delivered' && change?.to !== 'refund_due'
    }),
  )
})

t.test('what was sent before the charge is delivered, even if its payment lands after a crash', async () => {
  fc.assert(
    fc.property(left, amount, (payment, charged) => {
      const sent = { ...payment, requestHash: sentFirst(payment.requestHash) }
      const change = made(() => land(sent, saleOf(charged)))
      const isRefund = payment.state === 'refunded'
      return (
        (change === undefined || isRefund || change.to === 'delivered') &&
        rules.expire({ ...sent, state: 'settled' }).to === 'delivered'
      )
    }),
  )
})

t.test('a call that ends leaves no open payment to nobody', async () => {
  fc.assert(
    fc.property(left, outcome, (payment, how) => {
      const claimed = rules.conclude({ ...payment, state: 'claimed' }, how)
      const settling = rules.conclude({ ...payment, state: 'settling' }, how)
      return (
        claimed?.to === 'rejected' &&
        (payment.hasBegun
          ? settling?.dueInMs === 0 && settling.to === 'settling'
          : settling?.to === 'rejected')
      )
    }),
  )
})

t.test('what lands for an invoice is never owed back, whatever became of the invoice', async () => {
  fc.assert(
    fc.property(left, amount, fc.boolean(), (payment, charged, isOver) => {
      const session = { ...payment, sessionId: 'invoice' }
      const sale = saleOf(charged, feesAccountOf('store'))
      const changes = [
        made(() => land(session, sale, isOver)),
        made(() => bookTransfer(session, sale, isOver)),
        made(() => rules.sell(session, sale, attempt, false)),
      ]
      return changes.every((change, i) => {
        if (change === undefined) return true
        const [from, owes] = change.entries!
        return (
          change.to === 'delivered' &&
          change.durability === 'flushed' &&
          (change.session?.does === 'confirm') === (i === 2 || !isOver) &&
          change.purchase?.feeAtomic === 0n &&
          from?.account === 'buyer:0x2' &&
          owes?.account === 'fees-owed:store' &&
          owes.amountAtomic === charged &&
          change.entries!.length === 2
        )
      })
    }),
  )
})

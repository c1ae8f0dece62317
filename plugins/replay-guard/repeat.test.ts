import { createHash } from 'node:crypto'
import t from 'tap'
import { landedLate, type PaymentState, paymentStates } from '../../core/domain/payment.ts'
import { startGateway } from '../../test/helpers/gateway.ts'
import { bring as bringRow, keptAnswer as kept } from '../../test/helpers/rows.ts'
import { startSeller } from '../../test/helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment, testNetwork } from '../../test/helpers/settler.ts'
import { requestHash } from './repeat.ts'

const payer = '0x2222222222222222222222222222222222222222'
const transactionOf = (nonce: string) => `0x${createHash('sha256').update(nonce).digest('hex')}`

const seller = await startSeller(t, 'hello')
let lowest = 0n
const settler = Object.defineProperty(createScriptedSettler(), 'minPriceAtomic', { get: () => lowest })
const gateway = await startGateway(t, {
  settlers: [settler],
  plugins: [
    { use: 'health', with: { probe: false } },
    { use: 'x402' },
    { use: 'replay-guard', with: { joinTimeoutMs: 50, replayWindowMs: 60_000 } },
    { use: 'upstream' },
    { use: 'purchase-record' },
  ],
  adapt: (ports) => ({ ...ports, clock: { now: () => Date.now() + ahead } }),
})
let ahead = 0
const addLink = (slug: string, settle: 'after' | 'before') =>
  gateway.addLink({ slug, url: seller.url, price: '0.10', settle })
const links = { after: await addLink('after', 'after'), before: await addLink('before', 'before') }
const another = await addLink('another', 'before')

interface Situation {
  readonly state: PaymentState
  /** What is known of it; `answer` is kept where it is charged. */
  readonly settle?: 'after' | 'before'
  readonly answer?: typeof kept | null
  readonly reason?: string
  readonly isLate?: true
  /** What the same call gets, and what any other call with the payment gets. */
  readonly same: Expected
  readonly other: Expected
}

interface Expected {
  readonly status: number
  readonly code?: string
  readonly reason?: string
  /** Words that have to be there. */
  readonly says?: RegExp
  /** Whether the transaction is known, and named. */
  readonly names?: boolean
  /** The message may tell the buyer to sign another payment: nothing was or will be charged, or this call is not paid for. */
  readonly mayPay?: true
}

const pending = { status: 503, code: 'settlement_pending', says: /do not pay again/i }
const used = { status: 409, code: 'payment_already_used' }
const inUse: Expected = { ...used, says: /in use for another call.*repeat that call/s, mayPay: true }
const bought: Expected = {
  ...used,
  says: /has bought another call.*repeat that call/s,
  names: true,
  mayPay: true,
}
const owed: Expected = {
  ...used,
  reason: 'charged_refund_owed',
  says: /charged.*owes you a refund.*do not pay again/is,
  names: true,
}
const over: Expected = { ...used, says: /delivered.*ask the seller/is, names: true }
const free: Expected = { status: 200 }
const served: Expected = { status: 200 }

const situations: Record<string, Situation> = {
  'claimed, and its call is at work': {
    state: 'claimed',
    same: { ...pending, says: /still at work.*do not pay again/is },
    other: inUse,
  },
  'rejected: nothing was sent': { state: 'rejected', same: free, other: free },
  settling: { state: 'settling', same: { ...pending, names: true }, other: { ...inUse, names: true } },
  pending: { state: 'pending', same: { ...pending, names: true }, other: { ...inUse, names: true } },
  'failed for good': {
    state: 'failed_final',
    reason: 'transaction_failed',
    same: { status: 400, code: 'invalid_payment', reason: 'transaction_failed', mayPay: true },
    other: { status: 400, code: 'invalid_payment', says: /nothing was charged/i, mayPay: true },
  },
  'settled, its answer kept and never handed out': { state: 'settled', same: served, other: bought },
  'settled first, and its answer still to come or lost': {
    state: 'settled',
    settle: 'before',
    answer: null,
    same: { ...used, says: /was charged.*do not pay again.*refund/is, names: true },
    other: { ...used, says: /was charged.*do not pay again.*refund/is, names: true },
  },
  'delivered, the answer kept': { state: 'delivered', same: served, other: bought },
  'delivered, the answer not kept': { state: 'delivered', answer: null, same: over, other: bought },
  'delivered, too long ago': { state: 'delivered', isLate: true, same: over, other: bought },
  'charged first, and the seller failed': {
    state: 'refund_due',
    settle: 'before',
    answer: null,
    reason: 'upstream_error',
    same: owed,
    other: owed,
  },
  'landed when nobody waited': {
    state: 'refund_due',
    settle: 'before',
    answer: null,
    reason: landedLate,
    same: served,
    other: { ...owed, says: /charged.*repeat the call.*owes you a refund/is },
  },
  'landed when nobody waited, too long ago': {
    state: 'refund_due',
    settle: 'before',
    answer: null,
    reason: landedLate,
    isLate: true,
    same: owed,
    other: owed,
  },
  'charged after the answer, and never delivered': {
    state: 'refund_due',
    reason: 'never_delivered',
    same: owed,
    other: owed,
  },
  refunded: {
    state: 'refunded',
    same: { ...used, reason: 'refunded', says: /has paid it back/, names: true, mayPay: true },
    other: { ...used, reason: 'refunded', says: /has paid it back/, names: true, mayPay: true },
  },
  reorged: {
    state: 'reorged',
    same: { ...pending, says: /left the chain.*do not pay again/is, names: true },
    other: { ...inUse, names: true },
  },
}

/** Brings a payment for `GET <link>` where the situation has it, by the same steps as a real one. */
async function bring(nonce: string, situation: Situation, own = links): Promise<string> {
  const { state, settle = 'after', answer = kept, reason } = situation
  const { purchaseId } = await bringRow(gateway.store.books, {
    ...{ state, nonce, payer, linkId: own[settle].id, storeId: gateway.storeId },
    ...{ transaction: transactionOf(nonce), requestHash: requestHash('GET', '', null) },
    answer: settle === 'after' || state === 'refund_due' ? answer : null,
    ...(reason !== undefined && { reason }),
  })
  return purchaseId
}

let count = 0
for (const [name, situation] of Object.entries(situations)) {
  for (const which of ['same', 'other link', 'other body'] as const) {
    t.test(`a payment that is ${name}, presented again for the ${which}`, async (t) => {
      const nonce = `n${count++}`
      const purchaseId = await bring(nonce, situation)
      const own = links[situation.settle ?? 'after'].url
      const expected = which === 'same' ? situation.same : situation.other
      const worked = settler.transfers.length
      ahead = situation.isLate ? 70_000 : 0
      const response = await fetch(which === 'other link' ? another.url : own, {
        headers: { 'payment-signature': scriptedPayment(nonce, '100000') },
        ...(which === 'other body' && { method: 'POST', body: 'another' }),
      })
      ahead = 0
      const text = await response.text()
      t.equal(response.status, expected.status, text)
      const receipt = JSON.parse(
        Buffer.from(response.headers.get('payment-response') ?? '', 'base64').toString(),
      )
      if (expected.status === 200) {
        t.equal(receipt.success, true)
        t.equal(settler.transfers.length - worked, situation.state === 'rejected' ? 1 : 0)
        return
      }
      t.equal(settler.transfers.length, worked, 'nothing is charged')
      const body = JSON.parse(text)
      const transaction = transactionOf(nonce)
      const { message, reason, retryable } = body.error
      t.match(body.error, {
        code: expected.code,
        reason: expected.reason ?? String,
        message: expected.says ?? /\S/,
      })
      t.equal(retryable, expected.status === 503)
      if (expected.mayPay === undefined) t.notMatch(message, /sign a new|needs a payment|further payment/i)
      if (expected.code !== 'invalid_payment') t.equal(body.purchaseId, purchaseId)
      t.equal(body.transaction, expected.names ? transaction : undefined)
      t.strictSame(receipt, {
        ...{ success: false, errorReason: reason, transaction: expected.names ? transaction : '' },
        ...{ network: testNetwork, payer, amount: '100000' },
      })
    })
  }
}

/** What sellers and the health monitor do to a link between a payment and its repeat. */
const changes = {
  'costs more': (id: string) => gateway.store.links.update(id, { price: '0.20' }, 1),
  'is paused': (id: string) =>
    gateway.store.links.setSuspension(
      id,
      { sinceMs: 1, reason: 'down', cooldownUntilMs: 2, permanent: false },
      1,
    ),
  'costs less than is settled': async (id: string) => {
    lowest = 100_001n
    await gateway.store.links.update(id, { title: 'now' }, 1)
  },
  'has no wallet': (_id: string) => gateway.store.stores.update(gateway.storeId, { payout: noWallet }, 1),
}
const noWallet = { base: null, solana: null }
const chargedOrSent = Object.entries(situations).filter(
  ([, { state, isLate }]) => !/claimed|rejected|failed/.test(state) && !isLate,
)
for (const [change, make] of Object.entries(changes)) {
  t.test(`a payment that was charged hears so on a link that ${change} by now`, async (t) => {
    const slug = (settle: string) => `${settle}-${change.replaceAll(' ', '-')}`
    const own = {
      after: await addLink(slug('after'), 'after'),
      before: await addLink(slug('before'), 'before'),
    }
    const nonces = chargedOrSent.map(() => `n${count++}`)
    for (const [i, [, situation]] of chargedOrSent.entries()) await bring(nonces[i]!, situation, own)
    for (const settle of ['after', 'before'] as const) {
      await make(own[settle].id)
      gateway.ports.changes.publish({ kind: 'store', username: 'demo' })
      gateway.ports.changes.publish({ kind: 'link', username: 'demo', slug: slug(settle) })
    }
    const call = (settle: 'after' | 'before', nonce: string) =>
      fetch(own[settle].url, { headers: { 'payment-signature': scriptedPayment(nonce, '100000') } })
    const worked = settler.transfers.length
    for (const [i, [name, { settle = 'after', same }]] of chargedOrSent.entries()) {
      const response = await call(settle, nonces[i]!)
      const text = await response.text()
      t.equal(response.status, same.status, `${name}: ${text}`)
      if (same.code !== undefined)
        t.match(JSON.parse(text).error, { code: same.code, message: same.says ?? String })
    }
    const fresh = await call('after', `n${count++}`)
    t.match(await fresh.json(), {
      error: { code: change === 'is paused' ? 'api_suspended' : 'invalid_payment' },
    })
    t.equal(settler.transfers.length, worked)
    lowest = 0n
  })
}

t.test('the table has every state', async (t) => {
  const seen = new Set(Object.values(situations).map(({ state }) => state))
  t.strictSame(paymentStates.toSorted(), [...seen].toSorted())
})

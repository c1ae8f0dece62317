import { createHash, randomBytes } from 'node:crypto'
import t from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import {
  evmPaymentKey,
  evmPaymentKeyPrefix,
  landedLate,
  type PaymentState,
  paymentStates,
  refundLeftChain,
} from '../../core/domain/payment.ts'
import { requestHash } from '../../core/plugin/requestHash.ts'
import { startGateway } from '../../test/helpers/gateway.ts'
import { bring as bringRow, storedResponse as kept, type WantedRow } from '../../test/helpers/rows.ts'
import { startSeller } from '../../test/helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment, testAsset, testNetwork } from '../../test/helpers/settler.ts'
import { boughtBy } from './running.ts'

const payer = '0x2222222222222222222222222222222222222222'
const transactionOf = (nonce: string) => `0x${createHash('sha256').update(nonce).digest('hex')}`

const seller = await startSeller(t, 'hello')
let lowest = 0n
const settler = Object.defineProperty(createScriptedSettler(), 'minPriceAtomic', { get: () => lowest })
const plugins = [
  { use: 'health', with: { probe: false } },
  { use: 'x402' },
  { use: 'replay-guard', with: { joinTimeoutMs: 50, replayWindowMs: 60_000 } },
  { use: 'upstream' },
  { use: 'purchase-record' },
]
const gateway = await startGateway(t, {
  settlers: [settler],
  plugins,
  adapt: (ports) => ({ ...ports, clock: { now: () => Date.now() + ahead } }),
})
let ahead = 0
const addLink = (slug: string, settle: 'after' | 'before') =>
  gateway.addLink({ slug, url: seller.url, price: '0.10', settle })
const links = { after: await addLink('after', 'after'), before: await addLink('before', 'before') }
const another = await addLink('another', 'before')

interface Situation {
  readonly state: PaymentState
  /** What is known of it; `answer` is stored if it is charged. */
  readonly settle?: 'after' | 'before'
  readonly response?: typeof kept | null
  readonly reason?: string
  readonly isLate?: true
  /** What the same call gets, and what any other call with the payment gets. */
  readonly same: Expected
  readonly other: Expected
  /** What the same call gets from elsewhere; absent: what it gets from its buyer. */
  readonly stranger?: Expected
}

interface Expected {
  readonly status: number
  readonly code?: string
  readonly reason?: string
  /** Words that must be in the message. */
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
const lost: Expected = {
  ...owed,
  says: /^(?!.*got no response).*charged.*refund left the chain.*owes you another refund.*do not pay again/is,
}
const elsewhere: Expected = { ...used, says: /for another caller.*do not pay again/is, names: true }
const over: Expected = { ...used, says: /delivered.*contact the seller/is, names: true }
const free: Expected = { status: 200 }
const served: Expected = { status: 200 }

const situations: Record<string, Situation> = {
  'claimed, and its call is at work': {
    state: 'claimed',
    same: { ...pending, says: /still running.*do not pay again/is },
    other: inUse,
  },
  'rejected: nothing was sent': { state: 'rejected', same: free, other: free },
  settling: { state: 'settling', same: { ...pending, names: true }, other: { ...inUse, names: true } },
  pending: { state: 'pending', same: { ...pending, names: true }, other: { ...inUse, names: true } },
  'failed for good': {
    state: 'failed_final',
    reason: 'transaction_failed',
    same: { status: 402, code: 'invalid_payment', reason: 'transaction_failed', mayPay: true },
    other: { status: 402, code: 'invalid_payment', says: /nothing was charged/i, mayPay: true },
  },
  'settled, its answer kept and never handed out': {
    state: 'settled',
    same: served,
    other: bought,
    stranger: elsewhere,
  },
  'settled first, and its answer still to come or lost': {
    state: 'settled',
    settle: 'before',
    response: null,
    same: { ...used, says: /was charged.*do not pay again.*refund/is, names: true },
    other: { ...used, says: /was charged.*do not pay again.*refund/is, names: true },
    stranger: elsewhere,
  },
  'delivered, the answer kept': { state: 'delivered', same: served, other: bought, stranger: elsewhere },
  'delivered, the answer not kept': {
    state: 'delivered',
    response: null,
    same: over,
    other: bought,
    stranger: elsewhere,
  },
  'delivered, too long ago': {
    state: 'delivered',
    isLate: true,
    same: over,
    other: bought,
    stranger: elsewhere,
  },
  'charged first, and the seller failed': {
    state: 'refund_due',
    settle: 'before',
    response: null,
    reason: 'upstream_error',
    same: owed,
    other: owed,
  },
  'landed when nobody waited': {
    state: 'refund_due',
    settle: 'before',
    response: null,
    reason: landedLate,
    same: served,
    other: { ...owed, says: /charged.*repeat the call.*owes you a refund/is },
    stranger: owed,
  },
  'landed when nobody waited, too long ago': {
    state: 'refund_due',
    settle: 'before',
    response: null,
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
  'refunded, and its refund left the chain': {
    state: 'refund_due',
    reason: refundLeftChain,
    same: lost,
    other: lost,
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

/** Brings a payment for `GET <link>` into the situation, by the same steps as a real one. */
async function bring(
  nonce: string,
  situation: Situation,
  own = links,
  more: Partial<WantedRow> = {},
): Promise<string> {
  const { state, settle = 'after', response = kept, reason } = situation
  const { purchaseId } = await bringRow(gateway.store.ledger, {
    state,
    nonce,
    payer,
    linkId: own[settle].id,
    storeId: gateway.storeId,
    transaction: transactionOf(nonce),
    requestHash: requestHash('GET', '', null),
    response: settle === 'after' || state === 'refund_due' ? response : null,
    ...(reason !== undefined && { reason }),
    ...more,
  })
  return purchaseId
}

let count = 0
for (const [name, situation] of Object.entries(situations)) {
  for (const which of ['same', 'same from elsewhere', 'other link', 'other body'] as const) {
    t.test(`a payment that is ${name}, presented again for the ${which}`, async (t) => {
      const nonce = `n${count++}`
      const isStranger = which === 'same from elsewhere'
      const call = requestHash('GET', '', null)
      const purchaseId = await bring(nonce, situation, links, {
        requestHash: isStranger ? boughtBy(call, 'of another caller') : call,
      })
      const own = links[situation.settle ?? 'after'].url
      const { same, other, stranger = same } = situation
      const expected = which === 'same' ? same : isStranger ? stranger : other
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
        success: false,
        errorReason: reason,
        transaction: expected.names ? transaction : '',
        network: testNetwork,
        payer,
        amount: '100000',
      })
    })
  }
}

t.test('what was bought is handed out although the link can not be called any more', async (t) => {
  const own = { after: await addLink('dead-after', 'after'), before: await addLink('dead-before', 'before') }
  for (const { id } of Object.values(own))
    await gateway.store.links.update(id, { url: 'http://10.0.0.1/' }, 1)
  const call = async (settle: 'after' | 'before', headers: Record<string, string>) => {
    const response = await fetch(own[settle].url, { headers })
    return { status: response.status, text: await response.text() }
  }
  const worked = settler.transfers.length
  for (const name of ['delivered, the answer kept', 'settled, its answer kept and never handed out']) {
    const nonce = `n${count++}`
    await bring(nonce, situations[name]!, own)
    const { status, text } = await call('after', { 'payment-signature': scriptedPayment(nonce, '100000') })
    t.equal(status, 200, text)
  }
  const late = `n${count++}`
  await bring(late, situations['landed when nobody waited']!, own)
  const paid = { 'payment-signature': scriptedPayment(late, '100000') }
  t.match(await call('before', paid), {
    status: 502,
    text: /You were charged\. The seller owes you a refund/,
  })
  t.match(await call('before', paid), { status: 409, text: /charged_refund_owed/ })
  const fresh = { 'payment-signature': scriptedPayment(`n${count++}`, '100000') }
  for (const headers of [fresh, {}])
    t.match(await call('after', headers), { status: 502, text: /You were not charged/ })
  t.equal(settler.transfers.length, worked)
})

t.test(
  'what was bought below a link is handed out although there is nothing below it any more',
  async (t) => {
    const own = { after: await addLink('leads', 'after'), before: links.before }
    const nonce = `n${count++}`
    const requestHashBelow = requestHash('GET', '/below', null)
    await bring(nonce, situations['delivered, the answer kept']!, own, { requestHash: requestHashBelow })
    await gateway.store.links.update(own.after.id, { linkType: 'standard' }, 1)
    const worked = settler.transfers.length
    const call = (headers: Record<string, string>) => fetch(`${own.after.url}/below`, { headers })
    t.equal((await call({ 'payment-signature': scriptedPayment(nonce, '100000') })).status, 200)
    for (const headers of [{ 'payment-signature': scriptedPayment(`n${count++}`, '100000') }, {}])
      t.match(await (await call(headers)).json(), { error: { code: 'link_not_found' } })
    t.equal(settler.transfers.length, worked)
  },
)

/** What sellers and the health monitor do to a link between a payment and its repeat. */
interface Change {
  make(id: string, slug: string): Promise<unknown>
  /** What an unused payment gets; `served` if it buys a call. */
  readonly fresh: string
  /** The seller's API can no longer be called for it: what landed after its call had ended stays owed. */
  readonly isGone?: true
}

const noWallet = { base: null, solana: null }
const { links: stored, stores } = gateway.store
const changes: Record<string, Change> = {
  'costs more': { make: (id) => stored.update(id, { price: '0.20' }, 1), fresh: 'invalid_payment' },
  'is paused': {
    make: (id) =>
      stored.setSuspension(id, { sinceMs: 1, reason: 'down', cooldownUntilMs: 2, permanent: false }, 1),
    fresh: 'api_suspended',
  },
  'costs less than is settled': {
    async make(id) {
      lowest = 100_001n
      await stored.update(id, { title: 'now' }, 1)
    },
    fresh: 'invalid_payment',
  },
  'is deleted': { make: (id) => stored.deactivate(id, 1), fresh: 'link_not_found', isGone: true },
  'is deleted and made anew': {
    async make(id, slug) {
      await stored.deactivate(id, 1)
      await addLink(slug, slug.startsWith('after') ? 'after' : 'before')
    },
    fresh: 'served',
    isGone: true,
  },
  'has a secret address': {
    make: (id) => stored.update(id, { isStealth: true, privateSlug: id }, 1),
    fresh: 'link_not_found',
    isGone: true,
  },
  // The last one: the others' payments are for this wallet.
  'has no wallet': {
    make: () => stores.update(gateway.storeId, { payout: noWallet }, 1),
    fresh: 'invalid_payment',
  },
}

/** What a repeat gets for a payment that can no longer be served. */
const expectedOf = ({ same, reason }: Situation, isGone = false): Expected =>
  isGone && reason === landedLate && same === served ? owed : same

const chargedOrSent = Object.entries(situations).filter(
  ([, { state, isLate }]) => !/claimed|rejected|failed/.test(state) && !isLate,
)

for (const [change, { make, fresh, isGone }] of Object.entries(changes)) {
  t.test(`a payment that was charged hears so on a link that ${change} by now`, async (t) => {
    const slug = (settle: string) => `${settle}-${change.replaceAll(' ', '-')}`
    const own = {
      after: await addLink(slug('after'), 'after'),
      before: await addLink(slug('before'), 'before'),
    }
    const nonces = chargedOrSent.map(() => `n${count++}`)
    for (const [i, [, situation]] of chargedOrSent.entries()) await bring(nonces[i]!, situation, own)
    for (const settle of ['after', 'before'] as const) await make(own[settle].id, slug(settle))
    const call = (settle: 'after' | 'before', nonce: string, query = '') =>
      fetch(own[settle].url + query, { headers: { 'payment-signature': scriptedPayment(nonce, '100000') } })
    const worked = settler.transfers.length
    const asked = seller.requests.length
    for (const [i, [name, situation]] of chargedOrSent.entries()) {
      const { settle = 'after' } = situation
      const expected = expectedOf(situation, isGone)
      const response = await call(settle, nonces[i]!)
      const text = await response.text()
      t.equal(response.status, expected.status, `${name}: ${text}`)
      if (expected.code !== undefined)
        t.match(JSON.parse(text).error, { code: expected.code, message: expected.says ?? String })
      const other = await call(settle, nonces[i]!, '?another')
      t.ok(other.status === 409 || other.status === 503, `${name}, for another call: ${await other.text()}`)
    }
    if (isGone) t.equal(seller.requests.length, asked, 'the seller is not asked for a link that is gone')
    t.equal(settler.transfers.length, worked)
    const first = await call('after', `n${count++}`)
    if (fresh === 'served') t.equal(first.status, 200)
    else t.match(await first.json(), { error: { code: fresh } })
    t.equal(settler.transfers.length - worked, fresh === 'served' ? 1 : 0)
    lowest = 0n
  })
}

t.test('an address that never had a link answers a payment that bought nothing as one without', async (t) => {
  const call = async (headers: Record<string, string>) => {
    const response = await fetch(`${gateway.url}/api/link/demo/never`, { headers })
    const { error } = JSON.parse(await response.text())
    return { status: response.status, ...error, requestId: null }
  }
  const unpaid = await call({})
  t.match(unpaid, { status: 404, code: 'link_not_found' })
  for (const payment of [scriptedPayment(`n${count++}`, '100000'), 'none'])
    t.strictSame(await call({ 'payment-signature': payment }), unpaid)
})

t.test('what was bought at a secret address is told there only', async (t) => {
  const slug = 'once-public'
  const { id } = await addLink(slug, 'after')
  const nonce = `n${count++}`
  await bring(nonce, situations['delivered, the answer kept']!, { ...links, after: { ...links.after, id } })
  const secret = `secret-${id}`
  await stored.update(id, { isStealth: true, privateSlug: secret }, 1)
  const call = (address: string) => {
    for (const one of [slug, secret])
      gateway.ports.changes.publish({ kind: 'link', username: 'demo', slug: one })
    const headers = { 'payment-signature': scriptedPayment(nonce, '100000') }
    return fetch(`${gateway.url}/api/link/${address}`, { headers })
  }
  // A settled payment is public on chain.
  const stranger = await call('nobody/anything')
  t.equal(stranger.status, 409)
  t.match(await stranger.json(), { error: { code: 'payment_already_used' } })
  t.equal((await call(`demo/${slug}`)).status, 200)
  t.equal((await call(`demo/${secret}`)).status, 200)
  await stored.deactivate(id, 1)
  t.equal((await call('nobody/anything')).status, 409, 'deleted')
  t.equal((await call(`demo/${secret}`)).status, 200)
})

t.test('the table has every state', async (t) => {
  const seen = new Set(Object.values(situations).map(({ state }) => state))
  t.strictSame(paymentStates.toSorted(), [...seen].toSorted())
})

for (const [what, settlers] of [
  ['network', []],
  ['network, where another one is taken', [createScriptedSettler('eip155:8453')]],
] as const) {
  t.test(`a payment that was charged hears so on a gateway without its ${what}`, async (t) => {
    const elsewhere = await startGateway(t, {
      settlers,
      store: gateway.store,
      plugins,
      // It has no settler, but the network's asset: like a gateway whose facilitator is down.
      ...(settlers.length === 0 && {
        assets: builtInAssets.filter((asset) => asset.network === testNetwork),
      }),
    })
    const own = {
      after: await addLink(`without-${settlers.length}`, 'after'),
      before: await addLink(`without-${settlers.length}-first`, 'before'),
    }
    const signed = (version: 1 | 2, nonce: string, signature: string) => {
      const payload = { signature, authorization: { from: payer, nonce, to: payer, value: '100000' } }
      return version === 2
        ? { x402Version: 2, accepted: { scheme: 'exact', network: testNetwork, asset: testAsset }, payload }
        : { x402Version: 1, scheme: 'exact', network: 'base-sepolia', payload }
    }
    const call = async (payment: object, settle: 'after' | 'before' = 'after') => {
      const headers = { 'payment-signature': Buffer.from(JSON.stringify(payment)).toString('base64') }
      const response = await fetch(elsewhere.url + own[settle].path, { headers })
      return { status: response.status, body: JSON.parse(await response.text()) }
    }
    // There is no other offer where nothing can be paid.
    const refused = (await fetch(elsewhere.url + own.after.path)).status === 402 ? 402 : 400
    for (const [name, situation] of chargedOrSent) {
      const nonce = `0x${randomBytes(32).toString('hex')}`
      await bring(nonce, situation, own, {
        key: evmPaymentKey(evmPaymentKeyPrefix(testNetwork, testAsset), payer, nonce),
        payload: JSON.stringify(signed(2, nonce, '0xaa')),
      })
      for (const version of [1, 2] as const) {
        const { same: expected, settle } = situation
        const { status, body } = await call(signed(version, nonce, '0xaa'), settle)
        t.equal(status, expected.status, `${name}: ${JSON.stringify(body)}`)
        if (expected.code !== undefined) t.match(body.error, { code: expected.code })
      }
      const stranger = await call(signed(2, nonce, '0xbb'))
      t.match(
        stranger,
        { status: refused, body: { error: { reason: 'invalid_network' } } },
        `${name}: a stranger`,
      )
    }
    t.match(await call(signed(2, `0x${'0'.repeat(64)}`, '0xaa')), { status: refused })
    t.match(await call({ ...signed(2, '', ''), payload: { authorization: null } }), { status: refused })
  })
}

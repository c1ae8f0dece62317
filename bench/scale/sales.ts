import { eventBody } from '../../admin-api/webhooks/eventBody.ts'
import { builtInAssets } from '../../core/domain/asset.ts'
import type { Link } from '../../core/domain/link.ts'
import { parseAmount } from '../../core/domain/money.ts'
import { evmPaymentKey, evmPaymentKeyPrefix } from '../../core/domain/payment.ts'
import { SESSION_LIFETIME_MS } from '../../core/domain/session.ts'
import { checksumAddress } from '../../core/evm/hex.ts'
import { type Landed, purchaseOf } from '../../core/payments/purchase.ts'
import { payBack } from '../../core/payments/reconciliation.ts'
import { begin, deliver, owe, sell } from '../../core/payments/rules.ts'
import type { Lease } from '../../core/ports/store/leases.ts'
import type { PaymentChange, PutOff } from '../../core/ports/store/ledger.ts'
import { DELIVERY_LEASE_MS, EVENT_RETENTION_MS } from '../../core/ports/store/webhooks.ts'
import { domain, network, asset as token } from '../servers/offer.ts'
import type { DirectStore } from './directStore.ts'
import type { Seeded } from './seeded.ts'
import { DAY_MS, type Seller } from './sellers.ts'

/** So long ago the first of the sales was made. */
export const SOLD_FOR_DAYS = 365
/** How long the recovery keeps answers. */
const RESPONSE_RETENTION_MS = DAY_MS
/** How long the recovery keeps what was signed. */
const SIGNED_RETENTION_MS = 7 * DAY_MS
/** Every so many sales are… */
const each = { review: 30, refunded: 400, owed: 900, session: 100 }
const BUYERS = 50_000

const usdc = builtInAssets.find((one) => one.network === network && one.address === token)!
const keyPrefix = evmPaymentKeyPrefix(network, token)
const response = {
  status: 200,
  headers: ['Content-Type', 'application/json', 'Date', new Date(0).toUTCString()],
  body: Buffer.alloc(1_024, 'a'),
}

export interface Selling {
  readonly direct: DirectStore
  readonly seeded: Seeded
  readonly sellers: readonly Seller[]
  readonly count: number
  /** Turned from sale to sale, up to `nowMs`. */
  readonly clock: { atMs: number }
  readonly nowMs: number
  /** Of the purchase's review token: what is stored. */
  tokenHash(purchaseId: string): string
  progress(done: number): void
}

/**
 * Sells as calls and recovery do, by the same rules: claimed, settling, settled, delivered, and looked up on
 * chain; some through a payment session, some refunded or owed. A fifth of all sales is the first store's.
 * Its endpoint, and one in twenty of the others', receives the events of the last thirty days.
 */
export async function sellAll(selling: Selling): Promise<void> {
  const { direct, seeded, sellers, count, clock, nowMs, progress } = selling
  const { ledger } = direct
  const lease = (await direct.leases.take('process:filler', 600_000))!
  const others = sellers.slice(1)
  const firstMs = nowMs - SOLD_FOR_DAYS * DAY_MS
  const listenFromMs = nowMs - EVENT_RETENTION_MS + DAY_MS
  let isListening = false
  let looked: PutOff[] = []
  let forgottenUpTo = 0
  for (let n = 0; n < count; n++) {
    clock.atMs = Math.floor(firstMs + ((nowMs - 60_000 - firstMs) * n) / count)
    if (!isListening && clock.atMs >= listenFromMs) {
      isListening = true
      await listen(selling)
    }
    const seller =
      others.length === 0 || seeded.random() < 0.2 ? sellers[0]! : others[seeded.few(others.length)]!
    const sold = await sellOne(selling, lease, n, seller)
    looked.push({ ...sold, afterMs: null, tries: 0, reason: seenOnce })
    if (looked.length === 500) {
      await ledger.putOff(looked)
      looked = []
      forgottenUpTo = await forget(forgottenUpTo)
      if (isListening) await deliverAll(direct, clock)
    }
    if (n % 10_000 === 0) progress(n)
  }
  await ledger.putOff(looked)
  clock.atMs = nowMs
  if (!isListening) await listen(selling)
  await forget(forgottenUpTo)
  if (isListening) await deliverAll(direct, clock)
  await direct.leases.release(lease)

  /** As the recovery does, all the time: room that is given back is used again. */
  async function forget(upTo: number): Promise<number> {
    for (;;) {
      const last = await ledger.forgetSigned(clock.atMs - SIGNED_RETENTION_MS, upTo, 500)
      if (last === 0) return upTo
      upTo = last
    }
  }
}

/** What the recovery leaves behind when it has seen a transfer on chain for the second time. */
const seenOnce = 'seen once'

async function sellOne(
  { direct, seeded, clock, nowMs, tokenHash }: Selling,
  lease: Lease,
  n: number,
  { store, paid }: Seller,
): Promise<Pick<PutOff, 'row' | 'state'>> {
  const { ledger } = direct
  const link = paid[seeded.few(paid.length)]!
  const atMs = clock.atMs
  const purchaseId = purchaseIdOf(atMs, seeded.hex('purchase', n))
  const sessionId = n % each.session === each.session - 1 ? await openSession(n, link) : null
  // As buyers' clients spell their address.
  const payer = checksumAddress(`0x${seeded.hex('buyer', seeded.few(BUYERS)).slice(0, 40)}`)
  const nonce = `0x${seeded.hex('nonce', n)}`
  const payTo = store.payout.base!
  const amountAtomic = parseAmount(link.price, usdc.decimals)
  const payment = {
    key: evmPaymentKey(keyPrefix, payer, nonce),
    network,
    asset: token,
    payer,
    nonce,
    payTo,
    amountAtomic,
    sessionId,
    purchaseId,
    linkId: link.id,
    storeId: store.id,
    scheme: 'exact',
    lease: lease.id,
    validBeforeMs: (Math.floor(atMs / 1_000) + 300) * 1_000,
    // The hash of the call, and its caller's mark.
    requestHash: `${seeded.hex('request', n)}:${Buffer.from(seeded.hex('caller', payer), 'hex').toString('base64url').slice(0, 22)}`,
  }
  const claimed = await ledger.claim({
    ...payment,
    payload: payloadOf(payment, seeded.hex('signature', n)),
  })
  if (!claimed.won) throw new Error(`Expected sale ${n} to be new, got one that is ${claimed.record.state}.`)
  const held = { row: claimed.row, purchaseId, lease: lease.id, sessionId }
  const transaction = `0x${seeded.hex('transaction', n)}`
  // 400 bytes: an EIP-1559 transaction with an authorised transfer.
  const bytes = `0x${seeded.hex('bytes', n).repeat(13).slice(0, 800)}`
  const attempt = { settler: `evm:${network}:${payTo}`, bytes, transaction, sequence: String(n) }
  const kept = atMs > nowMs - RESPONSE_RETENTION_MS && sessionId === null ? response : null
  await apply(n, begin(held, attempt, kept))
  const landed: Landed = { transaction, event: '7', block: 1_000_000 + n, chargedAtomic: amountAtomic }
  const sale = { payment, landed, asset: usdc, reviewTokenHash: tokenHash(purchaseId), atMs }
  await apply(n, sell(held, sale, attempt, false))
  const standing = { ...held, lease: null, state: 'delivered' } as const
  if (sessionId === null) await apply(n, deliver(held))
  if (n % each.review === 7) {
    await direct.reviews.add({
      id: seeded.uuid('review', n),
      purchaseId,
      linkId: link.id,
      storeId: store.id,
      wallet: payer,
      isPositive: n % 8 !== 0,
      comment: n % 2 === 0 ? 'Answers within a second, and is right.' : null,
      createdAtMs: atMs,
    })
  }
  if (sessionId !== null) return standing
  if (n % each.owed === 11) {
    await apply(n, owe(standing, 'upstream_error'))
    return { ...standing, state: 'refund_due' }
  }
  if (n % each.refunded === 13) {
    const back = { network, transaction: `0x${seeded.hex('refund', n)}`, paymentKeys: [] }
    await apply(n, payBack(standing, purchaseOf(sale).purchase, back))
    return { ...standing, state: 'refunded' }
  }
  return standing

  async function openSession(of: number, { id: linkId, price, title }: Link): Promise<string> {
    const id = seeded.uuid('session', of)
    await direct.sessions.create({
      id,
      storeId: store.id,
      linkId,
      price,
      title,
      description: '',
      secretHash: seeded.hex('secret', of),
      asks: null,
      payout: store.payout,
      successUrl: 'https://shop.test/done',
      cancelUrl: null,
      allowedOrigin: null,
      clientReferenceId: `order-${of}`,
      metadata: { basket: of },
      idempotency: null,
      createdAtMs: atMs,
      expiresAtMs: atMs + SESSION_LIFETIME_MS,
    })
    return id
  }

  async function apply(of: number, change: PaymentChange): Promise<void> {
    if (!(await ledger.apply(change))) throw new Error(`Expected sale ${of} to become ${change.to}.`)
  }
}

/** As {@link newPurchaseId} makes it, of bytes that are the same in every run. */
function purchaseIdOf(atMs: number, hex: string): string {
  const time = atMs.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hex.slice(0, 3)}-a${hex.slice(3, 6)}-${hex.slice(6, 18)}`
}

interface Signed {
  readonly payer: string
  readonly nonce: string
  readonly payTo: string
  readonly amountAtomic: bigint
  readonly validBeforeMs: number
}

/** What is kept of what the reference client sends for an exact payment of version 2. */
function payloadOf({ payer, nonce, payTo, amountAtomic, validBeforeMs }: Signed, hex: string): string {
  const amount = amountAtomic.toString()
  const { name, version } = domain
  return JSON.stringify({
    x402Version: 2,
    scheme: 'exact',
    network,
    accepted: {
      scheme: 'exact',
      network,
      amount,
      asset: token,
      payTo,
      maxTimeoutSeconds: 300,
      extra: { name, version },
    },
    payload: {
      signature: `0x${hex}${hex}1b`,
      authorization: {
        from: payer,
        to: payTo,
        value: amount,
        nonce,
        validAfter: '0',
        validBefore: String(validBeforeMs / 1_000),
      },
    },
  })
}

async function listen({ direct, seeded, sellers, clock }: Selling): Promise<void> {
  for (const [i, { store, links }] of sellers.entries()) {
    if (i % 20 !== 0) continue
    await direct.webhooks.create(
      {
        id: seeded.uuid('webhook', i),
        storeId: store.id,
        description: 'The shop',
        createdAtMs: clock.atMs,
        url: new URL('/hook', links[0]!.url).href,
        salt: seeded.hex('salt', i).slice(0, 32),
        kinds: ['purchase.confirmed', 'payment.confirmed', 'refund.due', 'review.created'],
      },
      10,
    )
  }
}

/** Sends what the outbox holds to endpoints that answer at once. */
async function deliverAll(direct: DirectStore, clock: { readonly atMs: number }): Promise<void> {
  const { webhooks } = direct
  for (;;) {
    const events = await webhooks.awaitingFanOut(500)
    const bodies = events.map(async (event) => ({ seq: event.seq, body: await eventBody(direct, event) }))
    await webhooks.fanOut(await Promise.all(bodies), clock.atMs)
    if (events.length < 500) break
  }
  for (;;) {
    const taken = await webhooks.take({ limit: 256, nowMs: clock.atMs + DELIVERY_LEASE_MS })
    for (const { id, taking } of taken) {
      const done = { atMs: clock.atMs, status: 200, latencyMs: 12, error: null, response: '' }
      await webhooks.note({ id, taking, try: done, to: 'delivered' })
    }
    if (taken.length === 0) return
  }
}

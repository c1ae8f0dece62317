import { isChargedAtEnd, type Link } from '../../core/domain/link.ts'
import { type PaymentRecord, type StoredResponse, sentFirst } from '../../core/domain/payment.ts'
import { type Claimant, claimOrFollow } from '../../core/payments/claimLoop.ts'
import type { DeliverablePayment, DeliveryOutcome, PaidCall, PaidFor } from '../../core/payments/payments.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { boughtByAnother, inUse, notCompared, wasDelivered } from '../../core/payments/refusals.ts'
import { type ReceiptForm, storedReceipt, storedReply } from '../../core/payments/storedReply.ts'
import {
  type Exchange,
  gatewayPlugin,
  handled,
  type Reply,
  type RouteHooks,
} from '../../core/plugin/gateway.ts'
import { callHash } from '../../core/plugin/requestHash.ts'
import { options } from './options.ts'
import { pricedHeadersOf, withPricedHeaders } from './pricedHeaders.ts'
import { judgeRepeat, LargeRepeats, linkOfRepeat, noMemory, notInTime } from './repeat.ts'
import {
  boughtBy,
  boughtByLong,
  callerMark,
  createRunning,
  isSameCaller,
  join,
  mayBeSameCall,
  runningOf,
  sharedOf,
  whileThere,
} from './running.ts'

/**
 * How long a request for a different call waits until the outcome of a charged call is written, in ms. The first call writes its
 * outcome as soon as it ends.
 */
const NOTED_MS = 1_000

/** Maximum size of a stored response that is sent again without limits on memory and rate, in bytes. */
const SMALL_BYTES = 65_536
/** How long a repeat of a larger response waits for memory, in ms. */
const MEMORY_MS = 10_000
/** How long a client may pause while it reads a larger response, in ms. */
const IDLE_MS = 60_000

/**
 * Lets a payment buy only one call. The first request claims the payment by one durable insert. A later request with the same
 * payment gets the first one's response if it is the same call, and an error if it is a different call. The seller never works
 * twice for one payment. After the call, the plugin records whether the buyer received the response.
 */
export default gatewayPlugin({
  name: 'replay-guard',
  api: 1,
  options,
  needs: ['payments', 'links', 'service', 'sealer', 'clock', 'responseBuffer', 'counters'],
  slots: {
    // If the call is served late, the claim phase already sets settlement and purchase.
    claim: { reads: ['payment'], writes: ['claim'], mayWrite: ['settlement', 'purchase'] },
    forward: { mayRead: ['claim'] },
    deliver: { mayRead: ['payment', 'claim', 'response', 'settlement', 'purchase'] },
  },
  setup({ maxBodyBytes, joinTimeoutMs, replayWindowMs, repeatFrom }, { ports }) {
    const { payments, links, service, sealer, clock, responseBuffer, counters } = ports
    const notes = createPurchaseNotes(sealer, service.metadataField)
    const rules = { replayWindowMs, now: () => clock.now() }
    const running = runningOf(payments)
    const largeRepeats = new LargeRepeats(counters, clock)
    /** Payments whose stored response a call is sending to its buyer for the first time. */
    const firstDeliveries = new WeakMap<Exchange, DeliverablePayment>()

    /** @param names names of the headers that decide the price of the call */
    async function claim(x: Exchange, names: readonly string[] = []): Promise<Reply | undefined> {
      // A channel's voucher pays for one call by itself, and the ledger has no row for it.
      if (x.channelCall !== null) return
      const { key } = x.payment!.identity
      const hashing = callHash(x, maxBodyBytes)
      const hash = hashing instanceof Promise ? await hashing : hashing
      const mark = repeatFrom === 'anywhere' ? null : callerMark(x, sealer)
      const startedMs = performance.now()
      const bought = withPricedHeaders(hash === null ? boughtByLong() : boughtBy(hash, mark), names, x)
      const call: PaidFor = {
        linkId: x.link.id,
        sessionId: null,
        storeId: x.link.storeId,
        requestHash: isChargedAtEnd(x.link.pricing) ? sentFirst(bought) : bought,
        settlesFirst: x.link.settle === 'before',
      }
      if (x.transport.isClosed) return handled
      if (running[key] !== undefined) return claimOrFollow(claimantOf(x, call, hash, mark, startedMs))
      const claimed = await tryClaim(x, call)
      if ('won' in claimed) return begin(x, claimed.won, call)
      return claimOrFollow(claimantOf(x, call, hash, mark, startedMs), claimed.lost)
    }

    /** How this call competes for a payment that another request has claimed, or is claiming in this process. */
    function claimantOf(
      x: Exchange,
      call: PaidFor,
      hash: string | null,
      mark: string | null,
      startedMs: number,
    ): Claimant<Reply | undefined> {
      const { key } = x.payment!.identity
      const leftMs = (ofMs: number) => startedMs + ofMs - performance.now()
      // A payment that was never sent to the chain is known only to its buyer. `isBuyers` stays true once that was seen.
      let isBuyers = false
      return {
        async judge(seen) {
          // The caller has disconnected, so neither another call nor the database is waited for.
          if (x.transport.isClosed) return { result: handled }
          const first = running[key]
          if (first !== undefined && (seen === undefined || leftMs(joinTimeoutMs) > 0)) {
            if ((await linkOfRepeat(x, first, hash, links)) === undefined)
              throw mayBeSameCall(first.requestHash, hash) ? notCompared(first.paid) : inUse(first.paid)
            isBuyers ||= !first.paid.mayBeCharged || isSameCaller(first.requestHash, mark, x, sealer)
            if (!isBuyers) throw boughtByAnother(first.paid)
            const joined = await join(first, x, leftMs(joinTimeoutMs))
            if (joined !== undefined) {
              if (joined.isUndelivered) firstDeliveries.set(x, first.paid)
              x.upstreamStatus = joined.upstreamStatus
              return { result: joined.reply }
            }
            return x.transport.isClosed ? { result: handled } : 'claim'
          }
          if (seen === undefined) return 'claim'
          const link = await linkOfRepeat(x, seen, hash, links)
          isBuyers ||= seen.state === 'claimed' || isSameCaller(seen.requestHash, mark, x, sealer)
          const decision = judgeRepeat(seen, link, isBuyers, rules, mayBeSameCall(seen.requestHash, hash))
          if (decision === 'claim') return decision
          if (decision === 'stored') return { result: await stored(x, seen, link!) }
          if (decision === 'resume' && (await resume(x, seen, call))) return { result: undefined }
          // Another request took over the payment first. It is being served now, or the seller will soon owe its response again.
          const isLong = decision === 'wait' && link !== undefined
          return { seen, waitMs: leftMs(isLong ? joinTimeoutMs : Math.min(joinTimeoutMs, NOTED_MS)) }
        },
        claim: () => tryClaim(x, call),
        won: (paid) => begin(x, paid, call),
        changed: (seen, waitMs) => whileThere(x, payments.changed(seen, waitMs)),
        late(seen) {
          if (x.transport.isClosed) return handled
          throw notInTime(seen, running[key] !== undefined)
        },
      }
    }

    async function tryClaim(x: Exchange, call: PaidFor): ReturnType<typeof payments.claim> {
      const payment = x.payment!
      if (payment.unclaimable === null) return payments.claim(payment, call)
      // The payment cannot be claimed now, but may have bought this call earlier.
      const record = await payments.find(payment.identity.key)
      if (record === undefined || record.state === 'rejected') throw payment.unclaimable
      return { lost: record }
    }

    /** Continues with the next phase, because this call has claimed the payment. */
    function begin(x: Exchange, paid: PaidCall, call: PaidFor): undefined {
      if (x.isOver) payments.deliver(paid, 'not_charged')
      else work(x, paid, call)
    }

    /** @returns false if another request took over the payment first */
    async function resume(x: Exchange, record: PaymentRecord, call: PaidFor): Promise<boolean> {
      const paid = await payments.resume(record, x.payment!, call)
      if (paid === undefined) return false
      if (x.isOver) {
        payments.deliver(paid, 'not_asked')
        return true
      }
      work(x, paid, call)
      // Sets what verify, settle and record would have set, so that the call continues to the seller.
      x.settlement = storedReceipt(record, formOf(x))
      x.purchase = notes.of(record.purchaseId, x.link.responseMode === 'wrap')
      return true
    }

    function work(x: Exchange, paid: PaidCall, { requestHash }: PaidFor): void {
      x.claim = paid
      running[x.payment!.identity.key] = createRunning(paid, x.link.id, requestHash)
    }

    async function stored(x: Exchange, record: PaymentRecord, link: Link): Promise<Reply> {
      // Checks the limits before the response is read from the database again.
      await largeRepeats.admit(x, record)
      const response = await payments.responseOf(record)
      // The database deleted the response after the row was read.
      if (response === undefined) throw wasDelivered(record)
      const bytes = response.body.length
      if (bytes > SMALL_BYTES) {
        if (largeRepeats.note(record, bytes)) await largeRepeats.admit(x, record)
        await hold(x, record, bytes)
      }
      if (x.transport.isClosed) return handled
      x.transport.limitIdle(IDLE_MS)
      if (record.state === 'settled') firstDeliveries.set(x, record)
      return storedReply(record, link, response, notes, formOf(x))
    }

    /**
     * Reserves memory for a repeated response. The limit is separate from the limit for new responses, because many clients may
     * read repeated responses slowly.
     */
    async function hold(x: Exchange, record: PaymentRecord, bytes: number): Promise<void> {
      if (x.transport.isClosed) return
      const held = responseBuffer.open('repeats')
      // If the caller disconnects while it waits, it loses its position in the queue.
      x.transport.onClose(() => held.release())
      if (!(await held.growWithin(bytes, MEMORY_MS))) {
        if (x.transport.isClosed) return
        throw noMemory(record)
      }
      held.leaves(() => x.transport.cutOff())
    }

    function end(x: Exchange, paid: PaidCall): void {
      const { key } = x.payment!.identity
      const first = running[key]
      delete running[key]
      const outcome = outcomeOf(x)
      payments.deliver(paid, outcome, responseToKeep(x), x.errorCode ?? undefined)
      first?.finish(sharedOf(x, outcome === 'delivered'))
    }

    /**
     * Checks that this process still owns the payment. If the process was suspended, another process may have taken over the
     * payment and called the seller's API.
     */
    const forward = (x: Exchange): void | Promise<void> =>
      x.claim === null ? undefined : payments.assertHeld(x.claim)

    function deliver(x: Exchange): void {
      if (x.claim !== null) return end(x, x.claim)
      const paid = firstDeliveries.get(x)
      // A caller that disconnected before the response arrived may come back for the response.
      if (paid !== undefined && !x.isUnsent) payments.deliver(paid, 'delivered')
    }

    const paid: RouteHooks = { claim: (x) => claim(x), forward, deliver }

    return {
      route({ isPaid, link }) {
        if (!isPaid) return undefined
        const names = pricedHeadersOf(link.pricing)
        return names.length === 0 ? paid : { ...paid, claim: (x) => claim(x, names) }
      },
    }
  },
})

const formOf = ({ payment, receiptSigning }: Exchange): ReceiptForm => ({
  version: payment!.payload.x402Version,
  signing: receiptSigning,
})

/** The outcome of the call that owned the payment. The database stores it with the response. */
function outcomeOf(x: Exchange): DeliveryOutcome {
  const { purchase, meter, response, upstreamOutcome, errorCode } = x
  if (purchase === null) return 'not_charged'
  // The buyer is charged only for what was sent before the response was broken off.
  if (meter !== null && meter.ended !== 'whole') return 'delivered'
  // A charged call got no slot at the seller, or its buyer disconnected before the gateway called the seller's API.
  if (upstreamOutcome === null && errorCode === 'upstream_busy') return 'not_asked'
  // A disconnected buyer is not the seller's failure.
  if (upstreamOutcome !== 'buyer-left' && hasFailed(x)) return 'seller_failed'
  if (x.status !== 0 && (!x.isUnsent || response === null)) return 'delivered'
  return x.transport.hasLeft || x.transport.isTruncated ? 'not_collected' : 'unsent'
}

/** Whether the seller's API failed. If no `upstream` plugin has set the outcome, the response's status decides. */
const hasFailed = ({ upstreamOutcome, upstreamStatus, status, errorCode }: Exchange): boolean =>
  upstreamOutcome === 'failed' ||
  upstreamOutcome === 'timeout' ||
  upstreamStatus >= 400 ||
  status >= 400 ||
  errorCode !== null

/**
 * The response to store at the end of a call that was charged first. Undefined for a call that is charged last, because its
 * response was stored with the charge.
 */
function responseToKeep({ link, response, upstreamStatus }: Exchange): StoredResponse | undefined {
  if (link.settle !== 'before' || response === null || response.tunnel !== null || upstreamStatus >= 400)
    return undefined
  return { status: response.status, headers: response.headers, body: response.body }
}

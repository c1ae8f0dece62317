import type { Link } from '../../core/domain/link.ts'
import type { PaymentRecord, StoredAnswer } from '../../core/domain/payment.ts'
import type { Fate, HandedOut, PaidCall, PaidFor } from '../../core/payments/payments.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { boughtByAnother, inUse, notCompared, wasDelivered } from '../../core/payments/refusals.ts'
import {
  type Exchange,
  gatewayPlugin,
  handled,
  type Reply,
  type RouteHooks,
} from '../../core/plugin/gateway.ts'
import { createLargeRepeats } from './largeRepeats.ts'
import { formParts } from './multipart.ts'
import { options } from './options.ts'
import { judgeRepeat, linkOfRepeat, noMemory, notInTime, storedReceipt, storedReply } from './repeat.ts'
import {
  boughtBy,
  boughtByLong,
  callerMark,
  createRunning,
  isSameCaller,
  join,
  mayBeSameCall,
  requestHash,
  runningOf,
  sharedOf,
  whileThere,
} from './running.ts'

/** What became of a charged call is noted right after it: somebody with another call waits for no more than that. */
const NOTED_MS = 1_000

/** A kept answer up to here is handed out without a limit on memory or rate. */
const SMALL_BYTES = 65_536
/** A larger one waits so long for memory. */
const MEMORY_MS = 10_000
/** Its reader may stand still for so long. */
const IDLE_MS = 60_000

/**
 * Lets a payment buy one call. The first caller wins by one durable insert; everyone after gets the first one's answer
 * when it is the same call, and a refusal when it is another. The seller never works twice for one payment. When the
 * answer was handed over, or could not be, it says so.
 */
export default gatewayPlugin({
  name: 'replay-guard',
  api: 1,
  options,
  needs: ['payments', 'links', 'service', 'sealer', 'clock', 'answerMemory', 'counters'],
  slots: {
    // Of a call that is served late, settlement and purchase are known already.
    claim: { reads: ['payment'], writes: ['claim'], mayWrite: ['settlement', 'purchase'] },
    forward: { mayRead: ['claim'] },
    deliver: { mayRead: ['payment', 'claim', 'answer', 'settlement', 'purchase'] },
  },
  setup({ maxBodyBytes, joinTimeoutMs, replayWindowMs, repeatFrom }, { ports }) {
    const { payments, links, service, sealer, clock, answerMemory, counters } = ports
    const notes = createPurchaseNotes(sealer, service.metadataField)
    const rules = { replayWindowMs, now: () => clock.now() }
    const running = runningOf(payments)
    const largeRepeats = createLargeRepeats(counters, clock)
    /** Payments whose kept answer a call is handing out, when nobody has got it before. */
    const handingOut = new WeakMap<Exchange, HandedOut>()

    async function claim(x: Exchange): Promise<Reply | undefined> {
      const { key } = x.payment!.identity
      const hashing = hashOf(x, maxBodyBytes)
      const hash = hashing instanceof Promise ? await hashing : hashing
      const mark = repeatFrom === 'anywhere' ? null : callerMark(x, sealer)
      const startedMs = performance.now()
      const leftMs = (ofMs: number) => startedMs + ofMs - performance.now()
      const call: PaidFor = {
        linkId: x.link.id,
        sessionId: null,
        storeId: x.link.storeId,
        requestHash: hash === null ? boughtByLong() : boughtBy(hash, mark),
        settlesFirst: x.link.settle === 'before',
      }
      let seen: PaymentRecord | undefined
      // Whoever has a payment that nobody has sent to the chain yet is its buyer.
      let isBuyers = false
      for (;;) {
        // A caller who hangs up waits for nothing any more: neither here nor in the database.
        if (x.door.isClosed) return handled
        const first = running[key]
        if (first !== undefined) {
          if ((await linkOfRepeat(x, first, hash, links)) === undefined)
            throw mayBeSameCall(first.requestHash, hash) ? notCompared(first.paid) : inUse(first.paid)
          isBuyers ||= !first.paid.mayBeCharged || isSameCaller(first.requestHash, mark, x, sealer)
          if (!isBuyers) throw boughtByAnother(first.paid)
          const joined = await join(first, x, leftMs(joinTimeoutMs))
          if (joined !== undefined) {
            if (joined.isUndelivered) handingOut.set(x, first.paid)
            x.upstreamStatus = joined.upstreamStatus
            return joined.reply
          }
          if (x.door.isClosed) return handled
        }
        if (seen === undefined) {
          seen = await tryClaim(x, call)
          if (seen === undefined) return
          // Somebody of this process was faster: that call is waited for, not the store.
          if (running[key] !== undefined && leftMs(joinTimeoutMs) > 0) {
            seen = undefined
            continue
          }
        }
        const link = await linkOfRepeat(x, seen, hash, links)
        isBuyers ||= seen.state === 'claimed' || isSameCaller(seen.requestHash, mark, x, sealer)
        const mayBeSame = mayBeSameCall(seen.requestHash, hash)
        const way = judgeRepeat(seen, link, isBuyers, rules, mayBeSame)
        if (way === 'stored') return stored(x, seen, link!)
        if (way === 'resume' && (await resume(x, seen, call))) return
        // Whoever was faster to take it up has it under way, or owes it again soon.
        if (way === 'wait' || way === 'resume') {
          const isLong = way === 'wait' && link !== undefined
          const waitMs = leftMs(isLong ? joinTimeoutMs : Math.min(joinTimeoutMs, NOTED_MS))
          const next = waitMs > 0 ? await whileThere(x, payments.changed(seen, waitMs)) : undefined
          if (x.door.isClosed) return handled
          if (next === undefined) throw notInTime(seen, running[key] !== undefined)
          seen = next
        } else seen = undefined
      }
    }

    /** @returns undefined when the payment is ours now, otherwise the row of whoever has it. */
    async function tryClaim(x: Exchange, call: PaidFor): Promise<PaymentRecord | undefined> {
      const payment = x.payment!
      if (payment.unclaimable !== null) {
        // A payment that can't be claimed now may have bought this call while it could.
        const record = await payments.find(payment.identity.key)
        if (record === undefined || record.state === 'rejected') throw payment.unclaimable
        return record
      }
      const result = await payments.claim(payment, call)
      if ('lost' in result) return result.lost
      if (x.isOver) payments.deliver(result.won, 'not_charged')
      else work(x, result.won, call)
      return undefined
    }

    /** @returns false when somebody else was faster */
    async function resume(x: Exchange, record: PaymentRecord, call: PaidFor): Promise<boolean> {
      const paid = await payments.resume(record, x.payment!, call)
      if (paid === undefined) return false
      if (x.isOver) {
        payments.deliver(paid, 'not_asked')
        return true
      }
      work(x, paid, call)
      // What verify, settle and record would have left: the call goes on to the seller.
      x.settlement = { transaction: record.transaction ?? '', headers: storedReceipt(x, record) }
      x.purchase = notes.of(record.purchaseId, x.link.responseMode === 'wrap')
      return true
    }

    function work(x: Exchange, paid: PaidCall, { requestHash }: PaidFor): void {
      x.claim = paid
      running[x.payment!.identity.key] = createRunning(paid, x.link.id, requestHash)
    }

    async function stored(x: Exchange, record: PaymentRecord, link: Link): Promise<Reply> {
      // Before it is read once more.
      await largeRepeats.admit(x, record)
      const answer = await payments.answerOf(record)
      // Forgotten since the row was read.
      if (answer === undefined) throw wasDelivered(record)
      const bytes = answer.body.length
      if (bytes > SMALL_BYTES) {
        if (largeRepeats.note(record, bytes)) await largeRepeats.admit(x, record)
        await hold(x, record, bytes)
      }
      if (x.door.isClosed) return handled
      x.door.limitIdle(IDLE_MS)
      if (record.state === 'settled') handingOut.set(x, record)
      return storedReply(x, record, link, answer, notes)
    }

    /** Many may read repeats slowly: their memory is bounded, apart from that of new answers. */
    async function hold(x: Exchange, record: PaymentRecord, bytes: number): Promise<void> {
      if (x.door.isClosed) return
      const held = answerMemory.open('repeats')
      // A caller who hangs up while it waits keeps no slot in the queue.
      x.door.onClose(() => held.release())
      if (!(await held.growWithin(bytes, MEMORY_MS))) {
        if (x.door.isClosed) return
        throw noMemory(record)
      }
      held.leaves(() => x.door.cutOff())
    }

    function end(x: Exchange, paid: PaidCall): void {
      const { key } = x.payment!.identity
      const first = running[key]
      delete running[key]
      const fate = fateOf(x)
      payments.deliver(paid, fate, answerToKeep(x), x.errorCode ?? undefined)
      first?.finish(sharedOf(x, fate === 'delivered'))
    }

    /** A process that stood still may have lost the payment, and somebody else may have asked the seller for it. */
    const forward = (x: Exchange): void | Promise<void> =>
      x.claim === null ? undefined : payments.assertHeld(x.claim)

    function deliver(x: Exchange): void {
      if (x.claim !== null) return end(x, x.claim)
      const paid = handingOut.get(x)
      // Who left before it came may be back for it.
      if (paid !== undefined && !x.isUnsent) payments.deliver(paid, 'delivered')
    }

    const paid: RouteHooks = { claim, forward, deliver }

    return {
      route: ({ isPaid }) => (isPaid ? paid : undefined),
    }
  },
})

/** What became of the answer of a call that had the payment. */
function fateOf(x: Exchange): Fate {
  const { purchase, answer, upstreamOutcome, errorCode } = x
  if (purchase === null) return 'not_charged'
  // A charged call that got no place at the seller's, or whose buyer left before it was asked.
  if (upstreamOutcome === null && errorCode === 'upstream_busy') return 'not_asked'
  // A buyer who left by itself is not the seller's failure.
  if (upstreamOutcome !== 'buyer-left' && hasFailed(x)) return 'seller_failed'
  if (x.status !== 0 && (!x.isUnsent || answer === null)) return 'delivered'
  return x.door.hasLeft ? 'not_collected' : 'unsent'
}

/** The seller may be asked by another plugin than `upstream`, or not at all: then the answer says how it went. */
const hasFailed = ({ upstreamOutcome, upstreamStatus, status, errorCode }: Exchange): boolean =>
  upstreamOutcome === 'failed' ||
  upstreamOutcome === 'timeout' ||
  upstreamStatus >= 400 ||
  status >= 400 ||
  errorCode !== null

/** Of a call that was charged before: what was charged afterwards is kept since it was sent. */
function answerToKeep({ link, answer, upstreamStatus }: Exchange): StoredAnswer | undefined {
  if (link.settle !== 'before' || answer === null || answer.tunnel !== null || upstreamStatus >= 400)
    return undefined
  return { status: answer.status, headers: answer.headers, body: answer.body }
}

/** Null for a body that is too long to be read whole: its call can't be recognised again. */
function hashOf(x: Exchange, maxBodyBytes: number): string | null | Promise<string | null> {
  const { method } = x
  const target = x.subPath + x.query
  if (!x.hasBody) return requestHash(method, target, null)
  const reading = x.readBody(maxBodyBytes)
  return reading === null
    ? null
    : reading.then((body) => requestHash(method, target, formParts(x.header('content-type'), body) ?? body))
}

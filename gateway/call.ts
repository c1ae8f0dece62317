import type { Asset } from '../core/domain/asset.ts'
import { TollgateError } from '../core/errors/error.ts'
import { errorReply } from '../core/http/errorReply.ts'
import type { Generation } from '../core/kernel/generation.ts'
import type { PostAnswerStep, Program } from '../core/kernel/program.ts'
import { passed, run, type Watch } from '../core/kernel/run.ts'
import { settlementPending } from '../core/payments/refusals.ts'
import type { CallOutcome, Exchange } from '../core/plugin/exchange.ts'
import { handled, type Reply } from '../core/plugin/reply.ts'
import type { CallCounts } from '../core/ports/callCounts.ts'
import type { Log } from '../core/ports/log.ts'
import { failureReceipt, refusedReply } from '../core/x402/refusedPayment.ts'
import type { AccessLog } from './accessLog.ts'

/** A call of which a hook answers later. */
export interface CallUnderWay {
  readonly x: Exchange
  readonly program: Program
  readonly generation: Generation
  /** By this machine's monotonic clock. */
  readonly sinceMs: number
  /** Where it stands in {@link Calls.underWay}; -1 when it is over. */
  place: number
}

/** The calls of one call plane. */
export interface Calls {
  readonly log: Log
  /** Where a refused payment names no network that is known, and its link offers none, the first of these stands for it. */
  readonly assets: readonly Asset[]
  /** Null where calls are not logged. */
  readonly accessLog: AccessLog | null
  /**
   * In no order. No Set: one that calls come into and leave is made anew again and again, and each that was before it keeps the calls
   * of its time alive until the next collection of the whole heap.
   */
  readonly underWay: CallUnderWay[]
  readonly counts: { -readonly [K in keyof CallCounts]: CallCounts[K] }
}

export const newCalls = (
  log: Log,
  assets: readonly Asset[] = [],
  accessLog: AccessLog | null = null,
): Calls => ({
  log,
  assets,
  accessLog,
  underWay: [],
  counts: {
    ...{ asked: 0, paid: 0, answered: 0, repeated: 0, pending: 0 },
    ...{ refused: 0, failed: 0, free: 0, left: 0 },
  },
})

/**
 * Runs one call through its link's program and answers it, through whichever door it came. The generation stays open until
 * the call has ended.
 *
 * @param calls where it stands until then, see {@link endOverdue}, and is counted
 */
export function runCall(x: Exchange, program: Program, generation: Generation, calls: Calls): void {
  generation.enter()
  x.program = program
  let outcome: Reply | Promise<Reply>
  try {
    outcome = run(program.shape.hooks, x, program.shape.check, watch)
  } catch (error) {
    return fail(x, program, generation, calls, error)
  }
  if (!(outcome instanceof Promise)) return finish(x, program, generation, calls, outcome)
  const { underWay } = calls
  const call: CallUnderWay = { x, program, generation, sinceMs: performance.now(), place: underWay.length }
  underWay.push(call)
  outcome.then(
    (reply) => {
      leave(underWay, call)
      if (!x.isOver) finish(x, program, generation, calls, reply)
    },
    (error: unknown) => {
      leave(underWay, call)
      if (!x.isOver) fail(x, program, generation, calls, error)
    },
  )
}

function leave(underWay: CallUnderWay[], call: CallUnderWay): void {
  if (call.place === -1) return
  const last = underWay.pop()!
  if (last !== call) {
    underWay[call.place] = last
    last.place = call.place
  }
  call.place = -1
}

const watch: Watch<Exchange> = {
  waits(x, at) {
    x.waitsAt = at
  },
  mayGoOn: (x) => !x.isOver,
}

/**
 * Ends the calls that are over their time: a hook that never answers keeps its payment, its places and its generation
 * otherwise for as long as the process lives. The caller is answered, and what ends every call ends this one; no further hook
 * of it runs. An answer that somebody is taking has the limits of whoever sends it.
 */
export function endOverdue(calls: Calls, longestMs: number, nowMs = performance.now()): void {
  const { underWay, log } = calls
  for (const call of underWay.filter(({ sinceMs }) => nowMs - sinceMs >= longestMs)) {
    const { x, program, generation } = call
    const { door, claim, link, waitsAt } = x
    if (door.hasBegun && !door.hasEnded && !door.isClosed) continue
    leave(underWay, call)
    const { plugin, phase } = program.shape.steps[waitsAt] ?? {}
    const what = { plugin, phase, linkId: link.id, purchaseId: claim?.purchaseId }
    log.error(what, 'a hook has not answered in time; its call is ended')
    // Handed over by a hook that does not say so.
    if (door.hasEnded) finish(x, program, generation, calls, handled)
    else fail(x, program, generation, calls, overdue(x, program.isPaid))
  }
}

function overdue({ claim, purchase, paymentHeader }: Exchange, isPaid: boolean): TollgateError {
  if (claim !== null && purchase === null && claim.mayBeCharged)
    return settlementPending('This call was ended while its payment was being settled.', claim.purchaseId, '')
  const again = 'repeat the same call with the same payment to hear what it has bought, and do not pay again.'
  let isCharged = 'You were not charged.'
  if (purchase !== null) isCharged = `You were charged: ${again}`
  // Nobody has looked yet, or it waited for the call that has the payment.
  else if (claim === null && isPaid && paymentHeader !== null)
    isCharged = `It has charged nothing, but an earlier call with this payment may have: ${again}`
  return new TollgateError('call_timeout', `The gateway has not finished this call in time. ${isCharged}`, {
    retryAfterSeconds: 5,
    ...(purchase !== null && { extra: { purchaseId: purchase.id } }),
  })
}

/** Nothing that a plugin does may end the process here, or keep the generation from closing. */
function finish(
  x: Exchange,
  program: Program,
  generation: Generation,
  calls: Calls,
  reply: Reply,
  error: unknown = null,
): void {
  const { log } = calls
  x.isOver = true
  if (reply === passed) {
    if (x.status === 0 && !x.door.hasBegun && !x.door.isClosed)
      answer(x, program, ...unanswered(x, log), calls)
  } else if (reply !== handled) answer(x, program, reply, error, calls)
  x.outcome = outcomeOf(x, program.isPaid)
  count(x, calls.counts)
  for (const step of program.shape.postAnswer) {
    try {
      const late: unknown = step.hook(x)
      if (late instanceof Promise) late.catch((err: unknown) => noteFailure(x, log, step, err))
    } catch (err) {
      noteFailure(x, log, step, err)
    }
  }
  try {
    calls.accessLog?.call(x)
  } catch (err) {
    // A plugin wrote a payment, claim or purchase into the call that lacks its parts.
    log.error({ err, linkId: x.link.id }, 'a call has no line in the access log')
  }
  generation.leave()
}

/** Every hook passed and none has answered: the configuration lacks the plugin that calls the seller. */
function unanswered(x: Exchange, log: Log): [reply: Reply, error: unknown] {
  const error = new Error(`no plugin answers calls of link ${x.link.id}`)
  const { reply, code } = errorReply(error, log, x.requestId)
  x.errorCode = code
  return [reply, error]
}

function outcomeOf(x: Exchange, isPaid: boolean): CallOutcome {
  const { status } = x
  if (x.claim !== null && x.purchase !== null) return 'paid'
  if (x.errorCode === 'settlement_pending') return 'pending'
  if (status === 0 || x.isUnsent) return 'left'
  if (status >= 500) return 'failed'
  if (isPaid && status === 402 && x.paymentHeader === null) return '402'
  if (status >= 400) return 'refused'
  return isPaid && x.paymentHeader !== null ? 'repeated' : 'free'
}

/** Additions only: every call pays for this, and few operators read it. */
function count({ outcome, status, isUnsent }: Exchange, counts: Calls['counts']): void {
  counts[outcome === '402' ? 'asked' : outcome]++
  if (outcome === 'paid' && status < 400 && !isUnsent) counts.answered++
}

function noteFailure(x: Exchange, log: Log, { plugin, phase }: PostAnswerStep, err: unknown): void {
  log.error({ err, plugin, phase, linkId: x.link.id }, 'a hook after the answer failed')
}

function fail(x: Exchange, program: Program, generation: Generation, calls: Calls, error: unknown): void {
  const { reply, code } = errorReply(error, calls.log, x.requestId)
  x.errorCode ??= code
  finish(x, program, generation, calls, reply, error)
}

function answer(x: Exchange, program: Program, given: Reply, error: unknown, calls: Calls): void {
  try {
    const reply =
      program.isPaid && x.paymentHeader !== null ? toPayment(x, program, given, error, calls) : given
    x.status = reply.status
    x.reply = reply
    x.isUnsent = !x.door.send(reply, x.extraHeaders)
    // A plugin has begun another one, and can't end it now.
    if (x.isUnsent && x.door.hasBegun && !x.door.hasEnded) x.door.cutOff()
  } catch (err) {
    // A plugin gave something that is no reply, or a head with characters that may not stand in one.
    const { reply: plain, code } = errorReply(err, calls.log, x.requestId)
    x.status = plain.status
    x.reply = null
    x.errorCode ??= code
    if (x.upgrade === null && !x.door.hasBegun) x.door.send(plain, null)
    else x.door.cutOff()
  }
}

/**
 * The answer to a call that came with a payment: a refused payment gets a fresh offer, and every failure that lacks a receipt gets one,
 * whichever plugin refused the call or answered instead of the seller. The seller's own refusal passes as it is.
 */
function toPayment(x: Exchange, program: Program, given: Reply, error: unknown, { assets }: Calls): Reply {
  if (error === null && (x.upstreamStatus >= 400 || given.headers.some(isReceipt))) return given
  const { offer } = program
  const version = x.payment?.payload.x402Version ?? x.x402Version
  // Nothing is offered again that was charged, and nothing that a call without a payment would not be offered either.
  const { isActive, suspension } = x.link
  const again = x.settlement === null && isActive && suspension === null ? offer : undefined
  const reply = refusedReply(error, x.requestId, again, version, x.subPath + x.query) ?? given
  const receipt = failureReceipt(x, error, reply.status, offer?.network ?? assets[0]?.network)
  return receipt.length === 0 ? reply : { ...reply, headers: [...reply.headers, ...receipt] }
}

const isReceipt = (text: string): boolean =>
  (text.length === 16 || text.length === 18) && /^(?:x-)?payment-response$/i.test(text)

import { type ChannelCall, withCorrection } from '../core/channels/channelCall.ts'
import type { Asset } from '../core/domain/asset.ts'
import { channelScheme } from '../core/domain/channel.ts'
import { TollgateError } from '../core/errors/error.ts'
import { errorReply, handled, type Reply } from '../core/http/replies.ts'
import type { Generation } from '../core/kernel/generation.ts'
import type { AfterResponseStep, Pipeline } from '../core/kernel/pipeline.ts'
import { passed, run, type Watch } from '../core/kernel/run.ts'
import { failureReceipt, refusedReply } from '../core/offers/refusedPayment.ts'
import { settlementPending } from '../core/payments/refusals.ts'
import type { CallOutcome, Exchange } from '../core/plugin/exchange.ts'
import type { CallCounts } from '../core/ports/callCounts.ts'
import type { Clock } from '../core/ports/clock.ts'
import type { Log } from '../core/ports/log.ts'

/** A call that waits for a promise of a hook. */
export interface CallUnderWay {
  readonly x: Exchange
  readonly pipeline: Pipeline
  readonly generation: Generation
  /** Start of the call by this machine's monotonic clock, in ms. */
  readonly sinceMs: number
  /** The call's index in {@link Calls.underWay}, -1 when the call has ended. */
  index: number
}

/** The dependencies and the running calls of one call plane. */
export interface Calls {
  readonly log: Log
  /** A failure receipt names the first asset's network if the link has no offer and the payment names no known network. */
  readonly assets: readonly Asset[]
  /** Null if calls are not logged. */
  readonly accessLog: AccessLog | null
  /**
   * Running calls, in no order. It is an array, because V8 copies a Set as calls come and go, and the old copies would keep
   * finished calls in memory until V8 collects its whole heap.
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
    asked: 0,
    paid: 0,
    answered: 0,
    repeated: 0,
    pending: 0,
    refused: 0,
    failed: 0,
    free: 0,
    left: 0,
  },
})

/**
 * Runs one call through its link's pipeline and sends the response over the call's transport. The generation stays open until the
 * call has ended.
 *
 * @param calls counts the call, and lists it until it has ended (see {@link endOverdue})
 */
export function runCall(x: Exchange, pipeline: Pipeline, generation: Generation, calls: Calls): void {
  generation.enter()
  x.pipeline = pipeline
  let outcome: Reply | Promise<Reply>
  try {
    outcome = run(pipeline.shape.hooks, x, pipeline.shape.check, watch)
  } catch (error) {
    return fail(x, pipeline, generation, calls, error)
  }
  if (!(outcome instanceof Promise)) return finish(x, pipeline, generation, calls, outcome)
  const { underWay } = calls
  const call: CallUnderWay = { x, pipeline, generation, sinceMs: performance.now(), index: underWay.length }
  underWay.push(call)
  outcome.then(
    (reply) => {
      leave(underWay, call)
      if (!x.isOver) finish(x, pipeline, generation, calls, reply)
    },
    (error: unknown) => {
      leave(underWay, call)
      if (!x.isOver) fail(x, pipeline, generation, calls, error)
    },
  )
}

function leave(underWay: CallUnderWay[], call: CallUnderWay): void {
  if (call.index === -1) return
  const last = underWay.pop()!
  if (last !== call) {
    underWay[call.index] = last
    last.index = call.index
  }
  call.index = -1
}

const watch: Watch<Exchange> = {
  waits(x, at) {
    x.waitsAt = at
  },
  mayGoOn: (x) => !x.isOver,
}

/**
 * Ends overdue calls. Otherwise a hook that never returns would keep the call's payment, slots and generation until the process
 * ends. The caller gets an error, and the gateway runs no further hook of the call. A call whose response is being sent is left to
 * its transport's limits. A call whose response was sent before its charge is left to that charge while the payment is valid.
 */
export function endOverdue(calls: Calls, longestMs: number, nowMs = performance.now()): void {
  const { underWay, log } = calls
  for (const call of underWay.filter(({ sinceMs }) => nowMs - sinceMs >= longestMs)) {
    const { x, pipeline, generation } = call
    const { transport, claim, link, waitsAt } = x
    if ((transport.hasBegun && !transport.hasEnded && !transport.isClosed) || isBeingCharged(x)) continue
    leave(underWay, call)
    const { plugin, phase } = pipeline.shape.steps[waitsAt] ?? {}
    const what = { plugin, phase, linkId: link.id, purchaseId: claim?.purchaseId }
    log.error(what, 'a hook did not return in time; its call is ended')
    // A hook has sent the response, but has not returned yet.
    if (transport.hasEnded) finish(x, pipeline, generation, calls, handled)
    else fail(x, pipeline, generation, calls, overdue(x, pipeline.isPaid))
  }
}

const isBeingCharged = ({ meter }: Exchange): boolean =>
  meter !== null && meter.ended !== null && Date.now() < meter.chargeUntilMs

function overdue({ claim, purchase, paymentHeader }: Exchange, isPaid: boolean): TollgateError {
  if (claim !== null && purchase === null && claim.mayBeCharged)
    return settlementPending('This call was ended while its payment was being settled.', claim.purchaseId, '')
  const again = 'Repeat the same call with the same payment to get what it has bought, and do not pay again.'
  let isCharged = 'You were not charged.'
  if (purchase !== null) isCharged = `You were charged. ${again}`
  // The call had not claimed its payment yet, or was waiting for another call with the same payment.
  else if (claim === null && isPaid && paymentHeader !== null)
    isCharged = `This call has charged nothing, but an earlier call with this payment may have charged you. ${again}`
  return new TollgateError('call_timeout', `The gateway has not finished this call in time. ${isCharged}`, {
    retryAfterSeconds: 5,
    ...(purchase !== null && { extra: { purchaseId: purchase.id } }),
  })
}

/** Ends a call. It catches errors of plugins, because an error here would end the process or keep the generation open. */
function finish(
  x: Exchange,
  pipeline: Pipeline,
  generation: Generation,
  calls: Calls,
  reply: Reply,
  error: unknown = null,
): void {
  const { log } = calls
  x.isOver = true
  if (reply === passed) {
    if (x.status === 0 && !x.transport.hasBegun && !x.transport.isClosed)
      respond(x, pipeline, ...unanswered(x, log), calls)
  } else if (reply !== handled) respond(x, pipeline, reply, error, calls)
  x.outcome = outcomeOf(x, pipeline.isPaid)
  count(x, calls.counts)
  for (const step of pipeline.shape.afterResponse) {
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
    // A plugin has written an incomplete payment, claim or purchase into the call.
    log.error({ err, linkId: x.link.id }, 'a call has no line in the access log')
  }
  generation.leave()
}

/** The error for a call to which no hook has responded. The configuration then lacks the plugin that calls the seller. */
function unanswered(x: Exchange, log: Log): [reply: Reply, error: unknown] {
  const error = new Error(`no plugin responds to calls of link ${x.link.id}`)
  const { reply, code } = errorReply(error, log, x.requestId)
  x.errorCode = code
  return [reply, error]
}

function outcomeOf(x: Exchange, isPaid: boolean): CallOutcome {
  const { status } = x
  if ((x.claim !== null || x.channelCall !== null) && x.purchase !== null) return 'paid'
  if (x.errorCode === 'settlement_pending') return 'pending'
  if (status === 0 || x.isUnsent) return 'left'
  if (status >= 500) return 'failed'
  if (status === 402 && x.paymentHeader === null && (isPaid || x.link.access !== null)) return '402'
  if (status >= 400) return 'refused'
  return isPaid && x.paymentHeader !== null ? 'repeated' : 'free'
}

/** Only adds, because every call runs this. */
function count({ outcome, status, isUnsent }: Exchange, counts: Calls['counts']): void {
  counts[outcome === '402' ? 'asked' : outcome]++
  if (outcome === 'paid' && status < 400 && !isUnsent) counts.answered++
}

function noteFailure(x: Exchange, log: Log, { plugin, phase }: AfterResponseStep, err: unknown): void {
  log.error({ err, plugin, phase, linkId: x.link.id }, 'a hook after the response failed')
}

function fail(x: Exchange, pipeline: Pipeline, generation: Generation, calls: Calls, error: unknown): void {
  const { reply, code } = errorReply(error, calls.log, x.requestId)
  x.errorCode ??= code
  finish(x, pipeline, generation, calls, reply, error)
}

function respond(x: Exchange, pipeline: Pipeline, given: Reply, error: unknown, calls: Calls): void {
  try {
    const reply =
      pipeline.isPaid && x.paymentHeader !== null ? toPayment(x, pipeline, given, error, calls) : given
    x.status = reply.status
    x.reply = reply
    x.isUnsent = !x.transport.send(reply, x.extraHeaders)
    // A plugin has begun another response that it can no longer end.
    if (x.isUnsent && x.transport.hasBegun && !x.transport.hasEnded) x.transport.cutOff()
  } catch (err) {
    // A plugin returned a value that is not a reply, or a head with forbidden characters.
    const { reply: plain, code } = errorReply(err, calls.log, x.requestId)
    x.status = plain.status
    x.reply = null
    x.errorCode ??= code
    if (x.upgrade === null && !x.transport.hasBegun) x.transport.send(plain, null)
    else x.transport.cutOff()
  }
}

/**
 * The response to a call with a payment. If a plugin refused the payment, the response gets a new offer. A failure without a
 * receipt gets a receipt. The seller's own error response is forwarded unchanged.
 */
function toPayment(x: Exchange, pipeline: Pipeline, given: Reply, error: unknown, { assets }: Calls): Reply {
  if (error === null && (x.upstreamStatus >= 400 || given.headers.some(isReceipt))) return given
  const offer = x.offer ?? pipeline.offer
  const version = x.payment?.payload.x402Version ?? x.x402Version
  // The response has no new offer if the call was charged, or if the link is inactive or suspended.
  const { isActive, suspension } = x.link
  const again = x.settlement === null && isActive && suspension === null ? offer : undefined
  const reply = refusedReply(error, x.requestId, again, version, x.subPath + x.query) ?? given
  if (x.channelCall !== null && x.settlement === null) return toChannel(x.channelCall, reply)
  const receipt = failureReceipt(x, error, reply.status, offer?.network ?? assets[0]?.network)
  return receipt.length === 0 ? reply : { ...reply, headers: [...reply.headers, ...receipt] }
}

/**
 * The response to a failed payment by a channel. It has no receipt, because the official client corrects itself only without one. If
 * the voucher is for another total, the offer has the channel's true state.
 */
function toChannel({ correction }: ChannelCall, reply: Reply): Reply {
  const at = reply.headers.indexOf('PAYMENT-REQUIRED')
  if (correction === null || at === -1) return reply
  const headers = reply.headers.with(
    at + 1,
    withCorrection(reply.headers[at + 1]!, channelScheme, correction),
  )
  return { status: reply.status, headers, body: reply.body }
}

const isReceipt = (text: string): boolean =>
  (text.length === 16 || text.length === 18) && /^(?:x-)?payment-response$/i.test(text)

export interface AccessLogOptions {
  /** Share of the 402 responses and free calls that is logged, from 0 to 1. */
  readonly unpaidShare: number
  /**
   * Maximum log lines per second for calls without a payment. A second limit of this number applies to calls whose payment was not
   * read.
   */
  readonly unpaidPerSecond: number
}

/** A request that reached no link's pipeline. */
export interface Unrouted {
  readonly requestId: string
  readonly method?: string | undefined
  readonly status: number
  readonly code: string
  readonly isPresented?: boolean
}

/**
 * The access log has one line per call, with the stable event `call`, so that an operator can investigate a buyer's complaint. A
 * call whose payment was read is always logged. Other calls are sampled, so that a flood of them neither fills the disk nor slows
 * paid calls. A call whose payment header could not be read is one of those, because such a header costs its caller nothing.
 */
export class AccessLog {
  readonly #log: Log
  readonly #clock: Clock
  readonly #options: AccessLogOptions
  /** The second in which lines are counted, by this machine's monotonic clock. */
  #second = -1
  /**
   * Lines written in this second: `unpaid` for calls without a payment, `unread` for calls whose payment was malformed or over a
   * limit.
   */
  #taken = { unpaid: 0, unread: 0 }
  #leftOut = 0

  constructor(log: Log, clock: Clock, options: AccessLogOptions) {
    this.#log = log
    this.#clock = clock
    this.#options = options
  }

  call(x: Exchange): void {
    const { outcome, link, paymentHeader, errorCode } = x
    const isSampled = outcome === '402' || outcome === 'free'
    const isNoted = x.payment !== null || x.channelCall !== null
    if (!isNoted && !this.#takes(paymentHeader === null ? 'unpaid' : 'unread', isSampled)) return
    const payer = x.payment?.identity.payer ?? x.channelCall?.payment.config.payer ?? x.signedIn?.wallet
    this.#write({
      requestId: x.requestId,
      traceId: traceIdOf(x.header('traceparent')),
      linkId: link.id,
      // The slug of a stealth link is a secret that only its callers know.
      link: link.isStealth ? undefined : `${link.username}/${link.slug}`,
      method: x.method,
      status: x.status,
      outcome,
      code: errorCode ?? undefined,
      purchaseId: x.claim?.purchaseId ?? x.purchase?.id ?? purchaseIdOf(x.reply?.headers),
      payer: payer && shortened(payer),
      ms: this.#clock.now() - x.startedAtMs,
      sellerMs: x.sellerMs < 0 ? undefined : Math.round(x.sellerMs),
      settleMs: x.settleMs < 0 ? undefined : Math.round(x.settleMs),
    })
  }

  /** Logs a request to an address without a link, or a request that cannot be read. */
  unrouted({ requestId, method, status, code, isPresented = false }: Unrouted): void {
    if (!this.#takes(isPresented ? 'unread' : 'unpaid', false)) return
    const outcome: CallOutcome = status >= 500 ? 'failed' : 'refused'
    this.#write({ requestId, method, status, outcome, code })
  }

  #takes(kind: 'unpaid' | 'unread', isSampled: boolean): boolean {
    const { unpaidShare, unpaidPerSecond } = this.#options
    if (isSampled && unpaidShare < 1 && Math.random() >= unpaidShare) return false
    const second = Math.floor(performance.now() / 1_000)
    if (second !== this.#second) {
      this.#second = second
      this.#taken = { unpaid: 0, unread: 0 }
    }
    if (this.#taken[kind] < unpaidPerSecond) {
      this.#taken[kind]++
      return true
    }
    this.#leftOut++
    return false
  }

  #write(fields: object): void {
    const leftOut = this.#leftOut === 0 ? undefined : this.#leftOut
    this.#leftOut = 0
    this.#log.info({ event: 'call', ...fields, leftOut }, 'call')
  }
}

/**
 * The form of a `traceparent` header in W3C Trace Context version 00, which contains the trace's id. Headers in another form are
 * ignored.
 */
const traceparent = /^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/

function traceIdOf(given: string | undefined): string | undefined {
  const id = given === undefined ? undefined : traceparent.exec(given)?.[1]
  return id === '0'.repeat(32) ? undefined : id
}

/** The purchase whose stored response is sent again. */
function purchaseIdOf(headers: readonly string[] = []): string | undefined {
  const at = headers.indexOf('X-Purchase-Id')
  return at === -1 ? undefined : headers[at + 1]
}

const shortened = (wallet: string) => `${wallet.slice(0, 6)}…${wallet.slice(-4)}`

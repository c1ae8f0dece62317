import { randomUUID } from 'node:crypto'
import { callOf } from '../../core/domain/payment.ts'
import { callerOf } from '../../core/http/caller.ts'
import type { Reply } from '../../core/http/replies.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import type { PaidCall, Payments } from '../../core/payments/payments.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Sealer } from '../../core/ports/sealer.ts'
import { withReceiptIn } from '../../core/x402/header.ts'
import { withoutPricedHeaders } from './pricedHeaders.ts'

/** The outcome of a call, for the repeated calls that waited for it. */
export interface Shared {
  readonly reply: Reply
  readonly x402Version: 1 | 2
  /**
   * True if the call is charged, but its caller did not get the response. The repeat that gets the response first marks it as
   * delivered.
   */
  readonly isUndelivered: boolean
  /** The status of the seller's response. 0 if the seller's API was not called. */
  readonly upstreamStatus: number
}

/** A running call, for which other requests with the same payment may wait. */
export interface Running {
  readonly paid: PaidCall
  readonly linkId: string
  /** Identifies the call. {@link boughtBy} makes it. */
  readonly requestHash: string
  readonly shared: Promise<Shared | null>
  finish(shared: Shared | null): void
}

/** Running calls by payment key. It is not a Map, for the reason given in core/payments/openCalls.ts. */
export type RunningCalls = Record<string, Running | undefined>

const all = new WeakMap<Payments, RunningCalls>()

/**
 * The running calls of this process by payment key. Every generation uses the same table of an engine, so that a repeat after a
 * reload waits for a call that began before the reload.
 */
export function runningOf(payments: Payments): RunningCalls {
  const known: RunningCalls = all.get(payments) ?? Object.create(null)
  all.set(payments, known)
  return known
}

export function createRunning(paid: PaidCall, linkId: string, requestHash: string): Running {
  const { promise, resolve } = Promise.withResolvers<Shared | null>()
  return { paid, linkId, requestHash, shared: promise, finish: resolve }
}

/**
 * Waits for the outcome of the first request for the same call. A failure is shared too, because a concurrent repeat must not make
 * the seller work again.
 *
 * @returns the first call's outcome. Undefined if the first call has no complete reply or is late, so that this call has to read
 *   the database
 */
export async function join(first: Running, x: Exchange, waitMs: number): Promise<Shared | undefined> {
  const late = Promise.withResolvers<null>()
  const timer = setTimeout(late.resolve, Math.max(waitMs, 0), null)
  const shared = await whileThere(x, Promise.race([first.shared, late.promise]))
  clearTimeout(timer)
  if (shared === null || shared === undefined) return undefined
  const { x402Version } = x.payment!.payload
  if (x402Version === shared.x402Version) return shared
  // A 402 or 412 contains an offer in the x402 version of the first request, so this request reads the state from the database instead.
  if (shared.reply.status === 402 || shared.reply.status === 412) return undefined
  return { ...shared, reply: { ...shared.reply, headers: withReceiptIn(x402Version, shared.reply.headers) } }
}

/** Waits while the caller is connected. @returns undefined if the caller disconnects first */
export function whileThere<T>({ transport }: Exchange, waiting: Promise<T>): Promise<T | undefined> {
  const left = new Promise<undefined>((resolve) => {
    // A closed transport does not emit its closing again.
    if (transport.isClosed) resolve(undefined)
    else transport.onClose(() => resolve(undefined))
  })
  return Promise.race([waiting, left])
}

/** The outcome of this call for the repeats that waited for it. Null if they have to read the state from the database. */
export function sharedOf(x: Exchange, isDelivered: boolean): Shared | null {
  const reply = replyOf(x)
  if (reply === null) return null
  return {
    reply,
    x402Version: x.payment!.payload.x402Version,
    isUndelivered: !isDelivered && x.purchase !== null && reply.status < 400,
    upstreamStatus: x.upstreamStatus,
  }
}

function replyOf(x: Exchange): Reply | null {
  // The first caller disconnected, which must not make the repeats fail.
  if (x.upstreamOutcome === 'buyer-left') return null
  if (x.reply !== null) return x.reply
  // The response was streamed and stored, so the reply is assembled as for any stored response.
  const { response, purchase, settlement } = x
  if (response === null || response.tunnel !== null || purchase === null || settlement === null) return null
  return paidReply(response, response.mediaType, purchase, settlement.headersFor(response.status), true)
}

/** Minimum length of an `Idempotency-Key`, in characters. The gateway ignores a shorter key, because a stranger could guess it. */
const MIN_KEY_CHARS = 16

/**
 * A mark that distinguishes a returning buyer from a stranger who has read payment and call on chain. It is made from the payment's
 * identifier, which has the form of a key, or from the call's `Idempotency-Key`. If there is neither, it is made from the caller's IP
 * address. It cannot be reversed without the server's secret.
 *
 * @returns 22 characters
 * @see https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
 */
export function callerMark(x: Exchange, sealer: Pick<Sealer, 'mac'>): string {
  const key = x.payment?.payload.identifier ?? x.header('idempotency-key')
  return key !== undefined && key.length >= MIN_KEY_CHARS
    ? markOf(`key ${key}`, sealer)
    : addressMark(x, sealer)
}

/**
 * Maximum addresses with recent calls whose mark is kept, at a hundred bytes each. Callers return, and making a mark costs two
 * hashes (bench/paid.ts).
 */
const MAX_MARKS = 4_096
const addressMarks = new WeakMap<Pick<Sealer, 'mac'>, Map<string, string>>()

/** The mark of the caller's address, even if the call has a key. */
function addressMark(x: Exchange, sealer: Pick<Sealer, 'mac'>): string {
  const caller = callerOf(x.clientIp)
  let marks = addressMarks.get(sealer)
  if (marks === undefined) addressMarks.set(sealer, (marks = new Map()))
  let mark = marks.get(caller)
  if (mark === undefined) {
    if (marks.size === MAX_MARKS) marks.clear()
    marks.set(caller, (mark = markOf(`at ${caller}`, sealer)))
  }
  return mark
}

const markOf = (by: string, sealer: Pick<Sealer, 'mac'>): string =>
  sealer.mac('repeat', by).toString('base64url').slice(0, 22)

const hashChars = 64

/**
 * The stored form of the call that a payment buys: its hash and its caller's mark.
 *
 * @param mark null if a repeat from any caller gets the response
 */
export const boughtBy = (hash: string, mark: string | null): string =>
  mark === null ? hash : `${hash}:${mark}`

/**
 * Whether a call, from any caller, is the call that {@link boughtBy} has stored.
 *
 * @param hash hash of this call. Null if it cannot be compared, so that it counts as a different call
 */
export const isSameCall = (stored: string, hash: string | null): boolean =>
  hash !== null && stored.startsWith(hash)

const LONG = 'stream:'

/** The stored form of a call whose body is too long to be compared. */
export const boughtByLong = (): string => LONG + randomUUID()

/**
 * Whether a call may be the call that {@link boughtByLong} has stored.
 *
 * @param hash hash of this call. Null if its body is too long as well
 */
export const mayBeSameCall = (stored: string, hash: string | null): boolean =>
  hash === null && stored.startsWith(LONG)

/**
 * Whether the call comes from the first caller, if the mark of that caller was stored. A caller who sends a key only with the
 * repeat is recognized by its address.
 *
 * @param mark mark of this call, by {@link callerMark}. Null if any caller is accepted
 */
export const isSameCaller = (
  stored: string,
  mark: string | null,
  x: Exchange,
  sealer: Pick<Sealer, 'mac'>,
): boolean => {
  const call = withoutPricedHeaders(callOf(stored))
  if (mark === null || call.length === hashChars) return true
  const noted = call.slice(hashChars + 1)
  return noted === mark || noted === addressMark(x, sealer)
}

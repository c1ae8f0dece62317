import { createHash, hash, randomUUID } from 'node:crypto'
import { callerOf } from '../../core/http/callerAddress.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import type { PaidCall, Payments } from '../../core/payments/payments.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Reply } from '../../core/plugin/reply.ts'
import type { Sealer } from '../../core/ports/sealer.ts'
import { withReceiptIn } from '../../core/x402/header.ts'

/** What a call leaves to those who waited for it. */
export interface Shared {
  readonly reply: Reply
  readonly x402Version: 1 | 2
  /** It is charged, and whoever made the call did not get the answer: the first who gets it has it delivered. */
  readonly isUndelivered: boolean
  /** What the seller said; 0 where it was not asked. */
  readonly upstreamStatus: number
}

/** A call under way that others with the same payment wait for. */
export interface Running {
  readonly paid: PaidCall
  readonly linkId: string
  /** By {@link boughtBy}. */
  readonly requestHash: string
  readonly shared: Promise<Shared | null>
  finish(shared: Shared | null): void
}

/** By payment key. No Map, for the reason that stands in core/payments/openCalls.ts. */
export type RunningCalls = Record<string, Running | undefined>

const all = new WeakMap<Payments, RunningCalls>()

/**
 * The calls under way in this process, by payment key. Of one engine, whatever the generation: a call that began before a
 * reload is waited for by repeats that come after it.
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
 * Shares the fate of the first one of the same call, a failure too: whoever asks at the same time must not make the seller work again.
 * @returns what the first call left; undefined when it was not a whole reply or is late, and the store has to say.
 */
export async function join(first: Running, x: Exchange, waitMs: number): Promise<Shared | undefined> {
  const late = Promise.withResolvers<null>()
  const timer = setTimeout(late.resolve, Math.max(waitMs, 0), null)
  const shared = await whileThere(x, Promise.race([first.shared, late.promise]))
  clearTimeout(timer)
  if (shared === null || shared === undefined) return undefined
  const { x402Version } = x.payment!.payload
  if (x402Version === shared.x402Version) return shared
  // The offer of a 402 is in the first one's version: this one hears from the store how it stands.
  if (shared.reply.status === 402) return undefined
  return { ...shared, reply: { ...shared.reply, headers: withReceiptIn(x402Version, shared.reply.headers) } }
}

/** Waits for as long as the caller does. @returns undefined once the caller has hung up */
export function whileThere<T>({ door }: Exchange, waiting: Promise<T>): Promise<T | undefined> {
  const left = new Promise<undefined>((resolve) => {
    // Who left before says so no more.
    if (door.isClosed) resolve(undefined)
    else door.onClose(() => resolve(undefined))
  })
  return Promise.race([waiting, left])
}

/** What those who waited for this call get; null when they have to look for themselves. */
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
  // That the first caller hung up is nobody else's failure.
  if (x.upstreamOutcome === 'buyer-left') return null
  if (x.reply !== null) return x.reply
  // A stream that was kept: put together as a stored one would be.
  const { answer, purchase, settlement } = x
  if (answer === null || answer.tunnel !== null || purchase === null || settlement === null) return null
  return paidReply(answer, answer.mediaType, purchase, settlement.headers, true)
}

/**
 * What call a payment buys: SHA-256, hex, over method, path, query and body, each with its length in front. The same
 * payment with another hash is another call, and is refused; with the same hash it gets the stored answer.
 *
 * @param body null when the call has none; the parts of a form, whose boundary does not count
 */
export function requestHash(method: string, target: string, body: Uint8Array | Uint8Array[] | null): string {
  if (Array.isArray(body)) {
    const all = createHash('sha256').update(`form:${method.length}:${method}${target.length}:${target}`)
    for (const part of body) all.update(`${part.length}:`).update(part)
    return all.digest('hex')
  }
  const head = `${method.length}:${method}${target.length}:${target}${body?.length ?? 0}:`
  // In one go where there is one piece: a hash object costs twice as much (bench/paid.ts).
  if (body === null) return hash('sha256', head, 'hex')
  return createHash('sha256').update(head).update(body).digest('hex')
}

/** A shorter `Idempotency-Key` could be guessed, and counts for nothing. */
const MIN_KEY_CHARS = 16

/**
 * What tells a buyer who comes back from a stranger who has read payment and call on chain: the `Idempotency-Key` that came with
 * the call, or the network address that it came from. Not to be read back without the server's secret.
 *
 * @returns 22 characters
 * @see https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
 */
export function callerMark(x: Exchange, sealer: Pick<Sealer, 'mac'>): string {
  const key = x.header('idempotency-key')
  return key !== undefined && key.length >= MIN_KEY_CHARS
    ? markOf(`key ${key}`, sealer)
    : addressMark(x, sealer)
}

/** Marks of addresses that called lately, a hundred bytes each: a caller comes again, and a mark is two hashes (bench/paid.ts). */
const MAX_MARKS = 4_096
const addressMarks = new WeakMap<Pick<Sealer, 'mac'>, Map<string, string>>()

/** By the address alone, whatever key came with the call. */
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
 * What is kept of the call that a payment buys: its hash, and its caller's mark.
 * @param mark null where whoever repeats it is answered
 */
export const boughtBy = (hash: string, mark: string | null): string =>
  mark === null ? hash : `${hash}:${mark}`

/** Whether a call is the one that was kept by {@link boughtBy}, whoever makes it. @param hash null: it can't be said, so it is not */
export const isSameCall = (kept: string, hash: string | null): boolean =>
  hash !== null && kept.startsWith(hash)

const LONG = 'stream:'

/** What is kept of a call whose body is too long to be compared. */
export const boughtByLong = (): string => LONG + randomUUID()

/** Whether a call may be the one that was kept by {@link boughtByLong}. @param hash of this call; null where its body is too long as well */
export const mayBeSameCall = (kept: string, hash: string | null): boolean =>
  hash === null && kept.startsWith(LONG)

/**
 * Whether it comes from who made it first, as far as that was noted. Who sends a key only when he repeats is known by the address.
 * @param mark of this call, by {@link callerMark}; null where everybody is
 */
export const isSameCaller = (
  kept: string,
  mark: string | null,
  x: Exchange,
  sealer: Pick<Sealer, 'mac'>,
): boolean => {
  if (mark === null || kept.length === hashChars) return true
  const noted = kept.slice(hashChars + 1)
  return noted === mark || noted === addressMark(x, sealer)
}

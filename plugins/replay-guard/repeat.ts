import type { Link, ServedLink } from '../../core/domain/link.ts'
import type { PaymentRecord, PaymentState } from '../../core/domain/payment.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { callerOf } from '../../core/http/caller.ts'

import { judgeUncharged } from '../../core/payments/claimLoop.ts'
import { mayResume } from '../../core/payments/reconciliation.ts'
import {
  boughtByAnother,
  hasBought,
  notCompared,
  notStored,
  refundOwed,
  stillPending,
  wasDelivered,
} from '../../core/payments/refusals.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Counters, Taken } from '../../core/ports/counters.ts'
import type { Links } from '../../core/ports/store/links.ts'
import { hasSamePricedHeaders } from './pricedHeaders.ts'
import { isSameCall, whileThere } from './running.ts'

export interface RepeatRules {
  readonly replayWindowMs: number
  readonly now: () => number
}

/** What a call does if another request has claimed its payment. */
export type RepeatDecision =
  /** Wait, because the call that claimed the payment may still get its response. */
  | 'wait'
  /** Claim the payment again, because it was not sent to the chain. */
  | 'claim'
  /** Send the stored response. */
  | 'stored'
  /** Call the seller's API now. The payment was to be charged before that call, and landed only after its request had ended. */
  | 'resume'

/**
 * Decides what a call gets if another request has claimed its payment. In every state of the payment, the result is correct for the
 * buyer, and never asks for a second payment for the same call.
 *
 * @param link the link of the same call, by {@link linkOfRepeat}. Undefined for a different call
 * @param isBuyers false if the call may come from a stranger, who can copy a payment that is on chain
 * @param mayBeSame true if the bodies of both calls are too long to be compared
 * @throws the error for the caller if the call can neither wait nor get a response
 */
export function judgeRepeat(
  record: PaymentRecord,
  link: Link | undefined,
  isBuyers: boolean,
  rules: RepeatRules,
  mayBeSame = false,
): RepeatDecision {
  const isSame = link !== undefined
  if (mayBeSame && underWay.has(record.state)) throw notCompared(record)
  const decision = judgeUncharged(record, isSame)
  if (decision !== undefined) return decision
  if (record.state === 'refund_due') {
    // If the link is deleted, the gateway no longer calls its seller's API.
    const maySay = mayResume(record) && isRecent(record, rules) && link?.isActive !== false
    if (isBuyers && maySay && link?.settle === 'before') return 'resume'
    throw refundOwed(record, maySay)
  }
  const isDelivered = record.state === 'delivered'
  if (isSame && !isBuyers) throw boughtByAnother(record)
  // The payment was charged first. Its response is still to come, or the failure of its call is not recorded yet.
  if (!isDelivered && !record.hasResponse) return 'wait'
  if (!isSame) throw mayBeSame ? notCompared(record) : hasBought(record)
  // A response that never reached its buyer is available as long as it is stored. A delivered response is repeated only for a short
  // time.
  if (isDelivered && !(record.hasResponse && isRecent(record, rules))) throw wasDelivered(record)
  return 'stored'
}

/** States in which a call or recovery is working on a payment. */
const underWay: ReadonlySet<PaymentState> = new Set<PaymentState>([
  'claimed',
  'settling',
  'pending',
  'reorged',
])

/** What a payment was used for. */
export interface Bought {
  /** The link that was called. Null if the payment was not for a call of a link. */
  readonly linkId: string | null
  /** The stored value of {@link boughtBy}, or of {@link boughtByLong} if the body is too long to compare. */
  readonly requestHash: string
}

/**
 * The link for which a payment was used, if this call is the same call again. Undefined for a different call. If the link was
 * deleted, the call must come to its address, which another link may have now. If no link has that address, any address without a
 * link is accepted, because payment and request suffice. An exception is a link with a secret address: the call must come to that
 * address or to the link's previous one.
 *
 * @param hash hash of this call. Null if its body is too long to compare
 */
export function linkOfRepeat(
  x: Exchange,
  { linkId, requestHash }: Bought,
  hash: string | null,
  links: Pick<Links, 'find'>,
): Link | undefined | Promise<Link | undefined> {
  if (!isSameCall(requestHash, hash) || linkId === null || !hasSamePricedHeaders(requestHash, x))
    return undefined
  return linkId === x.link.id ? x.link : formerLink(x.link, linkId, links)
}

async function formerLink(
  here: ServedLink,
  linkId: string,
  links: Pick<Links, 'find'>,
): Promise<Link | undefined> {
  const link = await links.find(linkId)
  if (link === undefined) return undefined
  const isHeir = !link.isActive && link.storeId === here.storeId && addressOf(link) === addressOf(here)
  // The result is marked as inactive, because no seller's API may be called for it.
  return (here.isActive ? isHeir : mayReadLink(here, link)) ? { ...link, isActive: false } : undefined
}

/**
 * Whether a call to an address without a link may get what was bought from a deleted link. A stranger can read payment and request
 * on chain or guess them, but not a secret address.
 */
const mayReadLink = (here: Link, { isStealth, slug, privateSlug }: Link): boolean =>
  !isStealth || here.slug === privateSlug || here.slug === slug

const addressOf = ({ isStealth, privateSlug, slug }: Link): string | null => (isStealth ? privateSlug : slug)

/** The error for a call that has waited for the first call with its payment as long as it may. */
export const notInTime = (record: PaymentRecord, isRunningHere: boolean): TollgateError =>
  // A streamed response that was not stored cannot be sent again, so waiting longer would not help.
  record.state !== 'settled' || isRunningHere ? stillPending(record) : notStored(record)

/** The error for a repeated call whose stored response is larger than the free memory. */
export const noMemory = ({ purchaseId }: PaymentRecord): TollgateError =>
  new TollgateError(
    'upstream_busy',
    'The gateway has no free memory for this response. You were charged. Repeat the same call with the same payment to get its response.',
    { retryAfterSeconds: 1, extra: { purchaseId } },
  )

/** Whether a payment was claimed so recently that a repeat of its call gets the response. */
const isRecent = ({ claimedAtMs }: PaymentRecord, { replayWindowMs, now }: RepeatRules): boolean =>
  now() - claimedAtMs <= replayWindowMs

/** The window in which repeats of large responses are counted, in ms. */
const WINDOW_MS = 60_000
/**
 * Maximum bytes of large stored responses that a single payment gets again in a window. A response that is larger is sent once per
 * window.
 */
const MAX_PAYMENT_BYTES = 64 * 1_048_576
/** Maximum bytes of large stored responses that a single caller gets again in a window, with all of its payments. */
const MAX_CALLER_BYTES = 256 * 1_048_576
/** Delay of a refused repeat, in ms. Otherwise clients that repeat at once would load the gateway by refusals alone. */
const REFUSAL_DELAY_MS = 1_000
/** Maximum payments whose response is remembered as large. */
const MAX_KNOWN = 1_000

/**
 * Limits how often large stored responses are sent again. A repeat costs the gateway milliseconds, but the buyer has paid only
 * once. Without a limit, a few clients that repeat one payment would slow down the calls of all other buyers.
 */
export class LargeRepeats {
  readonly #counters: Pick<Counters, 'take'>
  readonly #clock: Clock
  readonly #bytesByKey = new Map<string, number>()

  constructor(counters: Pick<Counters, 'take'>, clock: Clock) {
    this.#counters = counters
    this.#clock = clock
  }

  /** Remembers the size of a large response. @returns false if the payment was already known */
  note({ key }: PaymentRecord, bytes: number): boolean {
    if (this.#bytesByKey.has(key)) return false
    if (this.#bytesByKey.size === MAX_KNOWN) this.#bytesByKey.clear()
    this.#bytesByKey.set(key, bytes)
    return true
  }

  /**
   * Counts a repeat whose response is known to be large.
   *
   * @throws `rate_limited`, after a pause, if the payment or its caller has reached its limit
   */
  async admit(x: Exchange, record: PaymentRecord): Promise<void> {
    const bytes = this.#bytesByKey.get(record.key)
    if (bytes === undefined) return
    const taken = await this.#takeShare(x, record, bytes)
    if (taken.ok) return
    let timer: NodeJS.Timeout | undefined
    await whileThere(x, new Promise((resolve) => (timer = setTimeout(resolve, REFUSAL_DELAY_MS))))
    clearTimeout(timer)
    throw tooOften(record, Math.max(1, Math.ceil((taken.resetAtMs - this.#clock.now()) / 1_000)))
  }

  async #takeShare(x: Exchange, { key }: PaymentRecord, bytes: number): Promise<Taken> {
    const points = Math.min(bytes, MAX_PAYMENT_BYTES)
    const ofPayment = await this.#counters.take(`repeat:${key}`, points, MAX_PAYMENT_BYTES, WINDOW_MS)
    if (!ofPayment.ok) return ofPayment
    return this.#counters.take(`repeats-of:${callerOf(x.clientIp)}`, points, MAX_CALLER_BYTES, WINDOW_MS)
  }
}

const tooOften = ({ purchaseId }: PaymentRecord, retryAfterSeconds: number): TollgateError =>
  new TollgateError(
    'rate_limited',
    `This response is large and has reached its limit of repeats for now. You were charged once. Repeat the same call with the same payment in ${retryAfterSeconds} s.`,
    { retryAfterSeconds, extra: { purchaseId } },
  )

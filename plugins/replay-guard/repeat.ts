import type { Link, ServedLink } from '../../core/domain/link.ts'
import type { PaymentRecord, StoredAnswer } from '../../core/domain/payment.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { contentTypeOf } from '../../core/http/contentType.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import type { PurchaseNotes } from '../../core/payments/purchase.ts'
import {
  boughtByAnother,
  failedForGood,
  hasBought,
  notCompared,
  notKept,
  refundOwed,
  stillPending,
  waiting,
  wasDelivered,
  wasRefunded,
} from '../../core/payments/refusals.ts'
import { mayResume } from '../../core/payments/rules.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Reply } from '../../core/plugin/reply.ts'
import type { Links } from '../../core/ports/store/links.ts'
import { receiptHeaders } from '../../core/x402/header.ts'
import { isSameCall } from './running.ts'

export interface RepeatRules {
  readonly replayWindowMs: number
  readonly now: () => number
}

/** What a call may do whose payment somebody has already. */
export type RepeatWay =
  /** Its answer is still to come. */
  | 'wait'
  /** Nothing was sent for the payment: it may be claimed again. */
  | 'claim'
  /** It gets the answer that is kept. */
  | 'stored'
  /** It was charged before the seller was asked, and landed when nobody waited any more: the seller is asked now. */
  | 'resume'

/**
 * What a call gets whose payment somebody has already. Whatever state the payment is in, what is said is true for whoever
 * holds it, and never asks for a second payment of the same call.
 *
 * @param link whose call it is, by {@link linkOfRepeat}; undefined for another call
 * @param isBuyers false where it may come from a stranger: what is on chain can be copied from there
 * @param mayBeSame the bodies of both are too long to be compared
 * @throws what the caller hears when there is nothing to wait for and nothing to get
 */
export function judgeRepeat(
  record: PaymentRecord,
  link: Link | undefined,
  isBuyers: boolean,
  rules: RepeatRules,
  mayBeSame = false,
): RepeatWay {
  const isSame = link !== undefined
  const otherCall = () => (mayBeSame ? notCompared(record) : hasBought(record))
  switch (record.state) {
    case 'rejected':
      return 'claim'
    case 'claimed':
    case 'settling':
    case 'pending':
    case 'reorged':
      if (mayBeSame) throw notCompared(record)
      return waiting(record, isSame)
    case 'failed_final':
      throw failedForGood(record)
    case 'settled':
      // Charged first, and its answer is still on its way, or nobody has noted yet that there is none.
      if (isSame && !isBuyers) throw boughtByAnother(record)
      if (!record.hasAnswer) return 'wait'
      if (isSame) return 'stored'
      throw otherCall()
    case 'delivered':
      if (!isSame) throw otherCall()
      if (!isBuyers) throw boughtByAnother(record)
      // What the buyer paid for and never got stays for as long as it is kept; a second helping is for retries only.
      if (!record.hasAnswer || !isRecent(record, rules)) throw wasDelivered(record)
      return 'stored'
    case 'refund_due': {
      // Of a link that is gone nobody is asked any more.
      const maySay = mayResume(record) && isRecent(record, rules) && link?.isActive !== false
      if (isBuyers && maySay && link?.settle === 'before') return 'resume'
      throw refundOwed(record, maySay)
    }
    case 'refunded':
      throw wasRefunded(record)
  }
}

/** What a payment was used for. */
export interface Bought {
  /** Null where it was no link's call. */
  readonly linkId: string | null
  /** As it was kept, with its caller's mark; of a body that is too long to compare no call has the same. */
  readonly requestHash: string
}

/**
 * The link that a payment was used for, where this is the same call again; undefined for another call. The link may be gone
 * by now: then it is whose address the call comes to. Where no link is any more, payment and request say all, but for one with a
 * secret address: that, or the one that it had before, has to be called.
 *
 * @param hash of this call; null for a body that is too long to compare
 */
export function linkOfRepeat(
  x: Exchange,
  { linkId, requestHash }: Bought,
  hash: string | null,
  links: Pick<Links, 'find'>,
): Link | undefined | Promise<Link | undefined> {
  if (!isSameCall(requestHash, hash) || linkId === null) return undefined
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
  // Nobody is asked at an address that is no link's.
  return (here.isActive ? isHeir : mayHear(here, link)) ? { ...link, isActive: false } : undefined
}

/** Payment and request stand on chain, or can be guessed: of a secret address that is what a stranger lacks. */
const mayHear = (here: Link, { isStealth, slug, privateSlug }: Link): boolean =>
  !isStealth || here.slug === privateSlug || here.slug === slug

const addressOf = ({ isStealth, privateSlug, slug }: Link): string | null => (isStealth ? privateSlug : slug)

/** What a call gets that has waited for the first one with its payment for as long as it may. */
export const notInTime = (record: PaymentRecord, isRunningHere: boolean): TollgateError =>
  // An answer that is streamed and not kept can't be handed out again, however long one waits.
  record.state !== 'settled' || isRunningHere ? stillPending(record) : notKept(record)

/** What a repeat gets whose answer is kept, and larger than there is memory for now. */
export const noMemory = ({ purchaseId }: PaymentRecord): TollgateError =>
  new TollgateError(
    'upstream_busy',
    'The gateway holds as many answers as it has memory for. You were charged; repeat the same call with the same payment to have it answered.',
    { retryAfterSeconds: 1, extra: { purchaseId } },
  )

/** Whether a payment was claimed so lately that a repeat of its call is answered. */
const isRecent = ({ claimedAtMs }: PaymentRecord, { replayWindowMs, now }: RepeatRules): boolean =>
  now() - claimedAtMs <= replayWindowMs

/** A kept answer, as it would have been given. */
export function storedReply(
  x: Exchange,
  record: PaymentRecord,
  link: Link,
  answer: StoredAnswer,
  notes: PurchaseNotes,
): Reply {
  const note = notes.of(record.purchaseId, link.responseMode === 'wrap')
  const isStream = link.settle === 'before'
  return paidReply(answer, mediaTypeOf(answer.headers), note, storedReceipt(x, record), isStream)
}

/** The receipt of a payment that is settled. */
export function storedReceipt(x: Exchange, record: PaymentRecord): readonly string[] {
  return receiptHeaders(x.payment!.payload.x402Version, {
    success: true,
    transaction: record.transaction ?? '',
    network: record.network,
    payer: record.payer,
    amount: (record.chargedAtomic ?? record.amountAtomic).toString(),
  })
}

function mediaTypeOf(headers: readonly string[]): string {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]!.length === 12 && headers[i]!.toLowerCase() === 'content-type') {
      return contentTypeOf(headers[i + 1]!).mediaType
    }
  }
  return ''
}

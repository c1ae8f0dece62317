import { hash } from 'node:crypto'
import { landedLate, type PaymentIdentity, type PaymentRecord } from '../../core/domain/payment.ts'
import { isPayable, type Session, statusOf } from '../../core/domain/session.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { PaidFor, PresentedPayment } from '../../core/payments/payments.ts'
import {
  failedForGood,
  hasBought,
  refundOwed,
  sessionNotOpen,
  settlementPending,
  stillPending,
  waiting,
  wasRefunded,
} from '../../core/payments/refusals.ts'
import { refusalOf } from '../../core/x402/presentPayment.ts'
import type { Api } from '../deps.ts'

/** So long a repeat waits for the first request with the same payment, in ms; then it hears that it is open. */
const JOIN_MS = 20_000

type PayingApi = Pick<Api, 'payments' | 'sessions' | 'links' | 'clock'>

/** A payment that has paid a session, for its receipt. */
export type Paid = Pick<PaymentIdentity, 'network' | 'payer' | 'amountAtomic'> & {
  readonly transaction: string
  readonly purchaseId: string
  /** By this very request. A caller who repeats a payment may have read it on chain. */
  readonly isOwn: boolean
}

/**
 * Pays a session: claims the payment, asks whether it can be settled, settles it, and books it in the commit that confirms the
 * session. The same payment sent again, at once or later, hears the same; of two payments one is charged.
 *
 * @throws what the buyer hears when it is not paid: `invalid_payment`, `SESSION_NOT_OPEN`, `api_suspended`, `payment_already_used`, `settlement_pending`,
 *   `settlement_unavailable`
 */
export async function paySession(
  api: PayingApi,
  session: Session,
  presented: PresentedPayment,
): Promise<Paid> {
  const { payments } = api
  const call: PaidFor = {
    ...{ linkId: session.linkId, sessionId: session.id, storeId: session.storeId },
    ...{ requestHash: hash('sha256', `session ${session.id}`), settlesFirst: false },
  }
  const endMs = performance.now() + JOIN_MS
  let seen: PaymentRecord | undefined
  for (;;) {
    if (seen === undefined) {
      const claimed = await claim(api, session, presented, call)
      if ('won' in claimed) return settle(api, session, presented, claimed.won)
      seen = claimed.lost
    }
    const paid = judge(seen, session)
    if (paid === 'again') {
      seen = undefined
      continue
    }
    if (paid !== 'wait') return paid
    const leftMs = endMs - performance.now()
    const next = leftMs > 0 ? await payments.changed(seen, leftMs) : undefined
    if (next === undefined) throw stillPending(seen)
    seen = next
  }
}

type Claimed = Awaited<ReturnType<Api['payments']['claim']>>

/** A payment that can't be claimed now may have paid this session before. */
async function claim(
  api: PayingApi,
  { id }: Session,
  presented: PresentedPayment,
  call: PaidFor,
): Promise<Claimed> {
  const { payments, sessions, clock } = api
  const session = await sessions.find(id)
  const isOpen = session !== undefined && isPayable(session, clock.now())
  const refused = !isOpen
    ? notPayable(session, clock.now())
    : (presented.unclaimable ?? (await pausedLinkOf(api, session)))
  if (refused === undefined) return payments.claim(presented, call)
  const record = await payments.find(presented.identity.key)
  if (record !== undefined && record.state !== 'rejected') return { lost: record }
  throw refused
}

/**
 * Nobody begins to pay for what is not there: a link whose API does not answer, as a call of it would not be sold either, or
 * one that was deleted while its session was made.
 *
 * @returns why, or undefined
 */
async function pausedLinkOf(
  { links }: Pick<Api, 'links'>,
  { linkId }: Pick<Session, 'linkId'>,
): Promise<TollgateError | undefined> {
  if (linkId === null) return
  const link = await links.find(linkId)
  if (!link?.isActive) return sessionNotOpen('is for a link that was deleted')
  if (link.suspension === null) return
  const message =
    'The API that this session sells is not answering; its link is paused. You were not charged.'
  return new TollgateError('api_suspended', message, { retryAfterSeconds: 60 })
}

/** @returns why no payment can begin to pay the session now: `SESSION_NOT_OPEN`, `api_suspended`; or undefined */
export async function notForSale(
  api: Pick<Api, 'links' | 'clock'>,
  session: Session | undefined,
): Promise<TollgateError | undefined> {
  const nowMs = api.clock.now()
  if (session === undefined || !isPayable(session, nowMs)) return notPayable(session, nowMs)
  return pausedLinkOf(api, session)
}

function notPayable(session: Session | undefined, nowMs: number): TollgateError {
  if (session === undefined) return sessionNotOpen()
  const status = statusOf(session, nowMs)
  return sessionNotOpen(status === 'open' ? 'is being paid by another payment' : `is ${status}`)
}

async function settle(
  { payments, sessions, clock }: PayingApi,
  { id }: Session,
  { identity }: PresentedPayment,
  paid: Extract<Claimed, { won: unknown }>['won'],
): Promise<Paid> {
  let isBooked = false
  let reason: string | undefined
  try {
    const verified = await payments.verify(paid)
    if (!verified.ok) throw refusalOf(verified)
    const end = await payments.settle(paid, null)
    switch (end.status) {
      case 'settled': {
        await payments.record(paid)
        isBooked = true
        const { network, payer } = identity
        return {
          purchaseId: paid.purchaseId,
          isOwn: true,
          transaction: end.transaction ?? '',
          network,
          payer,
          amountAtomic: end.chargedAtomic,
        }
      }
      case 'pending':
        throw settlementPending(
          'The payment was sent and its outcome is not known yet.',
          ...([paid.purchaseId, end.transaction, end.reason] as const),
        )
      case 'failed':
        throw failedForGood({ errorReason: end.reason }, end.transaction)
      default:
        throw refusalOf({ ok: false, ...end })
    }
  } catch (error) {
    reason = error instanceof TollgateError ? error.code : 'internal_error'
    if (reason !== 'SESSION_NOT_OPEN') throw error
    // It was open a moment ago: somebody else has begun to pay it, or ended it.
    throw notPayable(await sessions.find(id), clock.now())
  } finally {
    payments.deliver(paid, isBooked ? 'delivered' : 'not_charged', undefined, reason)
  }
}

/** What a payment hears that somebody has already, mostly itself. */
function judge(record: PaymentRecord, session: Session): Paid | 'wait' | 'again' {
  const isSame = record.sessionId === session.id
  const { state, purchaseId, network, payer } = record
  switch (state) {
    case 'rejected':
      return 'again'
    case 'claimed':
    case 'settling':
    case 'pending':
    case 'reorged':
      return waiting(record, isSame)
    case 'failed_final':
      throw failedForGood(record)
    case 'settled':
    case 'delivered': {
      if (!isSame) throw hasBought(record)
      const amountAtomic = record.chargedAtomic ?? record.amountAtomic
      const transaction = record.transaction ?? ''
      return { purchaseId, isOwn: false, transaction, network, payer, amountAtomic }
    }
    case 'refund_due':
      throw refundOwed(record, !isSame && record.errorReason === landedLate)
    case 'refunded':
      throw wasRefunded(record)
  }
}

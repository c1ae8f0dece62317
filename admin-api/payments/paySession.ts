import { hash } from 'node:crypto'
import { landedLate, type PaymentIdentity, type PaymentRecord } from '../../core/domain/payment.ts'
import { isPayable, type Session, statusOf } from '../../core/domain/session.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { refusalOf } from '../../core/offers/presentedPayment.ts'
import { type Claimant, claimOrFollow, judgeUncharged, type Verdict } from '../../core/payments/claimLoop.ts'
import type { PaidFor, PresentedPayment } from '../../core/payments/payments.ts'
import {
  failedForGood,
  hasBought,
  refundOwed,
  sessionNotOpen,
  settlementPending,
  stillPending,
} from '../../core/payments/refusals.ts'
import type { Api } from '../deps.ts'

/** How long a repeated request waits for the first one with the same payment, in ms, before it gets `settlement_pending`. */
const MAX_JOIN_MS = 20_000

type PayingApi = Pick<Api, 'payments' | 'sessions' | 'links' | 'clock'>

/** A payment that has paid a session. The receipt shows it. */
export type Paid = Pick<PaymentIdentity, 'network' | 'payer' | 'amountAtomic'> & {
  readonly transaction: string
  readonly purchaseId: string
  /** Whether this request itself paid. A caller that repeats a payment may have copied it from the chain. */
  readonly isOwn: boolean
}

/**
 * Pays a session. It claims the payment, checks whether it can be settled, settles it, and records it in the commit that confirms
 * the session. If the same payment is sent again, at the same time or later, it gets the same response. If two different payments
 * are sent, only one is charged.
 *
 * @throws the refusal for an unpaid request: `invalid_payment`, `SESSION_NOT_OPEN`, `api_suspended`, `payment_already_used`,
 * `payment_id_reused`, `settlement_pending`, `settlement_unavailable`
 */
export async function paySession(
  api: PayingApi,
  session: Session,
  presented: PresentedPayment,
): Promise<Paid> {
  const { payments } = api
  const call: PaidFor = {
    linkId: session.linkId,
    sessionId: session.id,
    storeId: session.storeId,
    requestHash: hash('sha256', `session ${session.id}`),
    settlesFirst: false,
  }
  const endMs = performance.now() + MAX_JOIN_MS
  const claimed = await claim(api, session, presented, call)
  if ('won' in claimed) return settle(api, session, presented, claimed.won)
  const follower: Claimant<Paid> = {
    judge: (seen) => (seen === undefined ? 'claim' : judge(seen, session, endMs)),
    claim: () => claim(api, session, presented, call),
    won: (paid) => settle(api, session, presented, paid),
    changed: (seen, waitMs) => payments.changed(seen, waitMs),
    late(seen) {
      throw stillPending(seen)
    },
  }
  return claimOrFollow(follower, claimed.lost)
}

type Claimed = Awaited<ReturnType<Api['payments']['claim']>>

/** Claims the payment. If it cannot be claimed now, it may already have paid this session. */
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
 * The link of a session, if no payment can start for it. This is so for a link whose API is down, because its calls are not sold
 * either. It is also so for a link that was deleted after its session was created.
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
    'The API that this payment session sells is down, and its link is suspended. You were not charged.'
  return new TollgateError('api_suspended', message, { retryAfterSeconds: 60 })
}

/** @returns why no payment for the session can start now (`SESSION_NOT_OPEN`, `api_suspended`); undefined if one can start */
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
  let isRecorded = false
  let reason: string | undefined
  try {
    const verified = await payments.verify(paid)
    if (!verified.ok) throw refusalOf(verified)
    const end = await payments.settle(paid, null)
    switch (end.status) {
      case 'settled': {
        await payments.record(paid)
        isRecorded = true
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
          paid.purchaseId,
          end.transaction,
          end.reason,
        )
      case 'failed':
        throw failedForGood({ errorReason: end.reason }, end.transaction)
      default:
        throw refusalOf({ ok: false, ...end })
    }
  } catch (error) {
    reason = error instanceof TollgateError ? error.code : 'internal_error'
    if (reason !== 'SESSION_NOT_OPEN') throw error
    // The session was open a moment ago. Since then it has ended, or another payment for it is being settled.
    throw notPayable(await sessions.find(id), clock.now())
  } finally {
    payments.deliver(paid, isRecorded ? 'delivered' : 'not_charged', undefined, reason)
  }
}

/** The response to a request whose payment was claimed before. Usually the same request was sent earlier. */
function judge(record: PaymentRecord, session: Session, endMs: number): Verdict<Paid> {
  const isSame = record.sessionId === session.id
  const decision = judgeUncharged(record, isSame)
  if (decision === 'claim') return decision
  if (decision === 'wait') return { seen: record, waitMs: endMs - performance.now() }
  if (record.state === 'refund_due') throw refundOwed(record, !isSame && record.errorReason === landedLate)
  if (!isSame) throw hasBought(record)
  const { purchaseId, network, payer } = record
  return {
    result: {
      purchaseId,
      isOwn: false,
      transaction: record.transaction ?? '',
      network,
      payer,
      amountAtomic: record.chargedAtomic ?? record.amountAtomic,
    },
  }
}

import { bookable } from '../domain/ledger.ts'
import type { AtomicAmount } from '../domain/money.ts'
import {
  isSentFirst,
  landedLate,
  mayMove,
  notCollected,
  type PaymentRecord,
  type PaymentState,
  type SettlementAttempt,
  type StoredResponse,
} from '../domain/payment.ts'
import type { PurchaseStatus } from '../domain/purchase.ts'
import type { Durability, PaymentChange, SessionMove } from '../ports/store/ledger.ts'
import type { DeliveryOutcome } from './payments.ts'
import { purchaseOf, type Sale } from './purchase.ts'

/**
 * Changes that a call makes to its payment, from storing the signed bytes to storing the response. The changes of payments for
 * which no call waits are in reconciliation.ts. Each change requires that the row still has the expected claim, state and lease.
 */

/** A row, its claim, and the lease that the row must have. */
export type Held = Pick<PaymentChange, 'row' | 'purchaseId' | 'lease'> & {
  /** The payment session of the payment. Absent or null for a call. */
  readonly sessionId?: string | null
}

/** A row with its state, as its call has last written it or as it was read. */
export type Standing = Held & { readonly state: PaymentState }

/** A row that was read, with the fields on which the rules depend. */
export type Read = Standing &
  Pick<PaymentRecord, 'hasResponse' | 'errorReason' | 'chargedAtomic' | 'requestHash'>

/** A lease id that no process ever gets. Recovery takes over rows with this id. */
const NO_LEASE = 0
/** `dueInMs` of a row that recovery never checks, because a call works on the row or nothing is left to do. */
const NEVER = null
/** `dueInMs` of a row that recovery checks at once. */
export const AT_ONCE = 0
/** How long recovery waits before it checks the outcome of a transaction that was just sent, in ms. */
export const SOON_MS = 2_000
/**
 * How long recovery waits before it checks the chain again, in ms. A transfer that landed may be reorganized, and a transfer that
 * was given up may land.
 */
export const CHECK_MS = 30_000

/**
 * @param more the fields to write besides the state
 * @throws for a transition that the payment's states do not allow, because such a mistake must not reach the ledger
 */
export function move(
  { row, purchaseId, lease }: Held,
  from: readonly PaymentState[],
  to: PaymentState,
  dueInMs: number | null,
  durability: Durability,
  more?: Partial<PaymentChange>,
): PaymentChange {
  for (const state of from) {
    if (state !== to && !mayMove(state, to))
      throw new Error(`Expected an allowed transition of a payment's states, got ${state} to ${to}.`)
  }
  return { row, from, lease, purchaseId, to, dueInMs, durability, ...more }
}

/** The effect of a change on the payment's session, if the payment has one. */
const inSession = ({ sessionId }: Held, does: SessionMove['does']): Pick<PaymentChange, 'session'> =>
  sessionId == null ? {} : { session: { id: sessionId, does } }

/**
 * `claimed` → `settling`. Stores the signed bytes and the seller's response before the broadcast. Flushed, because after a power
 * cut recovery needs the bytes to find their outcome.
 *
 * @param chargingAtomic the amount that is being charged, if it is less than the authorized amount
 */
export const begin = (
  payment: Held,
  attempt: SettlementAttempt,
  response: StoredResponse | null,
  chargingAtomic?: AtomicAmount,
): PaymentChange =>
  move(payment, ['claimed'], 'settling', NEVER, 'flushed', {
    attempt,
    ...(response !== null && { response }),
    ...(chargingAtomic !== undefined && { settled: { ...notLanded, chargedAtomic: chargingAtomic } }),
    ...inSession(payment, 'take'),
  })

/** The facts of a transfer that was not seen on chain. */
const notLanded = { transaction: null, event: null, block: null }

/**
 * `settling` stays, with other bytes that are about to be sent. The earlier bytes were never sent, or were mined and reverted.
 * Flushed like the earlier bytes. The response that was stored with those stays.
 */
export const beginAgain = (payment: Held, attempt: SettlementAttempt): PaymentChange =>
  move(payment, ['settling'], 'settling', NEVER, 'flushed', { attempt })

/**
 * `claimed`, `settling`, `pending` → `rejected`. Nothing was sent or can ever be sent, so the buyer can use the payment again.
 * Flushed if bytes are stored, because after a power cut recovery would send them although the buyer was told that nothing was
 * charged.
 */
export function free(payment: Standing, reason?: string): PaymentChange {
  const why = reason === undefined ? {} : { errorReason: reason }
  return payment.state === 'claimed'
    ? move(payment, ['claimed'], 'rejected', NEVER, 'visible', why)
    : move(payment, [payment.state], 'rejected', NEVER, 'flushed', {
        ...why,
        attempt: null,
        response: null,
        ...inSession(payment, 'release'),
      })
}

/** `settling` → `pending`. The transaction was sent, and recovery finds its outcome. */
export const pend = (payment: Held, reason: string, dueInMs = SOON_MS): PaymentChange =>
  move(payment, ['settling'], 'pending', dueInMs, 'visible', { errorReason: reason })

/** `settling`, `pending`, `reorged` → `failed_final`. This gateway can never land the payment. */
export const giveUp = (payment: Standing, reason: string): PaymentChange =>
  move(payment, [payment.state], 'failed_final', CHECK_MS, 'visible', {
    errorReason: reason,
    ...inSession(payment, 'fail'),
  })

/**
 * `settling` → `settled`, by the call that settled the payment. Payment, purchase and ledger entries are in one commit. Flushed if
 * the gateway calls the seller's API afterwards, or if a facilitator's response is the only trace. In other cases attempt and
 * response are already on disk, so that another process can record the same purchase from them.
 */
export function sell(
  payment: Held,
  sale: Sale,
  attempt: SettlementAttempt | null,
  settlesFirst: boolean,
): PaymentChange {
  if (payment.sessionId != null) return confirm(payment, 'settling', sale)
  const isTraced = attempt !== null && attempt.transaction !== ''
  return booked(payment, 'settling', 'settled', sale, settlesFirst || !isTraced ? 'flushed' : 'visible')
}

/**
 * `claimed` → `settled`, for a call that costs nothing. Nothing is sent to the chain. Flushed, because this change is the only trace
 * that the payment has bought a call.
 */
export const sellForNothing = (
  payment: Held,
  sale: Omit<Sale, 'landed'>,
  response: StoredResponse | null,
): PaymentChange => ({
  ...booked(
    payment,
    'claimed',
    'settled',
    { ...sale, landed: { ...notLanded, chargedAtomic: 0n } },
    'flushed',
  ),
  ...(response !== null && { response }),
})

/**
 * The payment of a payment session has landed. One commit records it, delivers it and confirms the session. Flushed, because a
 * session that was seen confirmed must never be open again.
 */
export function confirm(payment: Held, from: PaymentState, sale: Sale): PaymentChange {
  const change = booked(payment, from, 'delivered', sale, 'flushed')
  return {
    ...change,
    ...inSession(payment, 'confirm'),
    events: [...change.events!, { kind: 'payment.confirmed' }],
  }
}

/** The fields of a change for a transfer that is on chain, which include its purchase, ledger entries and webhook event. */
export function booked(
  payment: Held,
  from: PaymentState,
  to: PurchaseStatus,
  sale: Sale,
  durability: Durability = 'visible',
): PaymentChange {
  const { purchase, entries } = purchaseOf(sale)
  return move(payment, [from], to, CHECK_MS, durability, {
    errorReason: null,
    settled: sale.landed,
    purchase: to === 'settled' ? purchase : { ...purchase, status: to },
    entries: bookable(entries, purchase.id),
    events: [{ kind: 'purchase.confirmed' }],
  })
}

/** A payment in the state in which its call has left it. */
export interface Left extends Standing {
  readonly hasResponse: boolean
  /** The amount that was charged. 0 for a call that costs nothing, and null before the charge. */
  readonly chargedAtomic: AtomicAmount | null
  /** False if the settler has certainly sent nothing, even if an attempt is stored. */
  readonly hasBegun: boolean
}

/**
 * The change for a payment whose call has ended. The payment is delivered, kept until its buyer returns, owed back, freed because
 * it was never sent, or left to recovery.
 *
 * @param response the response to store for a repeated call, if the link charges first
 * @param reason why the call failed, if it did
 * @returns undefined if there is nothing to write
 */
export function conclude(
  payment: Left,
  outcome: DeliveryOutcome,
  response?: StoredResponse,
  reason?: string,
): PaymentChange | undefined {
  switch (payment.state) {
    case 'claimed':
      return free(payment, reason)
    case 'settling':
      return payment.hasBegun ? handOn(payment) : free(payment, reason)
    case 'settled':
      return concludeCharged(payment, outcome, response)
    default:
      return undefined
  }
}

function concludeCharged(
  payment: Left,
  outcome: DeliveryOutcome,
  response?: StoredResponse,
): PaymentChange | undefined {
  const kept = response === undefined || payment.hasResponse ? undefined : { response }
  if (outcome === 'delivered') return { ...deliver(payment), ...kept }
  // A buyer who did not get the response may repeat the call at any process.
  if (payment.hasResponse) return keep(payment, outcome)
  if (payment.chargedAtomic === 0n) return deliver(payment)
  if (outcome === 'seller_failed') return owe(payment, 'upstream_error')
  if (kept !== undefined) return { ...keep(payment, outcome), ...kept }
  // If the seller's API was not called, the gateway can call it when the buyer returns. If it was called, there is no response to
  // send.
  const wasAsked = outcome !== 'not_asked' && outcome !== 'not_charged'
  return owe(payment, wasAsked ? 'never_delivered' : landedLate)
}

/**
 * `settled` stays. The payment is charged, no call works on it, and its response waits for the buyer. Flushed like {@link deliver}.
 */
const keep = (payment: Held, outcome: DeliveryOutcome): PaymentChange =>
  move(payment, ['settled'], 'settled', CHECK_MS, 'flushed', {
    takenBy: null,
    ...(outcome === 'not_collected' && { errorReason: notCollected }),
  })

/**
 * `settled` → `delivered`, by the payment's call. Flushed, because only this process has recorded that it has sent the response,
 * and it forgets that after this write. If a crash of the database lost the change, the sale would be owed back.
 */
export const deliver = (payment: Held): PaymentChange =>
  move(payment, ['settled'], 'delivered', CHECK_MS, 'flushed', { purchaseStatus: 'delivered' })

/** `settled` → `delivered`, by a repeated call that got the stored response. */
export const markDelivered = ({ row, purchaseId }: Pick<Held, 'row' | 'purchaseId'>): PaymentChange => ({
  ...deliver({ row, purchaseId, lease: null }),
  errorReason: null,
})

/**
 * `settled` → `delivered` or `refund_due`, for a response that its buyer has not collected in time. If the buyer had disconnected,
 * the payment counts as delivered, because the response was available. If the gateway failed to send the response, or has none, the
 * payment is owed back. A payment that charged nothing, or whose response was sent before the charge, counts as delivered.
 */
export const expire = (payment: Read): PaymentChange =>
  payment.chargedAtomic === 0n ||
  isSentFirst(payment) ||
  (payment.hasResponse && payment.errorReason === notCollected)
    ? deliver(payment)
    : owe(payment, 'never_delivered')

/** `settled`, `delivered` → `refund_due`. A payment that has left the chain is `reorged` instead, and not owed back. */
export const owe = (payment: Standing, reason: string): PaymentChange =>
  move(payment, [payment.state], 'refund_due', CHECK_MS, 'visible', {
    errorReason: reason,
    purchaseStatus: 'refund_due',
    events: [{ kind: 'refund.due', detail: reason }],
  })

/** An open row on which no call works. Recovery processes it at once. */
export const handOn = (payment: Standing): PaymentChange =>
  move(payment, [payment.state], payment.state, AT_ONCE, 'visible')

/** An open row on which no call of its process works any more. It loses its lease, and recovery processes it at once. */
export const abandon = (payment: Standing): PaymentChange =>
  move(payment, [payment.state], payment.state, AT_ONCE, 'visible', { takenBy: NO_LEASE })

import type { LinkId, Payout, StoreId } from './link.ts'
import type { AtomicAmount } from './money.ts'
import type { NetworkId } from './network.ts'
import type { PurchaseStatus } from './purchase.ts'

/** The status of a payment session as callers see it (marketplace interface, section 3). Only `open` can change. */
export const sessionStatuses = ['open', 'confirmed', 'expired', 'canceled', 'failed'] as const
export type SessionStatus = (typeof sessionStatuses)[number]

/** How long after its creation a payment for a payment session may begin, in ms (marketplace interface, section 8). */
export const SESSION_LIFETIME_MS = 30 * 60 * 1000

/** Maximum payments for a payment session that may fail permanently. The last of them makes the session fail. */
export const MAX_SETTLEMENT_FAILURES = 3

/** Data of the seller's choice that is stored with a payment session and returned with it. */
export type SessionMetadata = Readonly<Record<string, string | number | boolean | null>>

/**
 * A seller's request for a payment of any amount, or of a link's price. The request never changes. Each other field changes once,
 * in the commit that causes the change.
 */
export interface Session {
  /** UUID. */
  readonly id: string
  /** The payee, which is a store or, for an invoice of a store's fees, that store's fee account ({@link feesAccountOf}). */
  readonly storeId: StoreId
  /** The link that is sold. Null if the request is for an amount. */
  readonly linkId: LinkId | null
  /** SHA-256 in hex of the client secret. The database stores only this hash. */
  readonly secretHash: string
  /** Decimal string in USDC, with at most 6 decimals. */
  readonly price: string
  /** The one token in which an invoice must be paid. Null if any accepted token may pay the price, converted from USDC. */
  readonly asks: AskedToken | null
  /** The store's wallets when the session was created. They do not change, because the buyer may already have read them. */
  readonly payout: Payout
  readonly title: string
  readonly description: string
  readonly successUrl: string | null
  readonly cancelUrl: string | null
  /** The origin whose pages may read the payment session. Null if none may. */
  readonly allowedOrigin: string | null
  readonly clientReferenceId: string | null
  readonly metadata: SessionMetadata
  readonly createdAtMs: number
  readonly expiresAtMs: number

  /** The stored state. The session may have expired since it was stored, see {@link statusOf}. */
  readonly state: SessionStatus
  /** When the session left the state `open`. Null while it is open. */
  readonly endedAtMs: number | null
  /** Row of the payment that is being settled for the session or has paid the session. Null if there is none. */
  readonly paymentRow: number | null
  /** Number of payments for the session that can never land. */
  readonly failures: number
  /** The payment. Null until the session is confirmed. */
  readonly paid: SessionPayment | null
}

/** An exact amount of one token. */
export interface AskedToken {
  readonly network: NetworkId
  readonly asset: string
  readonly symbol: string
  readonly decimals: number
  readonly amountAtomic: AtomicAmount
}

export interface SessionPayment {
  readonly purchaseId: string
  /** Hash or signature. Null if the payment has no transaction of its own. */
  readonly txHash: string | null
  readonly network: NetworkId
  readonly buyerWallet: string
  /** The current status of the purchase. Its transfer may have left the chain or been refunded since the session was paid. */
  readonly status: PurchaseStatus
}

/** The fields that {@link statusOf} reads. */
export type Standing = Pick<Session, 'state' | 'paymentRow' | 'expiresAtMs'>

/**
 * Whether a payment is being settled for the session. Until its outcome is known, the session can neither expire nor be canceled.
 */
export const isProcessing = ({ state, paymentRow }: Standing): boolean =>
  state === 'open' && paymentRow !== null

/** The current status. This function computes the expiry, so it does not matter when the database records it. */
export const statusOf = (session: Standing, nowMs: number): SessionStatus =>
  session.state === 'open' && !isProcessing(session) && session.expiresAtMs <= nowMs
    ? 'expired'
    : session.state

/** Whether a payment may begin to be settled for the session, or the buyer may cancel it. */
export const isPayable = (session: Standing, nowMs: number): boolean =>
  statusOf(session, nowMs) === 'open' && !isProcessing(session)

/**
 * Whether a payment that is on chain confirms the session. The payment was being settled for the session, or it was given up and no
 * other payment has taken its place. A payment that has confirmed the session and left the chain confirms it again when it comes
 * back.
 */
export const mayConfirm = (session: Standing, paymentRow: number, nowMs: number): boolean =>
  session.paymentRow === paymentRow
    ? session.state === 'open' || session.state === 'confirmed'
    : isPayable(session, nowMs)

import type { LinkId, Payout, StoreId } from './link.ts'
import type { AtomicAmount } from './money.ts'
import type { NetworkId } from './network.ts'
import type { PurchaseStatus } from './purchase.ts'

/** How a session stands for whoever asks (marketplace interface, section 3). Nothing leaves a state but `open`. */
export const sessionStatuses = ['open', 'confirmed', 'expired', 'canceled', 'failed'] as const
export type SessionStatus = (typeof sessionStatuses)[number]

/** From its creation; then nobody can begin to pay it (marketplace interface, section 8). */
export const SESSION_LIFETIME_MS = 30 * 60 * 1000

/** So many payments of a session may fail for good; the last of them fails the session. */
export const MOST_SETTLEMENT_FAILURES = 3

/** Free data of the seller's, kept with a session and given back. */
export type SessionMetadata = Readonly<Record<string, string | number | boolean | null>>

/**
 * A payment that a seller asks for: of any amount, or of a link's price. What is asked for is fixed when it is made; the
 * rest moves once, by the commit that says why.
 */
export interface Session {
  /** UUID. */
  readonly id: string
  /** Whom it is to pay: a store, or of an invoice of its fees the account of those ({@link feesAccountOf}). */
  readonly storeId: StoreId
  /** The link that is sold; null for any amount. */
  readonly linkId: LinkId | null
  /** SHA-256, hex, of the client secret: what is stored. */
  readonly secretHash: string
  /** Decimal string in USDC, at most 6 decimals. */
  readonly price: string
  /** The one token that it is paid in, where it is not whatever the price comes to in any: of an invoice. */
  readonly asks: AskedToken | null
  /** The store's wallets when it was made: its buyer may have read them then. Null where that was not kept. */
  readonly payout: Payout | null
  readonly title: string
  readonly description: string
  readonly successUrl: string | null
  readonly cancelUrl: string | null
  /** The origin whose pages may read the session; null for none. */
  readonly allowedOrigin: string | null
  readonly clientReferenceId: string | null
  readonly metadata: SessionMetadata
  readonly createdAtMs: number
  readonly expiresAtMs: number

  /** As it stands in the store; time may have ended it since: {@link statusOf}. */
  readonly state: SessionStatus
  /** When it left `open`; null while it has not. */
  readonly endedAtMs: number | null
  /** Row of the payment that is being settled for it, or has paid it; null while there is none. */
  readonly paymentRow: number | null
  /** Payments for it that can never land. */
  readonly failures: number
  /** What paid it; null until it is confirmed. */
  readonly paid: SessionPayment | null
}

/** Exactly so much of one token. */
export interface AskedToken {
  readonly network: NetworkId
  readonly asset: string
  readonly symbol: string
  readonly decimals: number
  readonly amountAtomic: AtomicAmount
}

export interface SessionPayment {
  readonly purchaseId: string
  /** Hash or signature; null where the payment has no transaction of its own. */
  readonly txHash: string | null
  readonly network: NetworkId
  readonly buyerWallet: string
  /** How that purchase stands now: its transfer may have left the chain since, or gone back to the buyer. */
  readonly status: PurchaseStatus
}

/** What {@link statusOf} looks at. */
export type Standing = Pick<Session, 'state' | 'paymentRow' | 'expiresAtMs'>

/** A payment is being settled for it: neither time nor its buyer ends it until that is known. */
export const isProcessing = ({ state, paymentRow }: Standing): boolean =>
  state === 'open' && paymentRow !== null

/** How it stands now. Expiry is read here; what the store writes of it later changes nothing. */
export const statusOf = (session: Standing, nowMs: number): SessionStatus =>
  session.state === 'open' && !isProcessing(session) && session.expiresAtMs <= nowMs
    ? 'expired'
    : session.state

/** Whether a payment may begin to be settled for it, or its buyer may cancel it. */
export const isPayable = (session: Standing, nowMs: number): boolean =>
  statusOf(session, nowMs) === 'open' && !isProcessing(session)

/**
 * Whether a payment that is on chain pays it: the one that was being settled, or, while nobody else pays, one that had been
 * given up. One that has paid it before does so again, after its transfer had left the chain.
 */
export const mayConfirm = (session: Standing, paymentRow: number, nowMs: number): boolean =>
  session.paymentRow === paymentRow
    ? session.state === 'open' || session.state === 'confirmed'
    : isPayable(session, nowMs)

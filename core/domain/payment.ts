import type { LinkId, StoreId } from './link.ts'
import type { AtomicAmount } from './money.ts'
import type { NetworkId } from './network.ts'

/** SHA-256, hex, of canonical network, asset, payer and nonce (EVM) or of network and message bytes (Solana). */
export type PaymentKey = string

/**
 * Where a payment stands. Each arrow is one durable commit, conditional on the state it leaves and on the owner.
 *
 * claimed → settling → settled → delivered
 * claimed → verified → settling   where it is worth a commit to say that the chain was asked
 * claimed, verified → rejected    nothing was broadcast; the claim may be taken again by the same payment
 * settling → rejected             the settler knows that nothing was sent after all; as above
 * settling → pending              broadcast, outcome unknown
 * settling, pending → failed_final  can never land: expired, and the nonce unused on chain
 * settling, pending → settled     found on chain
 * settled, delivered → refund_due → refunded  a seller's refund takes both arrows in one commit
 * refund_due → settled            it landed when nobody waited any more, and now its buyer is back to be served
 * settled, delivered → reorged    the transfer left the chain again
 */
export type PaymentState =
  | 'claimed'
  | 'verified'
  | 'rejected'
  | 'settling'
  | 'pending'
  | 'failed_final'
  | 'settled'
  | 'delivered'
  | 'refund_due'
  | 'refunded'
  | 'reorged'

const arrows: Readonly<Record<PaymentState, readonly PaymentState[]>> = {
  claimed: ['verified', 'settling', 'rejected'],
  verified: ['settling', 'rejected'],
  rejected: ['claimed'],
  settling: ['settled', 'pending', 'failed_final', 'rejected'],
  pending: ['settled', 'failed_final'],
  failed_final: ['refund_due'],
  settled: ['delivered', 'refund_due', 'reorged'],
  delivered: ['refund_due', 'reorged'],
  refund_due: ['refunded', 'reorged', 'settled'],
  refunded: [],
  reorged: ['settled', 'refund_due', 'failed_final'],
}

/** Whether the state machine has this arrow. Adapters refuse a transition for which it says no. */
export const mayMove = (from: PaymentState, to: PaymentState): boolean => arrows[from].includes(to)

/** Why a payment is owed back that was charged before the seller was asked, and landed when nobody waited any more. */
export const landedLate = 'landed_late'

/** States in which money may be on its way and nobody knows the outcome: the reconciler's work. */
export const unresolvedStates = ['settling', 'pending'] as const satisfies readonly PaymentState[]

/** States in which the transfer is on chain. */
export const chargedStates = [
  'settled',
  'delivered',
  'refund_due',
  'refunded',
] as const satisfies readonly PaymentState[]

/** States from which a seller may give the money back; whatever is not owed yet is owed and paid back in one commit. */
export const refundableStates = [
  'settled',
  'delivered',
  'refund_due',
] as const satisfies readonly PaymentState[]

/** The facts of a payment that are known before it is claimed; all from the link's own terms and the signed bytes. */
export interface PaymentIdentity {
  readonly key: PaymentKey
  readonly network: NetworkId
  readonly asset: string
  readonly payer: string
  /** EIP-3009 nonce (0x…), or the hex SHA-256 of the Solana message. */
  readonly nonce: string
  readonly payTo: string
  readonly amountAtomic: AtomicAmount
  /** After this time the signed bytes can not land any more, in ms since 1970; Solana: when the block hash must have expired. */
  readonly validBeforeMs: number
}

/** What was signed for the chain, stored before it is broadcast. */
export interface SettlementAttempt {
  /** Which settler signed: `evm:eip155:84532:0xabc…`, `svm:…`, or the remote facilitator's URL. */
  readonly settler: string
  /** The signed transaction, hex (EVM) or base64 (Solana); empty for a remote facilitator. */
  readonly bytes: string
  /** Hash or signature of those bytes; empty while a remote facilitator has not named it. */
  readonly transaction: string
  /** Account nonce of the settling key (EVM), as a string; null elsewhere. */
  readonly sequence: string | null
}

/** An answer kept so that a repeated call with the same payment gets it. */
export interface StoredAnswer {
  readonly status: number
  /** Flat list of name, value, name, value; as the buyer saw them. */
  readonly headers: readonly string[]
  readonly body: Uint8Array
}

/** One row of the payments table. */
export interface PaymentRecord extends PaymentIdentity {
  readonly state: PaymentState
  /** The process that works on it; the reconciler takes over when that process is silent. */
  readonly owner: string
  readonly linkId: LinkId
  readonly storeId: StoreId
  /** SHA-256, hex, of method, path, query and body of the call it buys: one payment buys one call. */
  readonly requestHash: string
  /** Fixed at the claim, so that a buyer hears it even while the settlement is pending. UUID. */
  readonly purchaseId: string
  /** The x402 payload as received, JSON: what a settler needs to go on after a crash. */
  readonly payload: string
  readonly attempt: SettlementAttempt | null
  readonly answer: StoredAnswer | null
  /** Final transaction on chain. */
  readonly transaction: string | null
  readonly errorReason: string | null
  readonly claimedAtMs: number
  readonly updatedAtMs: number
}

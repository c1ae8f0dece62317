import { hash } from 'node:crypto'
import type { LinkId, StoreId } from './link.ts'
import type { AtomicAmount } from './money.ts'
import type { NetworkId } from './network.ts'

/** SHA-256, hex, of canonical network, asset, payer and nonce (EVM) or of network and message bytes (Solana). */
export type PaymentKey = string

/** The part of a payment's key that is the same for every payment in a token. */
export const evmPaymentKeyPrefix = (network: NetworkId, asset: string): string =>
  `${network}|${asset.toLowerCase()}|`

/** The key of an EIP-3009 authorisation: SHA-256 of network, token, payer and nonce, the last three in lower case. */
export const evmPaymentKey = (prefix: string, payer: string, nonce: string): PaymentKey =>
  hash('sha256', `${prefix}${payer}|${nonce}`, 'hex')

/**
 * The key of a plain transfer, which no x402 payment has: SHA-256 of network, what names its transaction for good (an EVM
 * hash, the hash of a Solana message), and which of its transfers it is.
 */
export const transferKey = (network: NetworkId, transaction: string, event: string): PaymentKey =>
  hash('sha256', `${network}|transfer|${transaction}|${event}`, 'hex')

/** The key of a Solana payment: SHA-256 of network and message, so that signatures make no second payment of it. */
export const solanaPaymentKey = (network: NetworkId, message: Uint8Array): PaymentKey =>
  hash('sha256', Buffer.concat([Buffer.from(`${network}|`), message]), 'hex')

/**
 * A mistake of the caller's own that must not reach the tables: a key that is not 32 bytes in hex would be cut or lost, and
 * 1e300 or 0.5 ms come back as something else than was meant, or not at all.
 *
 * @throws RangeError
 */
export function requireClaimable({ key, validBeforeMs }: { key: string; validBeforeMs: number }): void {
  if (!/^[0-9a-f]{64}$/.test(key))
    throw new RangeError(`Expected a payment key of 32 bytes in lower-case hex, got ${JSON.stringify(key)}.`)
  if (!Number.isSafeInteger(validBeforeMs))
    throw new RangeError(`Expected whole milliseconds since 1970, got ${validBeforeMs}.`)
}

/**
 * Where a payment stands. Each arrow is one commit, conditional on the state it leaves and on the row's lease;
 * core/payments/rules.ts makes every one of them.
 *
 * claimed → settling → settled → delivered
 * claimed → rejected              nothing was broadcast; the claim may be taken again by the same payment
 * claimed → delivered, refund_due  a plain transfer, which was on chain before anybody told of it
 * settling → rejected             the settler knows that nothing was sent after all; as above
 * settling → pending              broadcast, outcome unknown
 * pending → rejected              its bytes were never sent, and another transaction has used their account number; as above
 * settling, pending → failed_final  can never land: expired, and the nonce unused on chain
 * settling, pending → settled     found on chain
 * settling, pending, failed_final → delivered  pays a session, which nothing else has to be handed out for
 * settling, pending → refund_due  found on chain when nobody waited any more, and there is no answer to hand out
 * failed_final → settled, refund_due  somebody else has made it land after all
 * settled, delivered → refund_due → refunded
 * settled, delivered → refunded   a seller's refund: what is not owed yet is owed and paid back in one commit
 * refund_due → settled            it landed when nobody waited any more, and now its buyer is back to be served
 * settled, delivered, refund_due → reorged  the transfer left the chain again
 * reorged → settled, delivered, refund_due  it came back: to be handed out, handed out before, or owed
 * reorged → failed_final          it can't come back any more
 */
export type PaymentState =
  | 'claimed'
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
  claimed: ['settling', 'rejected', 'delivered', 'refund_due'],
  rejected: ['claimed'],
  settling: ['settled', 'delivered', 'pending', 'failed_final', 'rejected', 'refund_due'],
  pending: ['settled', 'delivered', 'failed_final', 'refund_due', 'rejected'],
  failed_final: ['settled', 'delivered', 'refund_due'],
  settled: ['delivered', 'refund_due', 'refunded', 'reorged'],
  delivered: ['refund_due', 'refunded', 'reorged'],
  refund_due: ['refunded', 'reorged', 'settled'],
  refunded: [],
  reorged: ['settled', 'delivered', 'refund_due', 'failed_final'],
}

/** Whether the state machine has this arrow. */
export const mayMove = (from: PaymentState, to: PaymentState): boolean => arrows[from].includes(to)

/** All of them. */
export const paymentStates = Object.keys(arrows) as readonly PaymentState[]

/** Why a payment is owed back that was charged before the seller was asked, and landed when nobody waited any more. */
export const landedLate = 'landed_late'

/** Why a payment is owed back that landed after its session had ended otherwise. */
export const sessionOver = 'session_over'

/**
 * Kept with an open payment whose bytes settle several and were not stored for all of them: they were never sent, and from here on
 * nobody sends them. Its account number has to be used by something else; then the payment is as good as before.
 */
export const neverSent = 'settlement_never_sent'

/** Kept with a payment whose transfer left the chain after its answer was delivered, so that it is not owed when it returns. */
export const reorgedAfterDelivery = 'reorged_after_delivery'

/**
 * Kept with a charged payment whose buyer had hung up when its answer was ready. What the gateway itself failed to send has no such note,
 * and is owed back when its buyer has not come for it; this one counts as delivered then.
 */
export const notCollected = 'answer_not_collected'

/** Kept with a payment whose proved refund left the chain again, and why `refund.due` is told once more. */
export const refundLeftChain = 'refund_left_chain'

/** States in which money may be on its way and nobody knows the outcome: the recovery's work. */
export const unresolvedStates = ['settling', 'pending'] as const satisfies readonly PaymentState[]

/** States in which a process may be at work on a payment: only in these a row has a lease. */
export const openStates = [
  'claimed',
  'settling',
  'pending',
  'settled',
] as const satisfies readonly PaymentState[]
export type OpenState = (typeof openStates)[number]

/** States in which the transfer is on chain. */
export const chargedStates = [
  'settled',
  'delivered',
  'refund_due',
  'refunded',
] as const satisfies readonly PaymentState[]

/** States that account for a transfer that is on chain: it is charged, or what became of it is still being looked up. */
export const accountedStates: readonly PaymentState[] = [...unresolvedStates, ...chargedStates, 'reorged']

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
  /**
   * EVM: the account nonce of the settling key, as a string. Solana: a slot at which the chain knew the block hash, so that
   * a block behind it that does not know it has forgotten it. Null elsewhere, and where nobody asked.
   */
  readonly sequence: string | null
  /** The same bytes settle other payments as well, and are stored for each of them. */
  readonly isShared?: true
}

/** Whether the sequence is a number that a key's transactions have one after the other: only one of them can ever land with it. */
export const hasAccountNumber = ({ settler, sequence }: SettlementAttempt): boolean =>
  sequence !== null && settler.startsWith('evm:')

/** An attempt of a payment that is open. */
export interface OpenAttempt extends SettlementAttempt {
  /** It was on chain and left it: what was signed before it may have left as well, whatever the books say by now. */
  readonly isReorged?: true
  /** Its bytes are never sent ({@link neverSent}): whoever has the key uses up its number. */
  readonly isUnsent?: true
  /**
   * It is open no more: this very transaction has settled it not long ago. Its number is used, unless that has left the chain since,
   * which the books do not know yet: when they do, the same bytes are sent again.
   */
  readonly isMined?: true
}

/** An answer kept so that a repeated call with the same payment gets it. */
export interface StoredAnswer {
  readonly status: number
  /** Flat list of name, value, name, value; as the buyer saw them. */
  readonly headers: readonly string[]
  readonly body: Uint8Array
}

/** One row of the payments table, without its answer. */
export interface PaymentRecord extends PaymentIdentity {
  /** Number of the row: names it in every change. */
  readonly row: number
  readonly state: PaymentState
  /** x402 scheme: `exact`. */
  readonly scheme: string
  /** Lease of the process that works on it; null where nobody does. */
  readonly lease: number | null
  /** Null where no link is sold. */
  readonly linkId: LinkId | null
  /** The payment session that it pays; null for a call. */
  readonly sessionId: string | null
  readonly storeId: StoreId
  /**
   * SHA-256, hex, of method, path, query and body of the call it buys: one payment buys one call. Behind it, where it was noted,
   * `:` and a mark of who made the call: a stranger who has read the payment on chain has another.
   */
  readonly requestHash: string
  /** Fixed at the claim, so that a buyer hears it even while the settlement is pending. UUID. */
  readonly purchaseId: string
  /** The x402 payload as received, JSON: what a settler needs to go on after a crash. `{}` once it was forgotten. */
  readonly payload: string
  readonly attempt: SettlementAttempt | null
  /** Whether an answer is stored. */
  readonly hasAnswer: boolean
  /** Final transaction on chain. */
  readonly transaction: string | null
  /**
   * Which of the transaction's events is this payment's. EVM: log index, decimal; Solana: `0`; where only a facilitator's
   * word is known: `nonce:<nonce>`.
   */
  readonly event: string | null
  /** Block number (EVM) or slot (Solana) in which it was seen on chain; null where nobody saw it there. */
  readonly block: number | null
  /** What was charged, at most `amountAtomic`; null until it is known. */
  readonly chargedAtomic: AtomicAmount | null
  readonly errorReason: string | null
  /** Found on chain after it had been given up, without a purchase: rows of before 2026-11 only. */
  readonly isLandedLate: boolean
  /** How often it was put off since it last moved. */
  readonly tries: number
  /** Why it was put off, in words for the operator; null since it last moved. */
  readonly dueReason: string | null
  readonly claimedAtMs: number
  readonly updatedAtMs: number
}

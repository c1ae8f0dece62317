import { hash } from 'node:crypto'
import { base58 } from '@scure/base'
import type { LinkId, StoreId } from './link.ts'
import type { AtomicAmount } from './money.ts'
import { familyOf, type NetworkId } from './network.ts'

/**
 * Identifies a payment. It is SHA-256 in hex over network, asset, payer and nonce (EVM), or over network and message bytes
 * (Solana).
 */
export type PaymentKey = string

/** The part of an EVM payment key that is the same for every payment in a token. */
export const evmPaymentKeyPrefix = (network: NetworkId, asset: string): string =>
  `${network}|${asset.toLowerCase()}|`

/** The key of an EIP-3009 authorization. It is SHA-256 over network, token, payer and nonce, the last three in lower case. */
export const evmPaymentKey = (prefix: string, payer: string, nonce: string): PaymentKey =>
  hash('sha256', `${prefix}${payer}|${nonce}`, 'hex')

/**
 * The key of a plain transfer, which differs from the key of every x402 payment. It is SHA-256 over the network, the permanent id
 * of the transfer's transaction (an EVM hash, or the hash of a Solana message), and the transfer's index in that transaction.
 */
export const transferKey = (network: NetworkId, transaction: string, event: string): PaymentKey =>
  hash('sha256', `${network}|transfer|${transaction}|${event}`, 'hex')

/**
 * The key of a Solana payment. It is SHA-256 over network and message, so that the same message with other signatures is the same
 * payment.
 */
export const solanaPaymentKey = (network: NetworkId, message: Uint8Array): PaymentKey =>
  hash('sha256', Buffer.concat([Buffer.from(`${network}|`), message]), 'hex')

const signatureBytes = 64
/** Base58 writes 64 bytes as 64 to 88 characters. */
const signatureForm = /^[1-9A-HJ-NP-Za-km-z]{64,88}$/

/**
 * The one spelling of a transaction's id that Tollgate stores. It is a 32-byte hash in lower case (EVM), or the base58 of a 64-byte
 * signature (Solana), which is case-sensitive.
 *
 * @returns undefined if the text cannot be an id on this network
 */
export function canonicalTransaction(network: NetworkId, text: string): string | undefined {
  if (familyOf(network) === 'eip155') return /^0x[0-9a-fA-F]{64}$/.test(text) ? text.toLowerCase() : undefined
  return signatureForm.test(text) && base58.decode(text).length === signatureBytes ? text : undefined
}

/**
 * Catches mistakes of the caller before they reach the database. A key that is not 32 bytes in hex would be truncated or lost. A
 * time such as 1e300 or 0.5 ms would be read back as another value, or not at all.
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
 * The state of a payment. Each arrow is one commit, which requires that the row still has the earlier state and the expected lease.
 * core/payments/rules.ts and reconciliation.ts make all these changes.
 *
 * claimed → settling → settled → delivered
 * claimed → rejected              nothing was broadcast, so the payment may be claimed again
 * claimed → delivered, refund_due  a plain transfer, which was on chain before it was claimed
 * claimed → settled              a call that costs nothing, so nothing is sent
 * settling → rejected             the settler reports that nothing was sent, so the payment may be claimed again
 * settling → pending              the transaction was broadcast, and its outcome is unknown
 * pending → rejected              its bytes were never sent, and their nonce is used, so the payment may be claimed again
 * settling, pending → failed_final  it can never land, because it has expired and its nonce is unused on chain
 * settling, pending → settled     found on chain
 * settling, pending, failed_final → delivered  it pays a payment session, which has no response to send
 * settling, pending → refund_due  found on chain after its call had ended, and there is no response to send
 * failed_final → settled, refund_due  another sender has made it land
 * settled, delivered → refund_due → refunded
 * settled, delivered → refunded   a seller's refund, which makes the payment owed and refunded in one commit
 * refund_due → settled            it landed after its call had ended, and its buyer has returned for the response
 * refunded → refund_due           the refund left the chain, so the buyer does not have the money
 * settled, delivered, refund_due → reorged  the transfer left the chain
 * reorged → settled, delivered, refund_due  the transfer came back, and its response is available, was delivered, or is owed
 * reorged → failed_final          the transfer can no longer come back
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
  claimed: ['settling', 'settled', 'rejected', 'delivered', 'refund_due'],
  rejected: ['claimed'],
  settling: ['settled', 'delivered', 'pending', 'failed_final', 'rejected', 'refund_due'],
  pending: ['settled', 'delivered', 'failed_final', 'refund_due', 'rejected'],
  failed_final: ['settled', 'delivered', 'refund_due'],
  settled: ['delivered', 'refund_due', 'refunded', 'reorged'],
  delivered: ['refund_due', 'refunded', 'reorged'],
  refund_due: ['refunded', 'reorged', 'settled'],
  refunded: ['refund_due'],
  reorged: ['settled', 'delivered', 'refund_due', 'failed_final'],
}

/** Whether the state machine has this transition. */
export const mayMove = (from: PaymentState, to: PaymentState): boolean => arrows[from].includes(to)

/** All of them. */
export const paymentStates = Object.keys(arrows) as readonly PaymentState[]

/**
 * Reason of a payment that is owed back, because it was to be charged before the seller's API was called, and landed only after its
 * call had ended.
 */
export const landedLate = 'landed_late'

/** Reason of a payment that is owed back, because it landed after its payment session had ended without it. */
export const sessionOver = 'session_over'

/**
 * Reason of an open payment whose bytes settle several payments and were not stored for all of them. The bytes were never sent, and
 * no process will send them. Once another transaction has used their nonce, the payment can be used again.
 */
export const neverSent = 'settlement_never_sent'

/**
 * Reason of a payment whose transfer left the chain after its response was delivered. If the transfer comes back, the payment is
 * not owed back.
 */
export const reorgedAfterDelivery = 'reorged_after_delivery'

/**
 * Reason of a charged payment whose buyer had disconnected when its response was ready. If the buyer does not return, the payment
 * counts as delivered. A payment whose response the gateway failed to send has another reason, so it is owed back.
 */
export const notCollected = 'response_not_collected'

/** Reason of a payment that is owed back, because its recorded refund left the chain. */
export const refundLeftChain = 'refund_left_chain'

/**
 * Reason of a refunded payment whose lost refund came back after another refund had replaced it, so that the buyer has the money
 * twice.
 */
export const refundedTwice = 'refunded_twice'

/**
 * Ends the `requestHash` of a payment whose buyer gets the response before the charge. It is part of the claim, so that recovery
 * knows after a crash that there is nothing to deliver.
 */
const SENT_FIRST = ':sent-first'

/** The `requestHash` of a call whose buyer gets the response before the charge. */
export const sentFirst = (requestHash: string): string => requestHash + SENT_FIRST

/** Whether the buyer of a payment has got the response before the charge, as far as it was sent. */
export const isSentFirst = ({ requestHash }: { readonly requestHash: string }): boolean =>
  requestHash.endsWith(SENT_FIRST)

/** A `requestHash` without the end that {@link sentFirst} adds. */
export const callOf = (requestHash: string): string =>
  isSentFirst({ requestHash }) ? requestHash.slice(0, -SENT_FIRST.length) : requestHash

/** States in which money may be in flight with an unknown outcome. Recovery works on payments in these states. */
export const unresolvedStates = ['settling', 'pending'] as const satisfies readonly PaymentState[]

/** States in which a process may work on a payment. A row has a lease only in these states. */
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

/** States that account for a transfer on chain. The payment is charged, or recovery is still finding out its outcome. */
export const accountedStates: readonly PaymentState[] = [...unresolvedStates, ...chargedStates, 'reorged']

/** States in which a seller may refund the payment. If the payment is not owed back yet, one commit makes it owed and refunded. */
export const refundableStates = [
  'settled',
  'delivered',
  'refund_due',
] as const satisfies readonly PaymentState[]

/**
 * States of a payment that has charged nothing and is not going to. Another payment of the same payer may take over its payment
 * identifier.
 */
export const unchargedStates = ['rejected', 'failed_final'] as const satisfies readonly PaymentState[]

/** What is known about a payment before it is claimed. It comes only from the link's own terms and the signed bytes. */
export interface PaymentIdentity {
  readonly key: PaymentKey
  readonly network: NetworkId
  readonly asset: string
  readonly payer: string
  /** EIP-3009 nonce (0x…), or SHA-256 of the Solana message in hex. */
  readonly nonce: string
  readonly payTo: string
  /** The authorized amount. In scheme `upto`, less may be charged. */
  readonly amountAtomic: AtomicAmount
  /**
   * Time after which the signed bytes can no longer land, in ms since 1970. On Solana this is the time by which the block hash must
   * have expired.
   */
  readonly validBeforeMs: number
}

/** What a settler has signed for the chain. It is stored before it is broadcast. */
export interface SettlementAttempt {
  /** The settler that has signed, such as `evm:eip155:84532:0xabc…`, `svm:…`, or the remote facilitator's URL. */
  readonly settler: string
  /** The signed transaction in hex (EVM) or base64 (Solana). Empty for a remote facilitator. */
  readonly bytes: string
  /** Hash or signature of the bytes. Empty until the remote facilitator has named it. */
  readonly transaction: string
  /**
   * On EVM, the settling key's account nonce as a string. On Solana, a slot at which the chain had the block hash, so that a later
   * block without that hash proves that it has expired. Null elsewhere, or if the slot was not queried.
   */
  readonly sequence: string | null
  /** True if the same bytes settle other payments too. The bytes are stored with each of these payments. */
  readonly isShared?: true
}

/** Whether the sequence is a nonce of the settling key. Only one of a key's transactions with the same nonce can ever land. */
export const hasNonce = ({ settler, sequence }: SettlementAttempt): boolean =>
  sequence !== null && settler.startsWith('evm:')

/** The attempt of an open payment. */
export interface OpenAttempt extends SettlementAttempt {
  /**
   * True if the transaction was on chain and left it. What was signed before it may have left the chain too, even if the ledger
   * does not show that yet.
   */
  readonly isReorged?: true
  /** True if the bytes must never be sent ({@link neverSent}). The lease holder of the key uses up their nonce. */
  readonly isUnsent?: true
  /**
   * True if this transaction has recently settled its payment, which is therefore no longer open. The nonce is used, unless the
   * transaction has left the chain since. Once the ledger shows that it left, the same bytes are sent again.
   */
  readonly isMined?: true
}

/** A response that is stored for a repeated call with the same payment. */
export interface StoredResponse {
  readonly status: number
  /** Names and values in turn, as the buyer got them. */
  readonly headers: readonly string[]
  readonly body: Uint8Array
}

/** One row of the payments table, without its response. */
export interface PaymentRecord extends PaymentIdentity {
  /** Id of the row. Every change identifies the payment by it. */
  readonly row: number
  readonly state: PaymentState
  /** x402 scheme, such as `exact`. */
  readonly scheme: string
  /** Lease of the process that works on the payment. Null if no process does. */
  readonly lease: number | null
  /** Null if the payment is not for a link. */
  readonly linkId: LinkId | null
  /** The payment session that the payment pays. Null for a call. */
  readonly sessionId: string | null
  readonly storeId: StoreId
  /**
   * SHA-256 in hex of method, path, query and body of the call, because one payment buys one call. If the caller is known, `:` and
   * a mark of the caller follow, then the headers that decided the price, if any. A stranger who has read the payment on chain has another mark. See {@link sentFirst} for its end.
   */
  readonly requestHash: string
  /** UUID of the purchase. It is fixed at the claim, so that the buyer gets it even while the settlement is pending. */
  readonly purchaseId: string
  /** The x402 payload as received, as JSON. A settler can continue with it after a crash. `{}` after it was deleted. */
  readonly payload: string
  readonly attempt: SettlementAttempt | null
  /** Whether a response is stored. */
  readonly hasResponse: boolean
  /** The payment's final transaction on chain. */
  readonly transaction: string | null
  /**
   * Which event of the transaction belongs to this payment. On EVM it is the log index in decimal, on Solana `0`. It is
   * `nonce:<nonce>` if only a facilitator's response reported the transfer.
   */
  readonly event: string | null
  /** Block number (EVM) or slot (Solana) in which the transfer was seen. Null if it was not seen on chain. */
  readonly block: number | null
  /**
   * The charged amount, at most `amountAtomic`. While the outcome is unknown, it is the amount that is being charged, if that is
   * less than `amountAtomic`, and otherwise null.
   */
  readonly chargedAtomic: AtomicAmount | null
  readonly errorReason: string | null
  /** How often recovery has put the payment off since its last change. */
  readonly tries: number
  /** Why recovery has put the payment off, as a message for the operator. Null after each change. */
  readonly dueReason: string | null
  readonly claimedAtMs: number
  readonly updatedAtMs: number
}

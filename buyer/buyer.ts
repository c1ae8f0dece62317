import type { NetworkId } from '../core/domain/network.ts'
import type { DepositAuthorization } from '../core/x402/channelPayment.ts'
import type { OfferTerms } from '../core/x402/offerTerms.ts'
import type { BuyerScheme } from '../core/x402/types.ts'
import type { Charged, PayOutcome } from './payReport.ts'
/** Thrown if the user's own input is wrong. No request was sent and nothing was signed. The message never contains a key. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/**
 * A signed payment, with everything that is needed to find it on chain later without the key. It is JSON-serializable, because it
 * is written to disk before it is sent.
 */
export interface SignedPayment {
  readonly scheme: BuyerScheme
  readonly network: NetworkId
  readonly asset: string
  /** In atomic units, as decimal digits. In scheme `upto`, the most that can be charged. */
  readonly amount: string
  readonly payTo: string
  readonly payer: string
  /**
   * x402 `payload`, which is `{signature, authorization}` for EIP-3009, `{signature, permit2Authorization}` for Permit2,
   * `{transaction}` for Solana, and `{type, channelConfig, voucher, deposit?}` for a payment channel.
   */
  readonly payload: Readonly<Record<string, unknown>>
  /**
   * Time after which the payment can no longer land, in ms since 1970. On Solana this is an estimate, because the block height
   * decides.
   */
  readonly validBeforeMs: number
  /**
   * On EVM, a block before which the payment cannot be on chain. On Solana, the last block height at which the payment may land.
   */
  readonly blockBound: number
}

/**
 * What the chain shows about a payment. `isVerified` is true if the transaction that the seller named is this payment. If the
 * seller named none, it is true if the buyer has found the payment's transaction.
 */
export interface ReceiptVerdict {
  readonly isVerified: boolean
  readonly charged: Charged
  /** The amount that the chain shows as charged, in atomic units as decimal digits. Null if the chain shows none. */
  readonly chargedAmount: string | null
  /** The transaction that contains the payment. Null if none is known. */
  readonly transaction: string | null
  /** Why the payment is not verified, as a sentence. Empty if it is verified. */
  readonly problem: string
}

export interface ReceiptQuery {
  readonly payment: SignedPayment
  /** The transaction that the seller named. Null to search for the payment itself. */
  readonly transaction: string | null
  /** The charged amount that the seller named, in atomic units as decimal digits. Absent or null if it named none. */
  readonly amount?: string | null
  /** Ends the wait. The verdict then contains what is known so far. */
  readonly signal: AbortSignal
}

/** What a payment buys. A signer that does not see the offer itself needs this. */
export interface Order {
  /** The URL whose response was the 402. */
  readonly url: URL
  /** `resource` of the offer, as received. */
  readonly resource: Readonly<Record<string, unknown>>
  /** The chosen entry of `accepts`, as received. */
  readonly entry: Readonly<Record<string, unknown>>
  /** Idempotency key for a request to an external signer. The same order with the same key is one payment. */
  readonly idempotencyKey?: string
}

/** What a wallet signs for a call by a payment channel. */
export interface ChannelOrder {
  /** The voucher's total, in atomic units. */
  readonly totalAtomic: bigint
  /** The deposit to sign, in atomic units. Null for a voucher alone. */
  readonly depositAtomic: bigint | null
}

/** The signatures of a {@link ChannelOrder}. */
export interface SignedChannel {
  /** The voucher's signature, 65 bytes in lower-case hex. */
  readonly signature: string
  readonly deposit: DepositAuthorization | null
}

/** A wallet that pays one offer. Created per run, because a run signs at most once. */
export interface Buyer {
  /** Checksummed 0x address, or base58. */
  readonly address: string
  /** The networks on which the wallet signs. If absent, all networks of its chain family. */
  readonly networks?: ReadonlySet<string>
  /** True if a signature may wait for a person's decision. That wait does not count toward the run's time limit. */
  readonly waitsForPerson?: boolean
  /** Why these terms must not be signed, as a sentence for the user. Undefined if they may be signed. Sends no request. */
  objectTo(terms: OfferTerms): string | undefined
  /**
   * Checks on chain that the payment can succeed (right chain, the token's own EIP-712 domain, balance, accounts), then signs it.
   * Once it has begun to sign, every further call throws, even if the first call fails.
   *
   * @throws {UnpayableTerms} if the payment cannot succeed on chain, so that another offer may be signed
   * @throws {BuyerRefusal} if nothing was signed, with the reason as message
   */
  sign(terms: OfferTerms, signal: AbortSignal, order: Order): Promise<SignedPayment>
  /**
   * Signs a voucher of the wallet's channel for these terms, and a deposit into it. At most one deposit a run. Absent if the wallet has
   * no channels.
   *
   * @throws {BuyerRefusal} if nothing was signed
   */
  signChannel?(
    terms: OfferTerms,
    channel: ChannelOrder,
    signal: AbortSignal,
    order: Order,
  ): Promise<SignedChannel>
  /**
   * Signs a text to sign in, which moves no money. Returns hex (EIP-191) on EVM, base58 on Solana. Absent if the wallet signs only
   * payments.
   */
  signText?(text: string): Promise<string>
}

/** A wallet with its key in this process. It needs only the terms of an offer to sign. */
export interface KeyBuyer extends Buyer {
  sign(terms: OfferTerms, signal: AbortSignal): Promise<SignedPayment>
  signChannel?(terms: OfferTerms, channel: ChannelOrder, signal: AbortSignal): Promise<SignedChannel>
}

/** Thrown if the buyer did not sign. The message is for the user. */
export class BuyerRefusal extends Error {
  override readonly name = 'BuyerRefusal'
  /** How the run ends. */
  readonly outcome: PayOutcome

  constructor(message: string, options?: ErrorOptions, outcome: PayOutcome = 'refused') {
    super(message, options)
    this.outcome = outcome
  }
}

/** Returns the error if it is a refusal. @throws any other error */
export function asRefusal(error: unknown): BuyerRefusal {
  if (error instanceof BuyerRefusal) return error
  throw error
}

/**
 * Thrown if the payment cannot succeed on this chain, or the chain could not be queried. The wallet may sign another offer instead.
 */
export class UnpayableTerms extends BuyerRefusal {}

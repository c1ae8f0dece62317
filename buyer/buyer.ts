import type { NetworkId } from '../core/domain/network.ts'
import type { OfferTerms } from '../core/x402/offerTerms.ts'
import type { Charged, PayOutcome } from './payReport.ts'

/**
 * A signed payment and all that is needed to look for it on chain later, without the key. JSON can carry it, because it
 * is written to disk before it is sent.
 */
export interface SignedPayment {
  readonly network: NetworkId
  readonly asset: string
  /** Atomic units, decimal digits. */
  readonly amount: string
  readonly payTo: string
  readonly payer: string
  /** x402 `payload`: EIP-3009 `{signature, authorization}`, or Solana `{transaction}`. */
  readonly payload: Readonly<Record<string, unknown>>
  /** After this time (ms since 1970) the payment can not land; Solana: an estimate, the block height decides. */
  readonly validBeforeMs: number
  /** EVM: the block before which it can not be on chain. Solana: the last block height at which it may land. */
  readonly blockBound: number
}

/** What the chain says of a payment. `isVerified` is the transaction named by the seller, or found when none was named. */
export interface ReceiptVerdict {
  readonly isVerified: boolean
  readonly charged: Charged
  /** The transaction in which the chain has the payment; null when it has none. */
  readonly transaction: string | null
  /** In words, why it is not verified; empty when it is. */
  readonly problem: string
}

export interface ReceiptQuery {
  readonly payment: SignedPayment
  /** The transaction that the seller names; null to look for the payment itself. */
  readonly transaction: string | null
  /** Ends the waiting; the verdict then says what is known. */
  readonly signal: AbortSignal
}

/** What is bought with a payment: for a signer that has to be told, because it does not see the offer itself. */
export interface Order {
  /** The address that answered 402. */
  readonly url: URL
  /** `resource` of the offer, as received. */
  readonly resource: Readonly<Record<string, unknown>>
  /** The chosen entry of `accepts`, as received. */
  readonly entry: Readonly<Record<string, unknown>>
  /** Under which somebody else is asked to sign: the same order under the same key is one payment. */
  readonly idempotencyKey?: string
}

/** A wallet that pays one offer: made for one run, because a run signs at most once. */
export interface Buyer {
  /** Checksummed 0x address, or base58. */
  readonly address: string
  /** The networks that it signs on; absent for every one of its family. */
  readonly networks?: ReadonlySet<string>
  /** True when a signature may wait for a person's answer: the time of a run does not count meanwhile. */
  readonly asksAPerson?: boolean
  /** Why these terms must not be signed, in words for the user; undefined when they may. Asks nobody. */
  objectTo(terms: OfferTerms): string | undefined
  /**
   * Asks the chain whether the payment can succeed (right chain, the token's own EIP-712 domain, balance, accounts), then
   * signs it. Once it has gone beyond asking the chain, every further call throws, whatever became of the first.
   *
   * @throws {UnpayableTerms} the chain says no, and another offer may be signed
   * @throws {BuyerRefusal} nothing was signed; the message says why.
   */
  sign(terms: OfferTerms, signal: AbortSignal, order: Order): Promise<SignedPayment>
}

/** A wallet that holds its key: it signs the terms, and needs no more of the offer. */
export interface KeyBuyer extends Buyer {
  sign(terms: OfferTerms, signal: AbortSignal): Promise<SignedPayment>
}

/** The buyer did not sign; its message is for the user. */
export class BuyerRefusal extends Error {
  override readonly name = 'BuyerRefusal'
  /** How the run ends. */
  readonly outcome: PayOutcome

  constructor(message: string, options?: ErrorOptions, outcome: PayOutcome = 'refused') {
    super(message, options)
    this.outcome = outcome
  }
}

/** The refusal that was thrown. @throws whatever else it was */
export function asRefusal(error: unknown): BuyerRefusal {
  if (error instanceof BuyerRefusal) return error
  throw error
}

/** The chain does not let this payment succeed, or could not be asked. The wallet may sign another offer instead. */
export class UnpayableTerms extends BuyerRefusal {}

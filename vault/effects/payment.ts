import type { Rpc } from '../../core/rpc/rpc.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import type { SolanaAccount } from '../../core/x402/solanaTermsFault.ts'
import type { AssetTable, VaultChain } from './assets.ts'
import type { Decoded } from './effect.ts'

/** The node requests of a payment on Solana. No response of the node decides who is paid. Every method may reject. */
export interface SolanaPaymentRpc {
  /** `getGenesisHash`. */
  genesisHash(signal: AbortSignal): Promise<string>
  /** `getLatestBlockhash`. */
  latestBlockhash(signal: AbortSignal): Promise<{ blockhash: string; lastValidBlockHeight: number }>
  /** `getMultipleAccounts`, in the order of the request. Undefined where an account does not exist. */
  accounts(addresses: readonly string[], signal: AbortSignal): Promise<readonly (SolanaAccount | undefined)[]>
}

/** Returns the node of a Solana cluster. Undefined where none is configured. Payments on EVM need no node. */
export type PaymentRpc = (chain: VaultChain) => SolanaPaymentRpc | undefined

/** Returns the owner's node of an EVM chain, which proves what was charged. Undefined where none is configured. */
export type ChargeRpc = (chain: VaultChain) => Rpc | undefined

/** The newest block of a chain that is final, so that no reorganization removes it. */
export interface FinalBlock {
  readonly number: number
  /** Its time, in seconds since 1970. */
  readonly seconds: number
}

/** What is needed to prove how much of a signed payment was charged. The vault stores it as JSON. Numbers are in decimal digits. */
export interface PaymentClaim {
  readonly chain: VaultChain
  /** Address of the token. */
  readonly asset: string
  readonly payer: string
  readonly payTo: string
  /** The most that can be charged, in atomic units. */
  readonly most: string
  /** A decimal number with Permit2, 32 bytes in hex with EIP-3009. */
  readonly nonce: string
  /** The last second in which the payment can be charged, or one second more. Since 1970. */
  readonly validBefore: string
  /** The account that decides what it charges (scheme `upto`). Null if only the whole amount can be charged. */
  readonly facilitator: string | null
}

/** A claim, and the newest block that was known to be final before the payment was signed. Null if none was known. */
export interface OpenClaim {
  readonly claim: PaymentClaim
  readonly sinceBlock: number | null
}

/** What a chain proves about a payment. It can never be charged again. */
export interface ProvedCharge {
  /** The most that was charged, in atomic units. */
  readonly charged: bigint
  /** The transaction, if one was found that is this payment. */
  readonly transaction: string | null
}

export interface PreparePayment {
  readonly chain: VaultChain
  readonly account: string
  /** The offer's terms, parsed by the strict parser and accepted. */
  readonly terms: OfferTerms
  readonly nowMs: number
  readonly rpc: PaymentRpc
  readonly signal: AbortSignal
  readonly assets: AssetTable
}

/** One payment, ready to be shown and signed. */
export interface PreparedPayment {
  /** `kind` is `payment`. The decoder is the same as for requests of agents. */
  readonly decoded: Decoded
  /** Time after which the payment can no longer be included, in ms since 1970. An estimate on Solana. */
  readonly validBeforeMs: number
  /** Absent where the vault gives nothing back. */
  readonly claim?: PaymentClaim
  /** The x402 `payload`, from the plugin's `assemble` for this payment. */
  payload(assembled: {
    readonly signedTx: string | null
    readonly signature: string
  }): Readonly<Record<string, unknown>>
}

/** The payment cannot be made. The message is for the user and states that nothing was signed. */
export class PaymentProblem extends Error {
  override readonly name = 'PaymentProblem'
  readonly code: 'VALIDATION_ERROR' | 'CHAIN_UNAVAILABLE'

  constructor(code: 'VALIDATION_ERROR' | 'CHAIN_UNAVAILABLE', message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

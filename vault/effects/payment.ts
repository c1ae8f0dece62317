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

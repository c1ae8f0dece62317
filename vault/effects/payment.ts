import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import type { SolanaAccount } from '../../core/x402/solanaAccountsFault.ts'
import type { AssetTable } from './assets.ts'
import type { VaultChain } from './chains.ts'
import type { Decoded } from './decoded.ts'

/** What a payment on Solana has to ask a node; nothing in the answers decides where money goes. Every method may reject. */
export interface SolanaPaymentRpc {
  /** `getGenesisHash`. */
  genesisHash(signal: AbortSignal): Promise<string>
  /** `getLatestBlockhash`. */
  latestBlockhash(signal: AbortSignal): Promise<{ blockhash: string; lastValidBlockHeight: number }>
  /** `getMultipleAccounts`, in the order asked; undefined where there is no account. */
  accounts(addresses: readonly string[], signal: AbortSignal): Promise<readonly (SolanaAccount | undefined)[]>
}

/** The node of a Solana cluster; undefined where none is configured. Payments on EVM ask nobody. */
export type PaymentRpc = (chain: VaultChain) => SolanaPaymentRpc | undefined

export interface PreparePayment {
  readonly chain: VaultChain
  readonly account: string
  /** Read by the strict reader of offers, and not objected to. */
  readonly terms: OfferTerms
  readonly nowMs: number
  readonly rpc: PaymentRpc
  readonly signal: AbortSignal
  readonly assets: AssetTable
}

/** One payment, ready to be shown and signed. */
export interface PreparedPayment {
  /** `kind` is `payment`: read back by the same decoder that reads requests of agents. */
  readonly decoded: Decoded
  /** After this time the payment can not land; on Solana an estimate. Milliseconds since 1970. */
  readonly validBeforeMs: number
  /** x402 `payload`, from what the plugin's `assemble` gave for this payment. */
  payload(assembled: {
    readonly signedTx: string | null
    readonly signature: string
  }): Readonly<Record<string, unknown>>
}

/** The payment can not be made; the message is for the user and says that nothing was signed. */
export class PaymentProblem extends Error {
  override readonly name = 'PaymentProblem'
  readonly code: 'VALIDATION_ERROR' | 'CHAIN_UNAVAILABLE'

  constructor(code: 'VALIDATION_ERROR' | 'CHAIN_UNAVAILABLE', message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

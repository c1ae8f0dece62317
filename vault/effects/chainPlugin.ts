import type { ChainFamily } from '../../core/domain/network.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import type { AssetTable } from './assets.ts'
import type { VaultChain } from './chains.ts'
import type { Decoded, DecodeResult } from './decoded.ts'
import type { PreparedPayment, PreparePayment } from './payment.ts'

export interface TransactionRequest {
  readonly chain: VaultChain
  /** Our address on the chain. */
  readonly account: string
  /** As it stands in the request: base64 for Solana, 0x RLP or JSON (text or object) for EVM. */
  readonly unsignedTx: unknown
  readonly assets: AssetTable
}

export interface TypedDataRequest {
  readonly chain: VaultChain
  readonly account: string
  /** `{domain, types, primaryType, message}`, as JSON text or as an object. */
  readonly typedData: unknown
  readonly assets: AssetTable
}

export interface MessageRequest {
  readonly chain: VaultChain
  readonly account: string
  readonly message: unknown
  /** How `message` spells bytes. Default `utf8`. */
  readonly encoding?: 'utf8' | 'hex' | 'base64'
  readonly assets: AssetTable
}

/** The document's answer to a signing request. */
export interface Assembled {
  /** In the encoding of the request; null where no transaction was signed. */
  readonly signedTx: string | null
  /** Base58 for Solana, 0x hex for EVM. */
  readonly signature: string
}

/**
 * A chain family as a plugin of the vault: reads requests and writes signed ones. It never sees a key, asks no network,
 * and throws only for mistakes of its caller.
 */
export interface ChainPlugin {
  readonly name: string
  readonly api: 1
  /** It reads every chain of this family. */
  readonly family: ChainFamily
  decodeTransaction(request: TransactionRequest): DecodeResult
  /** Absent where the chain has no typed data. */
  decodeTypedData?(request: TypedDataRequest): DecodeResult
  decodeMessage(request: MessageRequest): DecodeResult
  /** Why terms of an x402 offer must not be signed by this account, in words; undefined when they may. */
  termsFault(terms: OfferTerms, account: string): string | undefined
  /**
   * Builds the payment for terms that were not objected to, and reads it back with the plugin's own decoder.
   *
   * @throws {PaymentProblem} when the chain says that it can not succeed, or does not answer
   */
  preparePayment(request: PreparePayment): Promise<PreparedPayment>
  /**
   * Puts a signature to what was decoded, after verifying that it is one by `decoded.from` over `decoded.signingBytes`.
   *
   * @param signature EVM: 65 bytes r, s, and 0 or 1 for the parity of y. Solana: 64 bytes.
   * @throws {TypeError} when the signature is not that; nothing is then given out
   */
  assemble(decoded: Decoded, signature: Uint8Array): Assembled
}

/** Gives a plugin its type. */
export const chainPlugin = (plugin: ChainPlugin): ChainPlugin => plugin

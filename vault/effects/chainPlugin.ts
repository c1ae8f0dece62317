import type { ChainFamily } from '../../core/domain/network.ts'
import type { Rpc } from '../../core/rpc/rpc.ts'
import { decodeStrictBase64 } from '../../core/x402/header.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'
import type { AssetTable, VaultChain } from './assets.ts'
import type { Decoded, DecodeResult } from './effect.ts'
import type { FinalBlock, OpenClaim, PreparedPayment, PreparePayment, ProvedCharge } from './payment.ts'

/**
 * The bytes of a message in the encoding that the request names. Only the canonical form of each encoding is accepted.
 *
 * @returns undefined when the bytes are invalid, empty or more than `maxBytes`
 */
export function messageBytes(
  { message, encoding = 'utf8' }: Pick<MessageRequest, 'message' | 'encoding'>,
  maxBytes: number,
): Uint8Array | undefined {
  const bytes = decode(message, encoding, maxBytes)
  return bytes !== undefined && bytes.length > 0 && bytes.length <= maxBytes ? bytes : undefined
}

function decode(message: unknown, encoding: string, maxBytes: number): Uint8Array | undefined {
  if (typeof message !== 'string' || message.length > maxBytes * 2 + 2) return undefined
  if (encoding === 'utf8') return message.isWellFormed() ? Buffer.from(message, 'utf8') : undefined
  if (encoding === 'hex')
    return /^0x(?:[0-9a-fA-F]{2})+$/.test(message) ? Buffer.from(message.slice(2), 'hex') : undefined
  return encoding === 'base64' ? decodeStrictBase64(message, maxBytes) : undefined
}

export interface TransactionRequest {
  readonly chain: VaultChain
  /** The vault's address on the chain. */
  readonly account: string
  /** In the encoding of the request: base64 for Solana, 0x RLP or JSON (text or object) for EVM. */
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
  /** How `message` encodes bytes. Default `utf8`. */
  readonly encoding?: 'utf8' | 'hex' | 'base64'
  readonly assets: AssetTable
}

/** The result of a signing request, as the interface document defines it. */
export interface Assembled {
  /** In the encoding of the request. Null where no transaction was signed. */
  readonly signedTx: string | null
  /** Base58 for Solana, 0x hex for EVM. */
  readonly signature: string
}

/**
 * A chain family as a plugin of the vault. It decodes requests and encodes signed ones. It never sees a key and has no
 * network access except the node that it is handed. It throws only if its caller makes a mistake.
 */
export interface ChainPlugin {
  readonly name: string
  readonly api: 1
  /** The chain family that the plugin decodes. */
  readonly family: ChainFamily
  decodeTransaction(request: TransactionRequest): DecodeResult
  /** Absent where the chain family has no typed data. */
  decodeTypedData?(request: TypedDataRequest): DecodeResult
  decodeMessage(request: MessageRequest): DecodeResult
  /** Why this account must not sign the terms of an x402 offer, in words. Undefined if it may. */
  termsFault(terms: OfferTerms, account: string): string | undefined
  /**
   * Builds the payment for accepted terms, and decodes it again with the plugin's own decoder.
   *
   * @throws {PaymentProblem} when the chain's node reports that the payment cannot succeed, or does not respond
   */
  preparePayment(request: PreparePayment): Promise<PreparedPayment>
  /** Absent where the vault gives nothing back. @throws if the node does not name a final block */
  finalBlock?(rpc: Rpc): Promise<FinalBlock>
  /**
   * What signed payments of one chain have cost, as of a final block. In the order of the claims. Undefined for a payment that can
   * still be charged, or about which the node did not prove anything.
   */
  proveCharges?(
    rpc: Rpc,
    claims: readonly OpenClaim[],
    final: FinalBlock,
  ): Promise<readonly (ProvedCharge | undefined)[]>
  /**
   * Adds a signature to a decoded request. It first verifies that the signature is by `decoded.from` over
   * `decoded.signingBytes`.
   *
   * @param signature EVM: 65 bytes r, s, and 0 or 1 for the parity of y. Solana: 64 bytes.
   * @throws {TypeError} when the signature is invalid
   */
  assemble(decoded: Decoded, signature: Uint8Array): Assembled
}

/** Gives a plugin its type. */
export const chainPlugin = (plugin: ChainPlugin): ChainPlugin => plugin

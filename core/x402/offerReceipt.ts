import { keccak256 } from '../evm/hex.ts'

/**
 * Name of the extension with signed offers in a 402 and a signed receipt in `PAYMENT-RESPONSE`.
 *
 * @see https://github.com/x402-foundation/x402/blob/main/specs/extensions/extension-offer-and-receipt.md
 */
export const offerReceiptName = 'offer-receipt'

/** The terms to which a signed offer commits the seller (section 4.2). */
export interface OfferPayload {
  readonly version: 1
  readonly resourceUrl: string
  readonly scheme: string
  /** CAIP-2. */
  readonly network: string
  readonly asset: string
  readonly payTo: string
  /** In atomic units, as decimal digits. */
  readonly amount: string
  /** End of the offer in seconds since 1970. 0 if the offer has no end. */
  readonly validUntil: number
}

/** What a signed receipt confirms (section 5.2). */
export interface ReceiptPayload {
  readonly version: 1
  /** CAIP-2. */
  readonly network: string
  readonly resourceUrl: string
  readonly payer: string
  /** In seconds since 1970. */
  readonly issuedAt: number
  /** Hash (EVM) or signature (Solana). Empty if the receipt does not name the transaction. */
  readonly transaction: string
}

/** Signs 32 bytes, and returns 65 bytes in hex with 0x. */
interface DigestSigner {
  sign(digest: Uint8Array): string
}

interface Signed<P> {
  readonly format: 'eip712'
  readonly payload: P
  /** 65 bytes in hex with 0x. */
  readonly signature: string
}

export interface SignedOffer extends Signed<OfferPayload> {
  /** Index of the entry of `accepts`. It is not signed (section 4.1.1). */
  readonly acceptIndex?: number
}

export type SignedReceipt = Signed<ReceiptPayload>

/** Signs with EIP-712 on every network, because the domain's chain id is 1 on all of them (section 3.2). */
export const signOffer = (signer: DigestSigner, payload: OfferPayload, acceptIndex: number): SignedOffer => ({
  format: 'eip712',
  acceptIndex,
  payload,
  signature: signer.sign(offerDigest(payload)),
})

export const signReceipt = (signer: DigestSigner, payload: ReceiptPayload): SignedReceipt => ({
  format: 'eip712',
  payload,
  signature: signer.sign(receiptDigest(payload)),
})

type Message = Readonly<Record<string, string | number>>

/** A struct of EIP-712 whose fields are of the types `uint256` and `string`. */
interface Struct {
  /** The hash of the domain. */
  readonly separator: Uint8Array
  readonly typeHash: Uint8Array
  readonly fields: readonly string[]
}

/** @param type in the form of EIP-712, section "encodeType" */
function structOf(domainName: string, type: string): Struct {
  const domainType = 'EIP712Domain(string name,string version,uint256 chainId)'
  const domain = [hashOf(domainType), hashOf(domainName), hashOf('1'), uintBytes(1)]
  return {
    separator: keccak256(Buffer.concat(domain)),
    typeHash: hashOf(type),
    fields: [...type.matchAll(/ (\w+)/g)].map(([, name]) => name!),
  }
}

const hashOf = (text: string): Uint8Array => keccak256(Buffer.from(text))

function uintBytes(value: number): Buffer {
  const bytes = Buffer.alloc(32)
  bytes.writeBigUInt64BE(BigInt(value), 24)
  return bytes
}

const offer = structOf(
  'x402 offer',
  'Offer(uint256 version,string resourceUrl,string scheme,string network,string asset,string payTo,string amount,uint256 validUntil)',
)
const receipt = structOf(
  'x402 receipt',
  'Receipt(uint256 version,string network,string resourceUrl,string payer,uint256 issuedAt,string transaction)',
)

/** The 32 bytes that sign an offer (section 4.3). */
export const offerDigest = (payload: OfferPayload): Uint8Array => digestOf(offer, { ...payload })
/** The 32 bytes that sign a receipt (section 5.3). */
export const receiptDigest = (payload: ReceiptPayload): Uint8Array => digestOf(receipt, { ...payload })

/** @see https://eips.ethereum.org/EIPS/eip-712, section "hashStruct" */
function digestOf({ separator, typeHash, fields }: Struct, message: Message): Uint8Array {
  const words = fields.map((name) => {
    const value = message[name]!
    return typeof value === 'number' ? uintBytes(value) : hashOf(value)
  })
  const struct = keccak256(Buffer.concat([typeHash, ...words]))
  return keccak256(Buffer.concat([prefix, separator, struct]))
}

/** @see https://eips.ethereum.org/EIPS/eip-191 */
const prefix = Buffer.from('1901', 'hex')

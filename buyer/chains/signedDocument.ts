import { isAddress, recoverAddress, toHex } from 'viem'
import { decodeSellerHeader } from '../../core/x402/header.ts'
import {
  type OfferPayload,
  offerDigest,
  offerReceiptName,
  type ReceiptPayload,
  receiptDigest,
} from '../../core/x402/offerReceipt.ts'
import { isObject, own, parseBody } from '../../core/x402/strictJson.ts'

/** A signed offer or receipt of the x402 extension `offer-receipt`, with the address whose key signed it. */
export type SignedDocument =
  | { readonly kind: 'offer'; readonly payload: OfferPayload; readonly signer: string }
  | { readonly kind: 'receipt'; readonly payload: ReceiptPayload; readonly signer: string }

/** Thrown if a document is not a signed offer or receipt. The message names the wrong field. */
export class DocumentFault extends Error {
  override readonly name = 'DocumentFault'
}

/**
 * Reads the signed offers and receipts in a file. The file is one of them, a response that contains them, the body of a 402, or the
 * value of the header `PAYMENT-RESPONSE` or `PAYMENT-REQUIRED`.
 *
 * @throws {DocumentFault}
 */
export async function readDocuments(bytes: Uint8Array): Promise<readonly SignedDocument[]> {
  const header = decodeSellerHeader(Buffer.from(bytes).toString('latin1').trim())
  const body = header.ok ? header : parseBody(bytes)
  if (!body.ok)
    throw new DocumentFault(
      `Expected JSON, or the value of the header PAYMENT-RESPONSE, got something else. ${body.message}`,
    )
  const found = signedIn(body.value)
  if (found.length === 0)
    throw new DocumentFault('Expected a signed offer or receipt, got a text that contains none.')
  return Promise.all(found.map(readDocument))
}

/** The receipt in the value of a header `PAYMENT-RESPONSE`, as received. Undefined if there is none. */
export const receiptIn = (response: unknown): unknown => signedIn(response)[0]

/** The offers of a 402, as received. */
export function signedIn(value: unknown): readonly unknown[] {
  if (!isObject(value)) return []
  if (own(value, 'signature') !== undefined && own(value, 'format') !== undefined) return [value]
  const extension = at(own(value, 'extensions'), offerReceiptName)
  const info = at(extension, 'info')
  const [offers, receipt] = [at(info, 'offers'), at(info, 'receipt')]
  if (receipt !== undefined) return [receipt]
  if (Array.isArray(offers)) return offers
  // The gateway's download, and the report of `tollgate pay`.
  return signedIn(own(value, 'data') ?? own(value, 'signedReceipt'))
}

const at = (value: unknown, name: string): unknown => (isObject(value) ? own(value, name) : undefined)

/** @throws {DocumentFault} */
export async function readDocument(value: unknown): Promise<SignedDocument> {
  const format = at(value, 'format')
  if (format !== 'eip712') throw fault('format', '"eip712"', format)
  const payload = at(value, 'payload')
  if (!isObject(payload)) throw fault('payload', 'an object', payload)
  const signature = at(value, 'signature')
  if (typeof signature !== 'string' || !/^0x[0-9a-f]{130}$/i.test(signature))
    throw fault('signature', '65 bytes in hex with 0x', signature)
  const isReceipt = own(payload, 'payer') !== undefined
  const read = isReceipt
    ? { kind: 'receipt' as const, payload: receiptOf(payload) }
    : { kind: 'offer' as const, payload: offerOf(payload) }
  const digest = read.kind === 'receipt' ? receiptDigest(read.payload) : offerDigest(read.payload)
  const signer = await recoverAddress({ hash: toHex(digest), signature: signature as `0x${string}` }).catch(
    () => {
      throw fault('signature', 'a signature on secp256k1', signature)
    },
  )
  return { ...read, signer }
}

type Fields = Readonly<Record<string, unknown>>

function offerOf(fields: Fields): OfferPayload {
  return {
    version: versionOf(fields),
    resourceUrl: urlOf(fields),
    scheme: textOf(fields, 'scheme'),
    network: textOf(fields, 'network'),
    asset: textOf(fields, 'asset'),
    payTo: textOf(fields, 'payTo'),
    amount: textOf(fields, 'amount'),
    validUntil: secondsOf(fields, 'validUntil'),
  }
}

function receiptOf(fields: Fields): ReceiptPayload {
  const { network, payer } = { network: textOf(fields, 'network'), payer: textOf(fields, 'payer') }
  if (network.startsWith('eip155:') && !isAddress(payer, { strict: false }))
    throw fault('payload.payer', `an address on ${network}`, payer)
  return {
    version: versionOf(fields),
    network,
    resourceUrl: urlOf(fields),
    payer,
    issuedAt: secondsOf(fields, 'issuedAt'),
    transaction: own(fields, 'transaction') === undefined ? '' : textOf(fields, 'transaction'),
  }
}

function versionOf(fields: Fields): 1 {
  const version = own(fields, 'version')
  if (version !== 1) throw fault('payload.version', '1', version)
  return version
}

function urlOf(fields: Fields): string {
  const url = textOf(fields, 'resourceUrl')
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw fault('payload.resourceUrl', 'an http or https address', url)
  return url
}

function textOf(fields: Fields, name: string): string {
  const value = own(fields, name)
  if (typeof value === 'string') return value
  throw fault(`payload.${name}`, 'a text', value)
}

/** An optional time is 0 if it is absent (section 4.3 of the extension). */
function secondsOf(fields: Fields, name: string): number {
  const value = own(fields, name) ?? (name === 'validUntil' ? 0 : undefined)
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  throw fault(`payload.${name}`, 'whole seconds since 1970', value)
}

const fault = (field: string, expected: string, got: unknown): DocumentFault =>
  new DocumentFault(
    `Expected ${field} to be ${expected}, got ${(JSON.stringify(got) ?? 'nothing').slice(0, 80)}.`,
  )

import { isSameAddress } from '../core/domain/address.ts'
import { familyOf } from '../core/domain/network.ts'
import { decodeSellerHeader } from '../core/x402/header.ts'
import { own } from '../core/x402/strictJson.ts'
import type { SignedPayment } from './buyer.ts'
import { DocumentFault, readDocument, receiptIn, type SignedDocument } from './chains/signedDocument.ts'
import { type HttpResponse, valuesOf } from './httpCall.ts'

/** What a seller's signed offers say about an entry. */
export interface SignedOfferVerdict {
  /** Why the entry must not be paid, as a message for the user. */
  readonly refusal?: string
  /** Why no offer of the entry can be used as a proof, as a message for the user. */
  readonly warning?: string
  /** The address that has signed the offer of the entry. */
  readonly signer?: string
}

type Fields = Readonly<Record<string, unknown>>

/**
 * Compares an entry of a 402 with the seller's signed offers. A seller that signs other terms than it demands contradicts itself, or
 * another party has changed the 402, so the entry is refused. A signature that cannot be read only loses its proof, because the
 * entry alone decides what the payment pays.
 *
 * @param offers the offers as received
 * @see https://github.com/x402-foundation/x402/blob/main/specs/extensions/extension-offer-and-receipt.md, section 4.1
 */
export async function judgeSignedOffers(
  offers: readonly unknown[],
  entry: Fields,
  url: URL,
  nowMs: number,
): Promise<SignedOfferVerdict> {
  const documents: (SignedDocument & { kind: 'offer' })[] = []
  let warning: string | undefined
  for (const offer of offers) {
    const read = await readDocument(offer).catch(asFault)
    if (read instanceof DocumentFault)
      warning = `A signed offer of the seller cannot be checked. ${read.message}`
    else if (read.kind === 'offer') documents.push(read)
  }
  const isOfEntry = ({ payload }: (typeof documents)[number]) =>
    (['scheme', 'network', 'asset'] as const).every((name) => payload[name] === own(entry, name))
  const ofEntry = documents.filter(isOfEntry)
  const same = ofEntry.find(
    ({ payload }) => payload.payTo === own(entry, 'payTo') && payload.amount === own(entry, 'amount'),
  )
  if (same === undefined) {
    const [other] = ofEntry
    if (other === undefined) return warning === undefined ? {} : { warning }
    const { amount, payTo } = other.payload
    return {
      refusal: `The seller has signed other terms than its 402 demands: ${amount} to ${payTo}. Nothing was signed.`,
    }
  }
  const { resourceUrl, validUntil } = same.payload
  if (new URL(resourceUrl).host !== url.host)
    return { refusal: `The seller's signed offer is for ${resourceUrl}. Nothing was signed.` }
  if (validUntil !== 0 && validUntil * 1_000 < nowMs)
    return { warning: "The seller's signed offer has expired, so it proves nothing." }
  return { signer: same.signer }
}

/** The signed receipt of a paid response, if it is about this payment. Otherwise a warning, or neither if there is none. */
export async function readSignedReceipt(
  { headers }: HttpResponse,
  payment: Pick<SignedPayment, 'network' | 'payer'>,
  transaction: string | null,
  url: URL,
  offerSigner: string | undefined,
): Promise<{ readonly receipt?: object; readonly warning?: string }> {
  const decoded = decodeSellerHeader(valuesOf(headers, 'payment-response')[0] ?? '')
  const receipt = decoded.ok ? receiptIn(decoded.value) : undefined
  if (receipt === undefined) return {}
  const wrong = (why: string) => ({ warning: `The signed receipt proves nothing: ${why}` })
  const read = await readDocument(receipt).catch(asFault)
  if (read instanceof DocumentFault) return wrong(read.message)
  if (read.kind !== 'receipt') return wrong('it is an offer.')
  const { payload, signer } = read
  const family = familyOf(payment.network)
  if (payload.network !== payment.network) return wrong(`network is ${payload.network}.`)
  if (!isSameAddress(family, payload.payer, payment.payer)) return wrong(`payer is ${payload.payer}.`)
  if (payload.transaction !== '' && payload.transaction !== transaction)
    return wrong(`transaction is ${payload.transaction}.`)
  if (new URL(payload.resourceUrl).host !== url.host) return wrong(`resourceUrl is ${payload.resourceUrl}.`)
  if (offerSigner !== undefined && signer !== offerSigner)
    return wrong(`${signer} has signed it, but ${offerSigner} has signed the offer.`)
  return { receipt: receipt as object }
}

function asFault(error: unknown): DocumentFault {
  if (error instanceof DocumentFault) return error
  throw error
}

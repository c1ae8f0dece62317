import { isStreamed, type Link } from '../domain/link.ts'
import type { PaymentRecord, StoredResponse } from '../domain/payment.ts'
import { contentTypeOf } from '../http/body.ts'
import type { Reply } from '../http/replies.ts'
import { type Charge, ChargeReceipt, type ReceiptSigning } from './chargeReceipt.ts'
import { paidReply } from './paidReply.ts'
import type { PurchaseNotes } from './purchase.ts'

/** How a receipt is sent. */
export interface ReceiptForm {
  /** x402 version of the payment. */
  readonly version: 1 | 2
  /** Null if the gateway signs no receipts. */
  readonly signing: ReceiptSigning | null
}

/** A stored response, as the gateway first sent it. */
export function storedReply(
  record: PaymentRecord,
  link: Pick<Link, 'responseMode' | 'settle' | 'pricing'>,
  response: StoredResponse,
  notes: PurchaseNotes,
  form: ReceiptForm,
): Reply {
  const note = notes.of(record.purchaseId, link.responseMode === 'wrap')
  const receipt = storedReceipt(record, form).headersFor(response.status)
  return paidReply(response, mediaTypeOf(response.headers), note, receipt, isStreamed(link))
}

/** The receipt of a settled payment. It is the same as the receipt of the first response. */
export function storedReceipt(record: PaymentRecord, { version, signing }: ReceiptForm): ChargeReceipt {
  const charge: Charge = {
    success: true,
    transaction: record.transaction ?? '',
    network: record.network,
    payer: record.payer,
    amount: (record.chargedAtomic ?? record.amountAtomic).toString(),
  }
  return new ChargeReceipt(version, charge, record.purchaseId, signing)
}

function mediaTypeOf(headers: readonly string[]): string {
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]!.length === 12 && headers[i]!.toLowerCase() === 'content-type') {
      return contentTypeOf(headers[i + 1]!).mediaType
    }
  }
  return ''
}

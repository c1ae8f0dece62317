import { landedLate, type PaymentRecord } from '../../core/domain/payment.ts'
import type { PurchaseNotes } from '../../core/payments/purchaseNote.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { isRecent, type RepeatRules, storedReceipt } from './repeat.ts'

/**
 * Whether this call is the one that a payment was charged for before the seller was asked, and that nobody waited for
 * when the payment landed. The seller can still be asked, for as long as a repeat is answered at all.
 */
export function mayResume(
  x: Exchange,
  record: PaymentRecord,
  hash: string | null,
  rules: RepeatRules,
): boolean {
  return (
    record.state === 'refund_due' &&
    record.errorReason === landedLate &&
    x.link.settle === 'before' &&
    record.linkId === x.link.id &&
    record.requestHash === hash &&
    isRecent(record, rules)
  )
}

/** Leaves on the exchange what verify, settle and record would have left: the call goes on to the seller. */
export function resumeCall(x: Exchange, record: PaymentRecord, owner: string, notes: PurchaseNotes): void {
  const { key, purchaseId } = record
  x.claim = { key, owner, purchaseId, state: 'settled' }
  x.settlement = { transaction: record.transaction ?? '', headers: storedReceipt(x, record) }
  x.purchase = notes.of(purchaseId, x.link.responseMode === 'wrap')
}

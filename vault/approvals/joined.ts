import type { ApprovalRecord } from './approval.ts'

/**
 * What the same request again finds of the approval that it led to. While the owner had time for it: open, approved,
 * denied, or consumed and still to be answered again, so that whoever comes back for an answer gets that and not another
 * question. Under an Idempotency-Key (`isKeyed`) a denied, expired or canceled one is final.
 *
 * @param isOver whether its time is over
 * @returns undefined when the owner is to be asked anew
 */
export function joined(
  record: ApprovalRecord,
  isOver: boolean,
  isKeyed: boolean,
): ApprovalRecord | undefined {
  switch (record.state) {
    case 'pending':
    case 'approved':
      if (!isOver) return record
      return isKeyed ? { ...record, state: 'expired' } : undefined
    case 'consumed':
      return record.answer !== null && !isOver ? record : undefined
    case 'denied':
      return isKeyed || !isOver ? record : undefined
    case 'expired':
    case 'canceled':
      return isKeyed ? record : undefined
    case 'failed':
      return undefined
  }
}

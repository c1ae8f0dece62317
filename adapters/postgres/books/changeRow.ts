import { entriesText } from '../../../core/domain/ledger.ts'
import { hasAccountNumber, openStates, type PaymentState } from '../../../core/domain/payment.ts'
import type { Purchase } from '../../../core/domain/purchase.ts'
import { LARGEST_DELAY_MS, type PaymentChange } from '../../../core/ports/store/books.ts'
import { canonicalTransaction, noLink } from '../../sql/sales/paymentRows.ts'
import { lockOfKey, lockOfNumber, lockOfTransaction } from './bookLocks.ts'

/** A change as the database's function `books_change` takes it, and what has to be locked before. */
export interface ChangeRow {
  readonly row: number
  /** Columns of the database's type `book_change`; what is absent is null. */
  readonly fields: object
  readonly body: Uint8Array | undefined
  /** Numbers of `books_lock`. */
  readonly shared: readonly number[]
  readonly alone: readonly number[]
  readonly sessionId: string | undefined
  /** What becomes of the session depends on its link. */
  readonly isLetGo: boolean
}

export function changeRow(change: PaymentChange): ChangeRow {
  const { purchase, answer, attempt, refund, noRefund, session } = change
  return {
    row: change.row,
    fields: fieldsOf(change),
    body: answer?.body,
    shared: [
      ...(purchase?.txHash == null ? [] : [lockOfTransaction(purchase.network, purchase.txHash)]),
      ...(noRefund ? [lockOfTransaction(noRefund.network, noRefund.transaction)] : []),
    ],
    alone: [
      ...(refund
        ? [lockOfTransaction(refund.network, refund.transaction), ...refund.paymentKeys.map(lockOfKey)]
        : []),
      ...(attempt && hasAccountNumber(attempt) ? [lockOfNumber(attempt)] : []),
    ],
    sessionId: session?.id,
    isLetGo: session?.does === 'release' || session?.does === 'fail',
  }
}

function fieldsOf(change: PaymentChange): object {
  const { settled, attempt, answer, purchase, entries, refund, noRefund, session, tells, takenBy } = change
  const isLeaving = !(openStates as readonly PaymentState[]).includes(change.to)
  return {
    row_id: change.row,
    from_states: change.from,
    lease: change.lease,
    purchase_id: change.purchaseId,
    ...(change.errorWas !== undefined && { error_was: change.errorWas }),
    to_state: change.to,
    due_in_ms: change.dueInMs === null ? null : Math.min(change.dueInMs, LARGEST_DELAY_MS),
    ...(isLeaving ? { sets_lease: true } : takenBy !== undefined && { sets_lease: true, taken_by: takenBy }),
    ...(change.errorReason !== undefined && { sets_error: true, error_reason: change.errorReason }),
    ...(settled && {
      sets_transfer: true,
      tx_hash: settled.transaction,
      event: settled.event,
      block: settled.block,
      charged_atomic: settled.chargedAtomic.toString(),
    }),
    ...(attempt !== undefined && {
      sets_attempt: true,
      ...(attempt && {
        settler: attempt.settler,
        attempt_bytes: attempt.bytes,
        attempt_tx: attempt.transaction,
        sequence: attempt.sequence,
        is_shared: attempt.isShared === true,
      }),
    }),
    ...(answer !== undefined && {
      sets_answer: true,
      ...(answer && { status: answer.status, headers: JSON.stringify(answer.headers) }),
    }),
    ...(purchase && { purchase: purchaseRow(change.row, purchase, settled?.event ?? null) }),
    ...(change.purchaseStatus !== undefined && { purchase_status: change.purchaseStatus }),
    ...(entries !== undefined && entries.length > 0 && { entries: entriesText(entries) }),
    ...(refund && {
      refund_network: refund.network,
      refund_tx: canonicalTransaction(refund.network, refund.transaction),
      refund_keys: refund.paymentKeys,
    }),
    ...(noRefund && {
      no_refund_network: noRefund.network,
      no_refund_tx: canonicalTransaction(noRefund.network, noRefund.transaction),
    }),
    ...(session && { session_id: session.id, session_does: session.does }),
    ...(tells && tells.length > 0 && { tells: tells.map(({ kind, detail = null }) => [kind, detail]) }),
  }
}

const purchaseRow = (row: number, p: Purchase, event: string | null) => ({
  payment_id: row,
  id: p.id,
  link_id: p.linkId ?? noLink,
  store_id: p.storeId,
  buyer_wallet: p.buyerWallet,
  network: p.network,
  asset: p.asset,
  symbol: p.symbol,
  decimals: p.decimals,
  amount_atomic: p.amountAtomic.toString(),
  fee_atomic: p.feeAtomic.toString(),
  price_usd: p.priceUsd,
  review_token_hash: p.reviewTokenHash,
  created_at_ms: p.createdAtMs,
  tx_hash: p.txHash,
  event,
  status: p.status,
  session_id: p.sessionId,
})

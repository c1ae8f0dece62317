import type { ClaimRequest } from '../../../core/ports/store/books.ts'
import { noLink } from '../../sql/sales/paymentRows.ts'

/** A claim as the database's function `books_claim` takes it: columns of its type `book_claim`. */
export const claimRow = (r: ClaimRequest) => ({
  key: r.key,
  network: r.network,
  asset: r.asset,
  payer: r.payer,
  nonce: r.nonce,
  pay_to: r.payTo,
  amount_atomic: r.amountAtomic.toString(),
  valid_before_ms: r.validBeforeMs,
  scheme: r.scheme,
  lease: r.lease,
  link_id: r.linkId ?? noLink,
  store_id: r.storeId,
  request_hash: r.requestHash,
  purchase_id: r.purchaseId,
  session_id: r.sessionId,
  payload: r.payload,
})

export type ClaimRow = ReturnType<typeof claimRow>

import type { SQLInputValue } from 'node:sqlite'
import type { LedgerEntry } from '../../core/domain/ledger.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import type {
  PaymentRecord,
  PaymentState,
  SettlementAttempt,
  StoredAnswer,
} from '../../core/domain/payment.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import type { ClaimRequest } from '../../core/ports/payments.ts'
import type { PaymentTable } from './schema.ts'

/** A payment with its answer, the way {@link toPaymentRecord} reads it. */
export const selectPayment = `
  SELECT p.*, l.payload, s.settler, s.bytes AS attempt_bytes, s.tx AS attempt_transaction,
    s.sequence AS attempt_sequence, a.status AS answer_status, a.headers AS answer_headers, a.body AS answer_body
  FROM payments p JOIN payment_payloads l ON l.payment_id = p.id
    LEFT JOIN attempts s ON s.payment_id = p.id LEFT JOIN answers a ON a.payment_id = p.id`

interface PaymentRow extends PaymentTable {
  payload: string
  settler: string | null
  attempt_bytes: string | null
  attempt_transaction: string | null
  attempt_sequence: string | null
  answer_status: number | null
  answer_headers: string | null
  answer_body: Uint8Array | null
}

export function toPaymentRecord(found: object): PaymentRecord {
  const row = found as PaymentRow
  return {
    key: row.key,
    network: row.network as NetworkId,
    asset: row.asset,
    payer: row.payer,
    nonce: row.nonce,
    payTo: row.pay_to,
    amountAtomic: BigInt(row.amount_atomic),
    validBeforeMs: row.valid_before_ms,
    state: row.state as PaymentState,
    owner: row.owner,
    linkId: row.link_id,
    storeId: row.store_id,
    requestHash: row.request_hash,
    purchaseId: row.purchase_id,
    payload: row.payload,
    attempt: attemptOf(row),
    answer: answerOf(row),
    transaction: row.tx_hash,
    errorReason: row.error_reason,
    claimedAtMs: row.claimed_at_ms,
    updatedAtMs: row.updated_at_ms,
  }
}

/** In the order of `claimColumns`. */
export const claimValues = (r: ClaimRequest, nowMs: number): SQLInputValue[] => [
  ...[r.key, r.network, r.asset, r.payer, r.nonce, r.payTo, digits(r.amountAtomic), wholeMs(r.validBeforeMs)],
  ...[r.owner, r.linkId, r.storeId, r.requestHash, r.purchaseId, nowMs, nowMs],
]

/** In the order of `purchaseColumns`. */
export const purchaseValues = (p: Purchase): SQLInputValue[] => [
  ...[p.id, p.paymentKey, p.linkId, p.storeId, p.buyerWallet, p.network, p.asset, p.symbol, p.decimals],
  ...[
    digits(p.amountAtomic),
    digits(p.feeAtomic),
    p.priceUsd,
    p.txHash,
    p.reviewTokenHash,
    wholeMs(p.createdAtMs),
  ],
]

/** In the order of `entryColumns`. */
export const entryValues = (e: LedgerEntry): SQLInputValue[] => [
  ...[e.purchaseId, e.account, e.network, e.asset, digits(e.amountAtomic), e.kind],
]

export const attemptValues = (a: SettlementAttempt): SQLInputValue[] => [
  ...[a.settler, a.bytes, a.transaction, a.sequence],
]

export const answerValues = (a: StoredAnswer): SQLInputValue[] => [
  a.status,
  JSON.stringify(a.headers),
  a.body,
]

function attemptOf(row: PaymentRow): SettlementAttempt | null {
  if (row.settler === null) return null
  return {
    settler: row.settler,
    bytes: row.attempt_bytes ?? '',
    transaction: row.attempt_transaction ?? '',
    sequence: row.attempt_sequence,
  }
}

function answerOf(row: PaymentRow): StoredAnswer | null {
  if (row.answer_status === null) return null
  return {
    status: row.answer_status,
    headers: JSON.parse(row.answer_headers ?? '[]') as string[],
    body: row.answer_body ?? new Uint8Array(),
  }
}

const digits = (amount: bigint): string => amount.toString()

/** SQLite would keep 1e300 or 0.5 as something else than was meant, and give it back as a bigint or not at all. */
function wholeMs(ms: number): number {
  if (!Number.isSafeInteger(ms)) throw new RangeError(`Expected whole milliseconds since 1970, got ${ms}.`)
  return ms
}

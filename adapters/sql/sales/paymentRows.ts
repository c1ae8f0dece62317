import type { NetworkId } from '../../../core/domain/network.ts'
import type {
  PaymentKey,
  PaymentRecord,
  PaymentState,
  SettlementAttempt,
} from '../../../core/domain/payment.ts'
import { packed } from '../packed.ts'
import type { PaymentTable } from '../schema.ts'

/** Of an attempt `s`: kept once for all payments that it settles, where these are several. */
const bytesOfAttempt = `CASE s.is_shared WHEN 1 THEN (SELECT b.bytes FROM shared_bytes b WHERE b.tx = s.tx) ELSE s.bytes END`

/** A payment without its answer, the way {@link toPaymentRecord} reads it. */
export const selectPayment = `
  SELECT p.*, coalesce(l.payload, '{}') AS payload, s.settler, ${bytesOfAttempt} AS attempt_bytes, s.tx AS attempt_transaction,
    s.sequence AS attempt_sequence, s.is_shared AS attempt_is_shared, a.payment_id AS answer_id
  FROM payments p LEFT JOIN payment_payloads l ON l.payment_id = p.id
    LEFT JOIN attempts s ON s.payment_id = p.id LEFT JOIN answers a ON a.payment_id = p.id`

type PaymentRow = Omit<PaymentTable, 'id'> & {
  id: number
  payload: string
  settler: string | null
  attempt_bytes: string | null
  attempt_transaction: string | null
  attempt_sequence: string | null
  attempt_is_shared: number | null
  answer_id: number | null
}

export function toPaymentRecord(found: object): PaymentRecord {
  const row = found as PaymentRow
  return {
    row: row.id,
    key: Buffer.from(row.key).toString('hex'),
    network: row.network as NetworkId,
    asset: row.asset,
    payer: packed.hexText(row.payer),
    nonce: packed.hexText(row.nonce),
    payTo: packed.hexText(row.pay_to),
    amountAtomic: BigInt(row.amount_atomic),
    validBeforeMs: row.valid_before_ms,
    scheme: row.scheme,
    state: row.state as PaymentState,
    lease: row.lease,
    linkId: row.link_id || null,
    sessionId: row.session_id,
    storeId: row.store_id,
    requestHash: packed.callText(row.request_hash),
    purchaseId: row.purchase_id,
    payload: row.payload,
    attempt: attemptOf(row),
    hasAnswer: row.answer_id !== null,
    transaction: row.tx_hash && packed.hexText(row.tx_hash),
    event: row.event,
    block: row.block,
    chargedAtomic: row.charged_atomic === null ? null : BigInt(row.charged_atomic),
    errorReason: row.error_reason,
    isLandedLate: row.landed_late === 1,
    tries: row.tries,
    dueReason: row.due_reason,
    claimedAtMs: row.claimed_at_ms,
    updatedAtMs: row.updated_at_ms,
  }
}

/** In columns that were made NOT NULL when everything sold was a link. */
export const noLink = ''

export const keyBytes = (key: PaymentKey): Uint8Array => Buffer.from(key, 'hex')

/** An EVM hash is the same in either case; a Solana signature is base58, where case counts. */
export const canonicalTransaction = (network: string, transaction: string): string =>
  network.startsWith('eip155:') ? transaction.toLowerCase() : transaction

function attemptOf(row: PaymentRow): SettlementAttempt | null {
  if (row.settler === null) return null
  return {
    settler: row.settler,
    bytes: row.attempt_bytes ?? '',
    transaction: row.attempt_transaction ?? '',
    sequence: row.attempt_sequence,
    ...(row.attempt_is_shared === 1 && { isShared: true as const }),
  }
}

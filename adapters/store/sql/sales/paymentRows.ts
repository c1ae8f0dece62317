import type { NetworkId } from '../../../../core/domain/network.ts'
import type {
  PaymentKey,
  PaymentRecord,
  PaymentState,
  SettlementAttempt,
} from '../../../../core/domain/payment.ts'
import type { Packed, PaymentTable } from '../schema.ts'

/** The bytes of an attempt `s`. If several payments share the bytes, the database stores them once. */
const bytesOfAttempt = `CASE s.is_shared WHEN 1 THEN (SELECT b.bytes FROM shared_bytes b WHERE b.tx = s.tx) ELSE s.bytes END`

/** A payment without its response, in the columns of {@link toPaymentRecord}. */
export const selectPayment = `
  SELECT p.*, coalesce(l.payload, '{}') AS payload, s.settler, ${bytesOfAttempt} AS attempt_bytes, s.tx AS attempt_transaction,
    s.sequence AS attempt_sequence, s.is_shared AS attempt_is_shared, a.payment_id AS answer_id
  FROM payments p LEFT JOIN payment_payloads l ON l.payment_id = p.id
    LEFT JOIN attempts s ON s.payment_id = p.id LEFT JOIN responses a ON a.payment_id = p.id`

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
    hasResponse: row.answer_id !== null,
    transaction: row.tx_hash && packed.hexText(row.tx_hash),
    event: row.event,
    block: row.block,
    chargedAtomic: row.charged_atomic === null ? null : BigInt(row.charged_atomic),
    errorReason: row.error_reason,
    tries: row.tries,
    dueReason: row.due_reason,
    claimedAtMs: row.claimed_at_ms,
    updatedAtMs: row.updated_at_ms,
  }
}

/** The link id of a payment session without a link, because the column is NOT NULL. */
export const noLink = ''

export const keyBytes = (key: PaymentKey): Uint8Array => Buffer.from(key, 'hex')

/**
 * A transaction id in lower case if case does not matter. This is so for an EVM hash. Case matters in a Solana signature, which is
 * base58.
 */
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

const isHex = /^0x(?:[0-9a-f]{64}|[0-9a-f]{40})$/
const isCall = /^[0-9a-f]{64}(?::[\w-]{22})?$/
const [hashBytes, hashChars, markChars] = [32, 64, 22]

/**
 * Texts of a sale that SQLite stores as bytes, which take half the space. They are hashes, nonces and addresses of EVM chains, and
 * call hashes. Every text is restored exactly, because a text in another form (upper case, base58, a test's invented hash) stays
 * text.
 */
export const packed = {
  /** Converts `0x` and 40 or 64 lower-case digits to bytes. */
  hex: (text: string): Packed => (isHex.test(text) ? Buffer.from(text.slice(2), 'hex') : text),
  hexText: (kept: Packed): string => (typeof kept === 'string' ? kept : `0x${hexOf(kept)}`),

  /** Converts a SHA-256 of 64 digits, a colon and the caller's mark of 22 base64url characters to bytes. */
  call: (text: string): Packed => {
    if (!isCall.test(text)) return text
    const hash = Buffer.from(text.slice(0, hashChars), 'hex')
    // 22 characters do not fill whole bytes. One more character makes sure that no bit is lost.
    return text.length === hashChars
      ? hash
      : Buffer.concat([hash, Buffer.from(`${text.slice(hashChars + 1)}A`, 'base64url')])
  },
  callText: (kept: Packed): string => {
    if (typeof kept === 'string') return kept
    const hash = hexOf(kept.subarray(0, hashBytes))
    if (kept.length === hashBytes) return hash
    return `${hash}:${Buffer.from(kept.subarray(hashBytes)).toString('base64url').slice(0, markChars)}`
  },
}

const hexOf = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')

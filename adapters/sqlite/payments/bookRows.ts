import type { SQLInputValue } from 'node:sqlite'
import type { SettlementAttempt, StoredAnswer } from '../../../core/domain/payment.ts'
import type { Purchase } from '../../../core/domain/purchase.ts'
import type { ClaimRequest, PaymentChange } from '../../../core/ports/store/books.ts'
import { packed } from '../../sql/packed.ts'
import { keyBytes, noLink } from '../../sql/sales/paymentRows.ts'

export type Values = readonly SQLInputValue[]

export const claimColumns = [
  ...['key', 'network', 'asset', 'payer', 'nonce', 'pay_to', 'amount_atomic', 'valid_before_ms', 'scheme'],
  ...['lease', 'link_id', 'store_id', 'request_hash', 'purchase_id', 'claimed_at_ms', 'updated_at_ms'],
  'session_id',
]

/** In the order of {@link claimColumns}; all of it text and numbers still, which cross threads for less. */
export const claimValues = (r: ClaimRequest, nowMs: number): SQLInputValue[] => [
  r.key,
  r.network,
  r.asset,
  r.payer,
  r.nonce,
  r.payTo,
  r.amountAtomic.toString(),
  r.validBeforeMs,
  r.scheme,
  r.lease,
  r.linkId ?? noLink,
  r.storeId,
  r.requestHash,
  r.purchaseId,
  nowMs,
  nowMs,
  r.sessionId,
]

/** What {@link claimValues} made, as it is kept. */
export function claimBytes(values: Values): SQLInputValue[] {
  const kept = [...values]
  kept[keyAt] = keyBytes(String(values[keyAt]))
  kept[payerAt] = packed.hex(String(values[payerAt]))
  kept[payToAt] = packed.hex(String(values[payToAt]))
  kept[nonceAt] = packed.hex(String(values[nonceAt]))
  kept[requestHashAt] = packed.call(String(values[requestHashAt]))
  return kept
}

const [keyAt, payerAt, payToAt, nonceAt, requestHashAt] = [
  'key',
  'payer',
  'pay_to',
  'nonce',
  'request_hash',
].map((column) => claimColumns.indexOf(column)) as [number, number, number, number, number]

/**
 * Which UPDATE a change is: a number, because a text costs more on its way to the writer than the change itself.
 *
 * @param isLeaving the payment is open no more
 */
export function updateKindOf(change: PaymentChange, isLeaving: boolean): number {
  const { takenBy, errorReason, errorWas, settled, lease, from } = change
  return (
    (isLeaving ? 2 : takenBy === undefined ? 0 : 1) +
    (errorReason === undefined ? 0 : 3) +
    (settled === undefined ? 0 : 6) +
    (lease === null ? 0 : 12) +
    (errorWas === undefined ? 0 : 24) +
    48 * from.length
  )
}

/** The UPDATE of that kind; its values come in the order in which `books.ts` lists them. */
export function updateOf(kind: number): string {
  const states = Array.from({ length: Math.floor(kind / 48) }, () => 'state = ?')
  return [
    'UPDATE payments SET state = ?, due_at_ms = ?, updated_at_ms = ?, tries = 0, due_reason = NULL',
    ['', ', lease = ?', ', lease = NULL'][kind % 3],
    Math.floor(kind / 3) % 2 === 0 ? '' : ', error_reason = ?',
    Math.floor(kind / 6) % 2 === 0 ? '' : ', tx_hash = ?, event = ?, block = ?, charged_atomic = ?',
    // Not IN: with more than two values SQLite builds a table for it at each run.
    ` WHERE id = ? AND purchase_id = ? AND (${states.join(' OR ') || '0'})`,
    Math.floor(kind / 12) % 2 === 0 ? '' : ' AND lease = ?',
    Math.floor(kind / 24) % 2 === 0 ? '' : ' AND error_reason = ?',
  ].join('')
}

/** Its values as they are kept. */
export function updateBytes(kind: number, values: Values): Values {
  if (Math.floor(kind / 6) % 2 === 0) return values
  const hashAt = 3 + Number(kind % 3 === 1) + (Math.floor(kind / 3) % 2)
  const hash = values[hashAt]
  return typeof hash === 'string' ? values.with(hashAt, packed.hex(hash)) : values
}

export const purchaseColumns = [
  ...['id', 'link_id', 'store_id', 'buyer_wallet', 'network', 'asset', 'symbol', 'decimals', 'amount_atomic'],
  ...['fee_atomic', 'price_usd', 'review_token_hash', 'created_at_ms', 'tx_hash', 'event', 'status'],
  'session_id',
]

/** In the order of {@link purchaseColumns}. */
export const purchaseValues = (p: Purchase, event: string | null): SQLInputValue[] => [
  p.id,
  p.linkId ?? noLink,
  p.storeId,
  p.buyerWallet,
  p.network,
  p.asset,
  p.symbol,
  p.decimals,
  p.amountAtomic.toString(),
  p.feeAtomic.toString(),
  p.priceUsd,
  p.reviewTokenHash,
  p.createdAtMs,
  p.txHash,
  event,
  p.status,
  p.sessionId,
]

/** What {@link purchaseValues} made, as it is kept. */
export function purchaseBytes(values: Values): SQLInputValue[] {
  const kept = [...values]
  const [token, hash] = [kept[tokenHashAt], kept[txHashAt]]
  kept[tokenHashAt] = packed.call(String(token))
  if (typeof hash === 'string') kept[txHashAt] = packed.hex(hash)
  return kept
}

const [tokenHashAt, txHashAt] = ['review_token_hash', 'tx_hash'].map((column) =>
  purchaseColumns.indexOf(column),
) as [number, number]

export const attemptValues = (a: SettlementAttempt): SQLInputValue[] => [
  a.settler,
  a.bytes,
  a.transaction,
  a.sequence,
  a.isShared === true ? 1 : 0,
]

/** Up to here a body crosses threads as text, one char a byte: a copy, where bytes are a memory of their own on each side. */
const SMALL_BYTES = 16_384

/** status, headers, body */
export const answerValues = ({ status, headers, body }: StoredAnswer): SQLInputValue[] => [
  status,
  JSON.stringify(headers),
  body.length <= SMALL_BYTES ? latin1Of(body) : ownBytes(body),
]

const latin1Of = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')

/** Bytes that cross threads take all of their memory along: a small piece of a large one would be the whole. */
const ownBytes = (bytes: Uint8Array): Uint8Array =>
  bytes.length === bytes.buffer.byteLength ? bytes : new Uint8Array(bytes)

/** What {@link answerValues} made text of, as bytes again. */
export const bodyBytes = (body: SQLInputValue): SQLInputValue =>
  typeof body === 'string' ? Buffer.from(body, 'latin1') : body

import type { SQLInputValue } from 'node:sqlite'
import type { LedgerEntry } from '../../../core/domain/ledger.ts'
import type { NetworkId } from '../../../core/domain/network.ts'
import type {
  PaymentKey,
  PaymentRecord,
  PaymentState,
  SettlementAttempt,
  StoredAnswer,
} from '../../../core/domain/payment.ts'
import type { Purchase } from '../../../core/domain/purchase.ts'
import type { ClaimRequest, PaymentChange } from '../../../core/ports/books.ts'
import type { PaymentTable } from '../schema.ts'

export type Values = readonly SQLInputValue[]

/** A payment without its answer, the way {@link toPaymentRecord} reads it. */
export const selectPayment = `
  SELECT p.*, coalesce(l.payload, '{}') AS payload, s.settler, s.bytes AS attempt_bytes, s.tx AS attempt_transaction,
    s.sequence AS attempt_sequence, a.payment_id AS answer_id
  FROM payments p LEFT JOIN payment_payloads l ON l.payment_id = p.id
    LEFT JOIN attempts s ON s.payment_id = p.id LEFT JOIN answers a ON a.payment_id = p.id`

type PaymentRow = Omit<PaymentTable, 'id'> & {
  id: number
  payload: string
  settler: string | null
  attempt_bytes: string | null
  attempt_transaction: string | null
  attempt_sequence: string | null
  answer_id: number | null
}

export function toPaymentRecord(found: object): PaymentRecord {
  const row = found as PaymentRow
  return {
    row: row.id,
    key: Buffer.from(row.key).toString('hex'),
    network: row.network as NetworkId,
    asset: row.asset,
    payer: row.payer,
    nonce: row.nonce,
    payTo: row.pay_to,
    amountAtomic: BigInt(row.amount_atomic),
    validBeforeMs: row.valid_before_ms,
    scheme: row.scheme,
    state: row.state as PaymentState,
    lease: row.lease,
    linkId: row.link_id || null,
    sessionId: row.session_id,
    storeId: row.store_id,
    requestHash: row.request_hash,
    purchaseId: row.purchase_id,
    payload: row.payload,
    attempt: attemptOf(row),
    hasAnswer: row.answer_id !== null,
    transaction: row.tx_hash,
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
const noLink = ''

export const keyBytes = (key: PaymentKey): Uint8Array => Buffer.from(key, 'hex')

export const claimColumns = [
  ...['key', 'network', 'asset', 'payer', 'nonce', 'pay_to', 'amount_atomic', 'valid_before_ms', 'scheme'],
  ...['lease', 'link_id', 'store_id', 'request_hash', 'purchase_id', 'claimed_at_ms', 'updated_at_ms'],
  'session_id',
]

/** In the order of {@link claimColumns}; the key is text still, which crosses threads for less. */
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

/**
 * Which UPDATE a change is: a number, because a text costs more on its way to the writer than the change itself.
 *
 * @param isLeaving the payment is open no more
 */
export function updateKindOf(change: PaymentChange, isLeaving: boolean): number {
  const { takenBy, errorReason, settled, lease, from } = change
  return (
    (isLeaving ? 2 : takenBy === undefined ? 0 : 1) +
    (errorReason === undefined ? 0 : 3) +
    (settled === undefined ? 0 : 6) +
    (lease === null ? 0 : 12) +
    24 * from.length
  )
}

/** The UPDATE of that kind; its values come in the order in which `books.ts` lists them. */
export function updateOf(kind: number): string {
  const states = Array.from({ length: Math.floor(kind / 24) }, () => 'state = ?')
  return [
    'UPDATE payments SET state = ?, due_at_ms = ?, updated_at_ms = ?, tries = 0, due_reason = NULL',
    ['', ', lease = ?', ', lease = NULL'][kind % 3],
    Math.floor(kind / 3) % 2 === 0 ? '' : ', error_reason = ?',
    Math.floor(kind / 6) % 2 === 0 ? '' : ', tx_hash = ?, event = ?, block = ?, charged_atomic = ?',
    // Not IN: with more than two values SQLite builds a table for it at each run.
    ` WHERE id = ? AND purchase_id = ? AND (${states.join(' OR ') || '0'})`,
    Math.floor(kind / 12) % 2 === 0 ? '' : ' AND lease = ?',
  ].join('')
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

/**
 * Entries in one text: a sale's four are one row (bench/durableSteps.ts). Most are of one asset, which is named once:
 * `[network, asset, [kind, account, amount, account, amount], [kind, …]]`; others are a list of {@link EntryText}.
 */
export function entriesText(entries: readonly LedgerEntry[]): string {
  const [{ network, asset } = { network: '', asset: '' }] = entries
  if (entries.length === 0 || entries.some((e) => e.network !== network || e.asset !== asset))
    return JSON.stringify(
      entries.map(
        (e) => [e.account, e.network, e.asset, e.amountAtomic.toString(), e.kind] satisfies EntryText,
      ),
    )
  const runs: string[][] = []
  for (const { kind, account, amountAtomic } of entries) {
    if (runs.at(-1)?.[0] !== kind) runs.push([kind])
    runs.at(-1)!.push(account, amountAtomic.toString())
  }
  return JSON.stringify([network, asset, ...runs])
}

type EntryText = [account: string, network: string, asset: string, amountAtomic: string, kind: string]

/** What {@link entriesText} wrote. @throws for anything else */
export function toEntries(purchaseId: string, text: string): LedgerEntry[] {
  const entryOf = ([account, network, asset, amountAtomic, kind]: EntryText): LedgerEntry => ({
    ...{ purchaseId, account, network, asset, amountAtomic: BigInt(amountAtomic) },
    kind: kind as LedgerEntry['kind'],
  })
  const stored = JSON.parse(text) as EntryText[] | [network: string, asset: string, ...runs: string[][]]
  if (typeof stored[0] !== 'string') return (stored as EntryText[]).map(entryOf)
  const [network, asset, ...runs] = stored as [string, string, ...string[][]]
  return runs.flatMap(([kind, ...lines]) =>
    Array.from({ length: Math.ceil(lines.length / 2) }, (_, i) =>
      entryOf([lines[2 * i]!, network, asset, lines[2 * i + 1]!, kind!]),
    ),
  )
}

/**
 * Whether the ledger has one move of a purchase, and its entries are word for word those that `entriesOfSale` makes of it, as
 * {@link entriesText} writes them or as it did before: then they can be read, cancel out and say what the purchase says. What is
 * unusual in the least is not: zero prices, names that JSON would have to escape, invoices of fees.
 *
 * @param u the row of `purchases`
 */
export function isSaleInLedger(u: string): string {
  const [buyer, seller, owed, own] = [
    `buyer:' || ${u}.buyer_wallet || '`,
    `seller:' || ${u}.store_id || '`,
    `fees-owed:' || ${u}.store_id || '`,
    'platform:fees',
  ]
  const [amount, fee] = [`' || ${u}.amount_atomic || '`, `' || ${u}.fee_atomic || '`]
  const feeOwed = `' || CASE ${u}.fee_atomic WHEN '0' THEN '' ELSE '-' END || '${fee}`
  const unit = `' || ${u}.network || '","' || ${u}.asset || '`
  const line = (account: string, text: string, kind: string) => `["${account}","${unit}","${text}","${kind}"]`
  const text = `["${unit}",["sale","${buyer}","-${amount}","${seller}","${amount}"],["fee","${owed}","${feeOwed}","${own}","${fee}"]]`
  const former = [
    line(buyer, `-${amount}`, 'sale'),
    line(seller, amount, 'sale'),
    line(owed, feeOwed, 'fee'),
    line(own, fee, 'fee'),
  ].join()
  const escaped = ['network', 'asset', 'buyer_wallet', 'store_id'].flatMap((column) =>
    ['"', '\\'].map((mark) => `instr(${u}.${column}, '${mark}')`),
  )
  return `(${u}.amount_atomic GLOB '[1-9]*' AND ${u}.fee_atomic <> ''
    AND (${u}.amount_atomic || ${u}.fee_atomic) NOT GLOB '*[^0-9]*'
    AND ${escaped.join(' + ')} = 0 AND substr(${u}.store_id, 1, 10) <> 'fees-owed:'
    AND coalesce((SELECT count(*) = 1 AND min(entries) = CASE substr(min(entries), 1, 2)
        WHEN '[[' THEN '[${former}]' ELSE '${text}' END
      FROM ledger WHERE purchase_id = ${u}.id), 0))`
}

export const attemptValues = (a: SettlementAttempt): SQLInputValue[] => [
  a.settler,
  a.bytes,
  a.transaction,
  a.sequence,
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
  }
}

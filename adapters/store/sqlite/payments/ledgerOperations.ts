import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'
import {
  type SettlementAttempt,
  type StoredResponse,
  unchargedStates,
} from '../../../../core/domain/payment.ts'
import type { Purchase } from '../../../../core/domain/purchase.ts'
import { newEventId } from '../../../../core/domain/webhook.ts'
import type { ClaimRequest, PaymentChange } from '../../../../core/ports/store/ledger.ts'
import { keyBytes, noLink, packed, selectPayment } from '../../sql/sales/paymentRows.ts'
import { ConstraintError } from '../failure.ts'
import type { Row } from '../statement.ts'
import { type SessionArgs, sessionMoves } from './sessionMoves.ts'

/** `values` are the columns of `claimColumns`, in their order. The first is the key, in hex. */
export type ClaimArgs = readonly [values: Values, payload: string]

/**
 * A change of one payment. It has as few values as possible and no small byte arrays, because each costs time on its way to the
 * writer thread.
 */
export interface ApplyArgs {
  readonly row: number
  /** Kind of the UPDATE of the payment's row. Its WHERE clause contains every condition of the change. */
  readonly update: number
  readonly values: Values
  /** The values are settler, bytes, transaction, sequence, and whether other payments share the bytes. Null deletes the attempt. */
  readonly attempt?: Values | null
  /** The values are status, headers, and body as `responseValues` writes it. Null deletes the response. */
  readonly response?: Values | null
  /** Values of `purchaseColumns`. */
  readonly purchase?: Values
  readonly purchaseStatus?: string
  /** Entries as `entriesText` writes them. */
  readonly entries?: readonly [purchaseId: string, text: string]
  readonly refund?: {
    readonly network: string
    /** In lower case on EVM chains (see `canonicalTransaction`). */
    readonly transaction: string
    /** In hex. */
    readonly keys: readonly string[]
    readonly atMs: number
  }
  /**
   * The payment's refund that a reorganization undid. The values are network, transaction (see `canonicalTransaction`) and the time
   * of the discovery.
   */
  readonly lostRefund?: readonly [network: string, transaction: string, atMs: number]
  readonly session?: SessionArgs
  /** Network and transaction (see `canonicalTransaction`). The change requires that this transaction is no refund. */
  readonly noRefund?: readonly [network: string, transaction: string]
  /** Kind and detail of each outbox event. */
  readonly events?: Values
}

/**
 * The transaction of a purchase, as queries compare it. It repeats the expression of the index `purchases_transfer`, so that SQLite
 * uses it.
 */
export const transactionOf = `CASE WHEN typeof(tx_hash) = 'blob' OR network NOT LIKE 'eip155:%' THEN tx_hash
      WHEN tx_hash LIKE '0x%' AND length(tx_hash) = 66 THEN coalesce(unhex(substr(tx_hash, 3)), lower(tx_hash))
      ELSE lower(tx_hash) END`

/** The writer's message if another transaction already has the attempt's nonce. */
export const numberTakenMessage = 'UNIQUE constraint failed: attempts.settler, attempts.sequence'

const marks = (columns: readonly string[]) => columns.map(() => '?').join(', ')

/** The ledger's writes, each inside the writer's transaction. They check the conditions of a change. The rules are in `core`. */
export function bookOperations(database: DatabaseSync) {
  const claimRow = database.prepare(`
    INSERT INTO payments (${claimColumns.join(', ')}, state) VALUES (${marks(claimColumns)}, 'claimed')
    ON CONFLICT (key) DO NOTHING`)
  const payload = database.prepare(`
    INSERT INTO payment_payloads (payment_id, payload) VALUES (?, ?)
    ON CONFLICT (payment_id) DO UPDATE SET payload = excluded.payload`)
  const claimAgain = database.prepare(`
    UPDATE payments SET ${claimColumns.map((column) => `${column} = ?`).join(', ')}, state = 'claimed',
      tx_hash = NULL, event = NULL, block = NULL, charged_atomic = NULL, error_reason = NULL,
      due_at_ms = NULL, tries = 0, due_reason = NULL
    WHERE key = ? AND state = 'rejected' RETURNING id`)
  const find = database.prepare(`${selectPayment} WHERE p.key = ?`)
  const holderOf = database.prepare(
    'SELECT id, key, state FROM payments WHERE identifier = ? AND payer = ? AND network = ? AND key <> ?',
  )
  const loseIdentifier = database.prepare('UPDATE payments SET identifier = NULL WHERE id = ?')
  const attempt = database.prepare(`
    INSERT INTO attempts (payment_id, settler, bytes, tx, sequence, is_shared) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (payment_id) DO UPDATE
      SET settler = excluded.settler, bytes = excluded.bytes, tx = excluded.tx, sequence = excluded.sequence,
        is_shared = excluded.is_shared`)
  // Repeats the conditions of the index attempts_number, so that SQLite uses it.
  const hasNumber = database.prepare(`
    SELECT 1 FROM attempts s JOIN payments p ON p.id = s.payment_id
    WHERE s.settler LIKE 'evm:%' AND s.sequence IS NOT NULL AND s.settler = ? AND s.sequence = ?
      AND s.tx <> ? AND p.id <> ? AND p.state IN ('settling', 'pending', 'reorged')`)
  const share = database.prepare('INSERT INTO shared_bytes (tx, bytes) VALUES (?, ?) ON CONFLICT DO NOTHING')
  const keepAttempt = (row: number, [settler, bytes, tx, sequence, isShared]: Values): void => {
    if (isShared === 1) share.run(tx!, bytes!)
    attempt.run(row, settler!, isShared === 1 ? '' : bytes!, tx!, sequence!, isShared!)
  }
  const forgetAttempt = database.prepare('DELETE FROM attempts WHERE payment_id = ?')
  const response = database.prepare(`
    INSERT INTO responses (payment_id, status, headers, body) VALUES (?, ?, ?, ?)
    ON CONFLICT (payment_id) DO UPDATE SET status = excluded.status, headers = excluded.headers, body = excluded.body`)
  const forgetResponse = database.prepare('DELETE FROM responses WHERE payment_id = ?')
  const purchase = database.prepare(`
    INSERT INTO purchases (payment_id, ${purchaseColumns.join(', ')}) VALUES (?, ${marks(purchaseColumns)})
    ON CONFLICT (payment_id) DO UPDATE
      SET status = excluded.status, tx_hash = excluded.tx_hash, event = excluded.event`)
  // The statement leaves out the event, which has an index. An UPDATE that names the event would delete and insert its index entry,
  // each in a random page.
  const purchaseStatus = database.prepare('UPDATE purchases SET status = ? WHERE payment_id = ?')
  // A sale that a reorganization undid has no event. Its transaction may return with another payment at the event's index.
  const purchaseReorged = database.prepare(
    `UPDATE purchases SET status = 'reorged', event = NULL WHERE payment_id = ?`,
  )
  const book = database.prepare(`
    INSERT INTO ledger (purchase_id, move, entries)
    VALUES (?1, (SELECT coalesce(max(move) + 1, 0) FROM ledger WHERE purchase_id = ?1), ?2)`)
  const hasRefunded = database.prepare(`
    SELECT 1 FROM refunds WHERE payment_id = ?1 OR (network = ?2 AND tx_hash = ?3)
    UNION ALL SELECT 1 FROM lost_refunds WHERE network = ?2 AND tx_hash = ?3 AND payment_id <> ?1`)
  const isRefund = database.prepare(`
    SELECT 1 FROM refunds WHERE network = ?1 AND tx_hash = ?2
    UNION ALL SELECT 1 FROM lost_refunds WHERE network = ?1 AND tx_hash = ?2`)
  const isRefundedBy = database.prepare(
    'SELECT 1 FROM refunds WHERE payment_id = ? AND network = ? AND tx_hash = ?',
  )
  const hasPaid = database.prepare(`SELECT 1 FROM purchases WHERE network = ? AND ${transactionOf} = ?`)
  const isPayment = database.prepare('SELECT 1 FROM payments WHERE key = ?')
  const refund = database.prepare(
    'INSERT INTO refunds (payment_id, network, tx_hash, refunded_at_ms) VALUES (?, ?, ?, ?)',
  )
  const keepLost = database.prepare(`
    INSERT INTO lost_refunds (payment_id, network, tx_hash, refunded_at_ms, lost_at_ms)
    SELECT payment_id, network, tx_hash, refunded_at_ms, ?2 FROM refunds WHERE payment_id = ?1`)
  const loseRefund = database.prepare('DELETE FROM refunds WHERE payment_id = ?')
  const regain = database.prepare('DELETE FROM lost_refunds WHERE network = ? AND tx_hash = ?')
  const sessions = sessionMoves(database)
  const addEvents = eventWriter(database)
  const updates: StatementSync[] = []

  const isFree = (row: number, { network, transaction, keys }: NonNullable<ApplyArgs['refund']>) =>
    hasRefunded.get(row, network, transaction) === undefined &&
    hasPaid.get(network, packed.hex(transaction)) === undefined &&
    !keys.some((key) => isPayment.get(keyBytes(key)) !== undefined)

  const isNumberTaken = (row: number, [settler, , transaction, sequence]: Values) =>
    sequence !== null &&
    String(settler).startsWith('evm:') &&
    hasNumber.get(settler!, sequence!, transaction!, row) !== undefined

  /**
   * Takes the identifier of a payment that is to be claimed from a payment that has charged nothing.
   *
   * @returns the row to which the claim is lost: the payment's own, or that of the payment which has the identifier
   */
  function takeIdentifier(values: Values): Row | undefined {
    const key = values[keyAt]!
    const holder = holderOf.get(values[identifierAt]!, values[payerAt]!, values[networkAt]!, key)
    if (holder === undefined) return undefined
    const own = find.get(key)
    if (own !== undefined && own['state'] !== 'rejected') return own
    if (!(unchargedStates as readonly unknown[]).includes(holder['state'])) return find.get(holder['key']!)
    loseIdentifier.run(holder['id']!)
    return undefined
  }

  return {
    /**
     * Returns the number of the new row if this process won the claim, otherwise the existing row. The existing row is that of the
     * payment, or of the payment that has its identifier.
     */
    claim([request, text]: ClaimArgs): number | Row {
      const values = claimBytes(request)
      const lost = values[identifierAt] === null ? undefined : takeIdentifier(values)
      if (lost !== undefined) return lost
      const key = values[keyAt]!
      const { changes, lastInsertRowid } = claimRow.run(...values)
      const again = Number(changes) > 0 ? undefined : claimAgain.get(...values, key)
      if (Number(changes) === 0 && again === undefined) return find.get(key)!
      const row = again === undefined ? Number(lastInsertRowid) : Number(again['id'])
      payload.run(row, text)
      if (again !== undefined) {
        forgetAttempt.run(row)
        forgetResponse.run(row)
      }
      return row
    },

    apply(args: ApplyArgs): boolean {
      const { row } = args
      if (args.refund !== undefined && !isFree(row, args.refund)) return false
      if (args.lostRefund !== undefined) {
        const [network, transaction] = args.lostRefund
        if (isRefundedBy.get(row, network, transaction) === undefined) return false
      }
      if (args.noRefund !== undefined && isRefund.get(...args.noRefund) !== undefined) return false
      if (args.session !== undefined && !sessions.may(row, args.session)) return false
      const update = (updates[args.update] ??= database.prepare(updateOf(args.update)))
      if (Number(update.run(...updateBytes(args.update, args.values)).changes) === 0) return false
      if (args.attempt === null) forgetAttempt.run(row)
      else if (args.attempt !== undefined) {
        if (isNumberTaken(row, args.attempt)) throw new ConstraintError(numberTakenMessage)
        keepAttempt(row, args.attempt)
      }
      if (args.response === null) forgetResponse.run(row)
      else if (args.response !== undefined) {
        const [status, headers, body] = args.response
        response.run(row, status!, headers!, bodyBytes(body!))
      }
      if (args.purchase !== undefined) purchase.run(row, ...purchaseBytes(args.purchase))
      // A trigger copies the refund's time into the note of a new status. So the refund is inserted before the purchase becomes
      // refunded, and is deleted only after the purchase has left that status.
      if (args.refund !== undefined) {
        const { network, transaction, atMs } = args.refund
        regain.run(network, transaction)
        refund.run(row, network, transaction, atMs)
      }
      if (args.purchaseStatus === 'reorged') purchaseReorged.run(row)
      else if (args.purchaseStatus !== undefined) purchaseStatus.run(args.purchaseStatus, row)
      if (args.lostRefund !== undefined) {
        keepLost.run(row, args.lostRefund[2])
        loseRefund.run(row)
      }
      if (args.entries !== undefined) book.run(...args.entries)
      if (args.session !== undefined) sessions.move(row, args.session)
      if (args.events !== undefined) addEvents(row, args.events)
      return true
    },
  }
}

/**
 * Whether an endpoint `e` is enabled and subscribes to the kind. The list of kinds is JSON. A kind contains no quote, so the search
 * with quotes finds whole kinds.
 */
const isListening = `e.disabled_at_ms IS NULL AND instr(e.kinds, '"' || ?2 || '"') > 0`

/**
 * Writes the events of a payment for the endpoints of its store, in the transaction that changes the payment. If there is no
 * endpoint at all, that takes one statement. If none subscribes, it takes two index lookups more. Parameters are bound by position,
 * because binding by name costs as much as the lookups.
 */
function eventWriter(database: DatabaseSync) {
  const isAny = database.prepare('SELECT 1 FROM webhook_endpoints LIMIT 1')
  const listens = database.prepare(`
    SELECT p.store_id, nullif(p.link_id, ''), p.purchase_id, p.session_id, p.updated_at_ms FROM payments p
    WHERE p.id = ?1 AND (
      EXISTS (SELECT 1 FROM webhook_endpoints e WHERE e.store_id = p.store_id AND e.link_id IS NULL AND ${isListening})
      OR EXISTS (SELECT 1 FROM webhook_endpoints e WHERE e.store_id = p.store_id AND e.link_id = p.link_id AND ${isListening}))`)
  // If a sale returns after a reorganization, it is booked again, but its event already exists.
  const insert = database.prepare(`
    INSERT INTO webhook_events (id, kind, detail, store_id, link_id, purchase_id, session_id, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING`)

  /** @param events kind and detail of each event */
  return (row: number, events: Values): void => {
    if (isAny.get() === undefined) return
    for (let i = 0; i < events.length; i += 2) {
      const [kind, detail] = [events[i]!, events[i + 1]!]
      const found = listens.get(row, kind)
      if (found !== undefined) insert.run(newEventId(), kind, detail, ...(Object.values(found) as Values))
    }
  }
}

export type Values = readonly SQLInputValue[]

export const claimColumns = [
  ...['key', 'network', 'asset', 'payer', 'nonce', 'pay_to', 'amount_atomic', 'valid_before_ms', 'scheme'],
  ...['lease', 'link_id', 'store_id', 'request_hash', 'purchase_id', 'claimed_at_ms', 'updated_at_ms'],
  ...['session_id', 'identifier'],
]

/** The values of {@link claimColumns}, in their order. They are text and numbers, because these cross threads at a lower cost. */
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
  r.identifier ?? null,
]

/** Converts the result of {@link claimValues} to the stored form. */
export function claimBytes(values: Values): SQLInputValue[] {
  const kept = [...values]
  kept[keyAt] = keyBytes(String(values[keyAt]))
  kept[payerAt] = packed.hex(String(values[payerAt]))
  kept[payToAt] = packed.hex(String(values[payToAt]))
  kept[nonceAt] = packed.hex(String(values[nonceAt]))
  kept[requestHashAt] = packed.call(String(values[requestHashAt]))
  return kept
}

const [keyAt, networkAt, payerAt, payToAt, nonceAt, requestHashAt, identifierAt] = [
  'key',
  'network',
  'payer',
  'pay_to',
  'nonce',
  'request_hash',
  'identifier',
].map((column) => claimColumns.indexOf(column)) as [number, number, number, number, number, number, number]

/**
 * The kind of a change's UPDATE. It is a number, because a text would cost more on its way to the writer than the change itself.
 *
 * @param isLeaving whether the payment is no longer open after the change
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

/** The UPDATE of that kind. `ledger.ts` lists its values in the same order. */
export function updateOf(kind: number): string {
  const states = Array.from({ length: Math.floor(kind / 48) }, () => 'state = ?')
  return [
    'UPDATE payments SET state = ?, due_at_ms = ?, updated_at_ms = ?, tries = 0, due_reason = NULL',
    ['', ', lease = ?', ', lease = NULL'][kind % 3],
    Math.floor(kind / 3) % 2 === 0 ? '' : ', error_reason = ?',
    Math.floor(kind / 6) % 2 === 0 ? '' : ', tx_hash = ?, event = ?, block = ?, charged_atomic = ?',
    // The condition does not use IN, because SQLite builds a table at each run for an IN with more than two values.
    ` WHERE id = ? AND purchase_id = ? AND (${states.join(' OR ') || '0'})`,
    Math.floor(kind / 12) % 2 === 0 ? '' : ' AND lease = ?',
    Math.floor(kind / 24) % 2 === 0 ? '' : ' AND error_reason = ?',
  ].join('')
}

/** Converts the values of an UPDATE to the stored form. */
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

/** The values of {@link purchaseColumns}, in their order. */
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

/** Converts the result of {@link purchaseValues} to the stored form. */
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

/**
 * Size in bytes up to which a body crosses threads as text with one character per byte. Copying the text takes less time than
 * memory of its own on each side.
 */
const SMALL_BYTES = 16_384

/** The values status, headers and body. */
export const responseValues = ({ status, headers, body }: StoredResponse): SQLInputValue[] => [
  status,
  JSON.stringify(headers),
  body.length <= SMALL_BYTES ? latin1Of(body) : ownBytes(body),
]

const latin1Of = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')

/** Copies bytes that are a piece of a larger buffer, because a byte array crosses threads with its whole buffer. */
const ownBytes = (bytes: Uint8Array): Uint8Array =>
  bytes.length === bytes.buffer.byteLength ? bytes : new Uint8Array(bytes)

/** The bytes that {@link responseValues} has converted to text. */
export const bodyBytes = (body: SQLInputValue): SQLInputValue =>
  typeof body === 'string' ? Buffer.from(body, 'latin1') : body

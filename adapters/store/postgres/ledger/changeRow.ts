import { entriesText } from '../../../../core/domain/ledger.ts'
import {
  hasNonce,
  openStates,
  type PaymentKey,
  type PaymentState,
  type SettlementAttempt,
} from '../../../../core/domain/payment.ts'
import type { Purchase } from '../../../../core/domain/purchase.ts'
import { LARGEST_DELAY_MS, type PaymentChange } from '../../../../core/ports/store/ledger.ts'
import { canonicalTransaction, noLink } from '../../sql/sales/paymentRows.ts'

/** A change in the form that the database function `books_change` takes, and the locks that the change needs first. */
export interface ChangeRow {
  readonly row: number
  /** Columns of the database type `book_change`. Absent columns are null. */
  readonly fields: object
  readonly body: Uint8Array | undefined
  /** Numbers of the locks that `books_lock` takes shared (`shared`) and exclusively (`alone`). */
  readonly shared: readonly number[]
  readonly alone: readonly number[]
  readonly sessionId: string | undefined
  /** Whether the payment releases its session. The session's next state then depends on its link. */
  readonly isReleased: boolean
}

export function changeRow(change: PaymentChange): ChangeRow {
  const { purchase, response, attempt, refund, lostRefund, noRefund, session } = change
  return {
    row: change.row,
    fields: fieldsOf(change),
    body: response?.body,
    shared: [
      ...(purchase?.txHash == null ? [] : [lockOfTransaction(purchase.network, purchase.txHash)]),
      ...(noRefund ? [lockOfTransaction(noRefund.network, noRefund.transaction)] : []),
    ],
    alone: [
      ...(refund
        ? [lockOfTransaction(refund.network, refund.transaction), ...refund.paymentKeys.map(lockOfKey)]
        : []),
      ...(lostRefund ? [lockOfTransaction(lostRefund.network, lostRefund.transaction)] : []),
      ...(attempt && hasNonce(attempt) ? [lockOfNumber(attempt)] : []),
    ],
    sessionId: session?.id,
    isReleased: session?.does === 'release' || session?.does === 'fail',
  }
}

function fieldsOf(change: PaymentChange): object {
  const { settled, attempt, response, purchase, entries, refund, lostRefund, noRefund, session } = change
  const { events, takenBy } = change
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
    ...(response !== undefined && {
      sets_answer: true,
      ...(response && { status: response.status, headers: JSON.stringify(response.headers) }),
    }),
    ...(purchase && { purchase: purchaseRow(change.row, purchase, settled?.event ?? null) }),
    ...(change.purchaseStatus !== undefined && { purchase_status: change.purchaseStatus }),
    ...(entries !== undefined && entries.length > 0 && { entries: entriesText(entries) }),
    ...(refund && {
      refund_network: refund.network,
      refund_tx: canonicalTransaction(refund.network, refund.transaction),
      refund_keys: refund.paymentKeys,
    }),
    ...(lostRefund && {
      lost_network: lostRefund.network,
      lost_tx: canonicalTransaction(lostRefund.network, lostRefund.transaction),
    }),
    ...(noRefund && {
      no_refund_network: noRefund.network,
      no_refund_tx: canonicalTransaction(noRefund.network, noRefund.transaction),
    }),
    ...(session && { session_id: session.id, session_does: session.does }),
    ...(events && events.length > 0 && { events: events.map(({ kind, detail = null }) => [kind, detail]) }),
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

// Number of locks for payment keys. A group takes at most this many. With fewer locks, a refund would delay more other writes.
// Every version of Tollgate that uses a database must compute the same numbers.
const KEYS = 16
const TRANSACTIONS = 16

/** The lock for all payments whose key begins with the same digit, even if their rows do not exist yet. */
export const lockOfKey = (key: PaymentKey): number => Number.parseInt(key.slice(0, 1), 16) % KEYS

/** The lock for the purchases and refunds that a transaction has paid. */
const lockOfTransaction = (network: string, transaction: string): number =>
  KEYS + (sumOf(`${network} ${canonicalTransaction(network, transaction)}`) % TRANSACTIONS)

/**
 * The lock for the transactions of a settlement key with this nonce. The process that signs such a transaction takes the lock
 * exclusively. The lock delays no other payment.
 */
const lockOfNumber = ({ settler, sequence }: SettlementAttempt): number =>
  1_000 + sumOf(`${settler} ${sequence}`)

/** The lock for the payments of a payer that have this identifier. A claim with the identifier takes the lock exclusively. */
export const lockOfIdentifier = ({ network, payer, identifier }: Identified): number =>
  1_000 + sumOf(`${network} ${payer} ${identifier}`)

interface Identified {
  readonly network: string
  readonly payer: string
  readonly identifier: string | undefined
}

function sumOf(text: string): number {
  let sum = 0
  for (let i = 0; i < text.length; i++) sum = (sum * 31 + text.charCodeAt(i)) % 2_147_480_000
  return sum
}

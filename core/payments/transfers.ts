import { hash } from 'node:crypto'
import { debtorOf } from '../domain/ledger.ts'
import type { PaymentRecord } from '../domain/payment.ts'
import { isProcessing, mayConfirm, type Session, statusOf } from '../domain/session.ts'
import { isTollgateError, TollgateError } from '../errors/error.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { FoundTransfer, WantedTransfer } from '../ports/chains/transferProofs.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/log.ts'
import type { Lease } from '../ports/store/leases.ts'
import type { ClaimRequest, Ledger } from '../ports/store/ledger.ts'
import type { Sessions } from '../ports/store/sessions.ts'
import { assetOf, newPurchaseId, type PurchaseNotes, type Sale } from './purchase.ts'
import { bookTransfer, land } from './reconciliation.ts'
import * as rules from './rules.ts'

/** The x402 scheme that the ledger stores for a payment that was made without x402. */
export const transferScheme = 'transfer'
/** Maximum attempts to record one transfer. An attempt fails if another process changes the row first, which is rare. */
const MAX_TURNS = 4

/** A transfer that was proved on chain. */
export type ProvedTransfer = FoundTransfer & Pick<WantedTransfer, 'network' | 'asset' | 'payTo'>

export type TransferBooked =
  /**
   * The transfer has paid the payment session, now or earlier. If the session was an invoice that had ended, the transfer still
   * lowers what the seller owes.
   */
  | { readonly status: 'confirmed'; readonly purchaseId: string }
  /** The payment session had ended without the transfer. The transfer is recorded as owed back, now or earlier. */
  | { readonly status: 'owed'; readonly purchaseId: string }
  /** The transfer counts for something else, which is a purchase, a refund or another payment session. */
  | { readonly status: 'used' }
  /**
   * The result is not known now, because a payment for the payment session is being settled, or this transfer is being recorded.
   */
  | { readonly status: 'busy' }

export interface TransferDeps {
  readonly ledger: Pick<Ledger, 'claim' | 'apply' | 'find'>
  readonly sessions: Pick<Sessions, 'find'>
  readonly chains: Pick<Chains, 'assets'>
  readonly notes: Pick<PurchaseNotes, 'tokenHash'>
  /** This process's own lease. Its property always has the current value. */
  readonly lease: { readonly current: Lease }
  readonly clock: Clock
  readonly log: Log
}

/** Records plain transfers that were proved on chain. A transfer counts for only one purpose, permanently. */
export interface Transfers {
  /**
   * Confirms the payment session by a transfer, with purchase, ledger entries and webhook events, in one commit. If the session has
   * ended without the transfer, the same commit records that the money is owed back.
   *
   * @throws `NOT_FOUND` if the payment session was deleted meanwhile
   * @throws `store_unavailable` if the transfer may be recorded or not. A retry shows whether it is
   */
  book(session: Pick<Session, 'id'>, transfer: ProvedTransfer): Promise<TransferBooked>
}

/**
 * Claims a transfer by its key like any payment, so that no other call can claim it. The next commit records it. If the process
 * dies between the two, recovery frees the claim.
 */
export function createTransfers(parts: TransferDeps): Transfers {
  const { ledger, sessions, chains, notes, lease, clock, log } = parts

  const saleOf = (payment: ClaimRequest | PaymentRecord, transfer: ProvedTransfer): Sale => {
    const { transaction, event, block, amountAtomic: chargedAtomic } = transfer
    return {
      payment,
      landed: { transaction, event, block, chargedAtomic },
      asset: assetOf(chains.assets, transfer),
      reviewTokenHash: notes.tokenHash(payment.purchaseId),
      atMs: clock.now(),
    }
  }

  /**
   * Records a payment that was given up and is now proved to be on chain, because recovery may no longer check it. The payment
   * counts for what it was signed for, even if this request names another payment session.
   *
   * @returns false if the ledger has another payment at the same place on chain
   */
  async function landed(record: PaymentRecord, transfer: ProvedTransfer): Promise<boolean> {
    const { sessionId, row, purchaseId } = record
    const session = sessionId === null ? undefined : await sessions.find(sessionId)
    const isOver = session === undefined || !mayConfirm(session, row, clock.now())
    const change = land(record, saleOf(record, transfer), isOver)
    // Flushed, because recovery no longer checks the payment, and a caller must get the same result after a power cut.
    try {
      if (await ledger.apply({ ...change, durability: 'flushed' }))
        log.info({ purchaseId, sessionId, isOver }, 'a payment that had been given up was found on chain')
      return true
    } catch (error) {
      if (isTaken(error)) return false
      throw error
    }
  }

  async function turn(sessionId: string, transfer: ProvedTransfer): Promise<TransferBooked | 'moved'> {
    const known = await ledger.find(transfer.key)
    if (known?.state === 'failed_final' && isOf(known, transfer)) {
      if (!(await landed(known, transfer))) return { status: 'used' }
      const now = await ledger.find(transfer.key)
      return now?.state === 'failed_final' ? 'moved' : standingOf(now ?? known, sessionId)
    }
    if (known !== undefined && known.state !== 'rejected') return standingOf(known, sessionId)
    const session = await sessions.find(sessionId)
    if (session === undefined)
      throw new TollgateError('NOT_FOUND', 'This payment session ended long ago and was deleted.')
    if (isProcessing(session)) return { status: 'busy' }
    const isOver = statusOf(session, clock.now()) !== 'open'
    const request = requestOf(session, transfer, lease.current.id, newPurchaseId(clock.now()))
    const claim = await ledger.claim(request)
    if (!claim.won) return 'moved'
    const held = { ...request, row: claim.row, state: 'claimed' } as const
    const sale = saleOf(request, transfer)
    let isRecorded = false
    try {
      isRecorded = await ledger.apply(bookTransfer(held, sale, isOver))
    } catch (error) {
      await ledger.apply(rules.free(held, 'not_booked')).catch(() => undefined)
      if (isTaken(error)) return { status: 'used' }
      throw error
    }
    const { purchaseId } = request
    if (isRecorded) {
      log.info(
        { purchaseId, sessionId, transaction: transfer.transaction, isOver },
        'a transfer was recorded for a payment session',
      )
      const isOwed = isOver && debtorOf(session.storeId) === undefined
      return { status: isOwed ? 'owed' : 'confirmed', purchaseId }
    }
    // Another process has freed the claim meanwhile. Its row shows whether the transfer is recorded.
    if (!(await ledger.apply(rules.free(held, 'not_booked')))) return 'moved'
    const now = await sessions.find(sessionId)
    const isSame = now?.state === session.state && now.paymentRow === session.paymentRow
    // The payment session has not changed, so the transfer is a refund.
    return isSame && (statusOf(now, clock.now()) !== 'open') === isOver ? { status: 'used' } : 'moved'
  }

  return {
    async book({ id }, transfer) {
      for (let i = 0; i < MAX_TURNS; i++) {
        const booked = await turn(id, transfer)
        if (booked !== 'moved') return booked
      }
      return { status: 'busy' }
    },
  }
}

/** Whether the ledger has another payment with the same network, transaction and event. */
const isTaken = (error: unknown): boolean => isTollgateError(error) && error.code === 'CONFLICT'

/**
 * Whether a transfer has the terms of a payment. The buyer may use an authorization for other terms than those for which the
 * payment was signed.
 */
const isOf = ({ network, asset, payTo, amountAtomic }: PaymentRecord, transfer: ProvedTransfer): boolean =>
  network === transfer.network &&
  asset === transfer.asset &&
  payTo === transfer.payTo &&
  amountAtomic === transfer.amountAtomic

/** What a payment that is already in the ledger means for this payment session. */
export function standingOf(
  { sessionId, state, scheme, purchaseId }: PaymentRecord,
  session: string,
): TransferBooked {
  if (sessionId !== session)
    return { status: state === 'claimed' && scheme === transferScheme ? 'busy' : 'used' }
  if (state === 'delivered' || state === 'settled') return { status: 'confirmed', purchaseId }
  if (state === 'refund_due' || state === 'refunded') return { status: 'owed', purchaseId }
  if (state === 'failed_final') return { status: 'used' }
  return { status: 'busy' }
}

const requestOf = (
  { id: sessionId, linkId, storeId }: Session,
  { key, nonce, network, asset, payTo, from, amountAtomic, atMs }: ProvedTransfer,
  leaseId: number,
  purchaseId: string,
): ClaimRequest => ({
  key,
  network,
  asset,
  payer: from,
  nonce,
  payTo,
  amountAtomic,
  validBeforeMs: atMs,
  scheme: transferScheme,
  lease: leaseId,
  linkId,
  sessionId,
  storeId,
  purchaseId,
  payload: '{}',
  requestHash: hash('sha256', `session ${sessionId}`),
})

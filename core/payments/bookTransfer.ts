import { hash } from 'node:crypto'
import { debtorOf } from '../domain/ledger.ts'
import type { PaymentRecord } from '../domain/payment.ts'
import { isProcessing, mayConfirm, type Session, statusOf } from '../domain/session.ts'
import { isTollgateError, TollgateError } from '../errors/error.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { FoundTransfer, WantedTransfer } from '../ports/chains/transferProofs.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/log.ts'
import type { Books, ClaimRequest } from '../ports/store/books.ts'
import type { Lease } from '../ports/store/leases.ts'
import type { Sessions } from '../ports/store/sessions.ts'
import { assetOf, newPurchaseId, type PurchaseNotes, type Sale } from './purchase.ts'
import * as rules from './rules.ts'

/** In the place of the x402 scheme, of a payment that somebody made without x402. */
export const transferScheme = 'transfer'
/** Each turn that fails is behind somebody else's move: there are few of them. */
const MOST_TURNS = 4

/** A transfer as it was proved. */
export type ProvedTransfer = FoundTransfer & Pick<WantedTransfer, 'network' | 'asset' | 'payTo'>

export type TransferBooked =
  /** It has paid the session, now or before; of an invoice that had ended: what is owed is less by it all the same. */
  | { readonly status: 'confirmed'; readonly purchaseId: string }
  /** The session had ended without it: booked, and owed back. Now or before. */
  | { readonly status: 'owed'; readonly purchaseId: string }
  /** It counts for something else: a purchase, a refund or another session. */
  | { readonly status: 'used' }
  /** Nobody can say now: a payment for the session, or this one for something, is being settled. */
  | { readonly status: 'busy' }

export interface TransferParts {
  readonly books: Pick<Books, 'claim' | 'apply' | 'find'>
  readonly sessions: Pick<Sessions, 'find'>
  readonly chains: Pick<Chains, 'assets'>
  readonly notes: Pick<PurchaseNotes, 'tokenHash'>
  /** This process's own, as it is now. */
  readonly lease: { readonly current: Lease }
  readonly clock: Clock
  readonly log: Log
}

/** Books plain transfers that the chain has proved. One transfer counts for one thing, for good. */
export interface Transfers {
  /**
   * Confirms the session by a transfer, with purchase, ledger entries and webhooks, in one commit; where the session has ended
   * otherwise, the same commit owes the money back.
   *
   * @throws `NOT_FOUND` when the session is forgotten meanwhile
   * @throws `store_unavailable`: it may be booked, and may not; the same again says
   */
  book(session: Pick<Session, 'id'>, transfer: ProvedTransfer): Promise<TransferBooked>
}

/**
 * A transfer is claimed by its key as any payment is, which nobody else then can, and booked by the next commit. A process
 * that dies between the two leaves a claim that the recovery frees.
 */
export function createTransfers(parts: TransferParts): Transfers {
  const { books, sessions, chains, notes, lease, clock, log } = parts

  const saleOf = (payment: ClaimRequest | PaymentRecord, transfer: ProvedTransfer): Sale => {
    const { transaction, event, block, amountAtomic: chargedAtomic } = transfer
    return {
      ...{ payment, landed: { transaction, event, block, chargedAtomic } },
      asset: assetOf(chains.assets, transfer),
      reviewTokenHash: notes.tokenHash(payment.purchaseId),
      atMs: clock.now(),
    }
  }

  /**
   * Given up, and proved to be on chain: nobody may look for it any more. It is what it was signed for, whoever names it.
   * @returns false when its place on chain is another payment's in the books
   */
  async function landed(record: PaymentRecord, transfer: ProvedTransfer): Promise<boolean> {
    const { sessionId, row, purchaseId } = record
    const session = sessionId === null ? undefined : await sessions.find(sessionId)
    const isOver = session === undefined || !mayConfirm(session, row, clock.now())
    const change = rules.land(record, saleOf(record, transfer), isOver)
    // Nobody looks for it any more: who is told so has to find it so after a power cut.
    try {
      if (await books.apply({ ...change, durability: 'flushed' }))
        log.info({ purchaseId, sessionId, isOver }, 'a payment that had been given up was found on chain')
      return true
    } catch (error) {
      if (isTaken(error)) return false
      throw error
    }
  }

  async function turn(sessionId: string, transfer: ProvedTransfer): Promise<TransferBooked | 'moved'> {
    const known = await books.find(transfer.key)
    if (known?.state === 'failed_final' && isOf(known, transfer)) {
      if (!(await landed(known, transfer))) return { status: 'used' }
      const now = await books.find(transfer.key)
      return now?.state === 'failed_final' ? 'moved' : standingOf(now ?? known, sessionId)
    }
    if (known !== undefined && known.state !== 'rejected') return standingOf(known, sessionId)
    const session = await sessions.find(sessionId)
    if (session === undefined)
      throw new TollgateError('NOT_FOUND', 'This payment session ended long ago and is forgotten.')
    if (isProcessing(session)) return { status: 'busy' }
    const isOver = statusOf(session, clock.now()) !== 'open'
    const request = requestOf(session, transfer, lease.current.id, newPurchaseId(clock.now()))
    const claim = await books.claim(request)
    if (!claim.won) return 'moved'
    const held = { ...request, row: claim.row, state: 'claimed' } as const
    const sale = saleOf(request, transfer)
    let isBooked = false
    try {
      isBooked = await books.apply(rules.bookTransfer(held, sale, isOver))
    } catch (error) {
      await books.apply(rules.free(held, 'not_booked')).catch(() => undefined)
      if (isTaken(error)) return { status: 'used' }
      throw error
    }
    const { purchaseId } = request
    if (isBooked) {
      log.info(
        { purchaseId, sessionId, transaction: transfer.transaction, isOver },
        'a transfer was booked for a session',
      )
      const isOwed = isOver && debtorOf(session.storeId) === undefined
      return { status: isOwed ? 'owed' : 'confirmed', purchaseId }
    }
    // Taken away meanwhile: whether it is booked is somebody else's to say.
    if (!(await books.apply(rules.free(held, 'not_booked')))) return 'moved'
    const now = await sessions.find(sessionId)
    const isSame = now?.state === session.state && now.paymentRow === session.paymentRow
    // Nobody has moved the session: it is the transfer that has paid something back.
    return isSame && (statusOf(now, clock.now()) !== 'open') === isOver ? { status: 'used' } : 'moved'
  }

  return {
    async book({ id }, transfer) {
      for (let i = 0; i < MOST_TURNS; i++) {
        const booked = await turn(id, transfer)
        if (booked !== 'moved') return booked
      }
      return { status: 'busy' }
    },
  }
}

/** Network, transaction and event are another payment's. */
const isTaken = (error: unknown): boolean => isTollgateError(error) && error.code === 'CONFLICT'

/** An authorisation may be used for other terms than those that a payment was signed for. */
const isOf = ({ network, asset, payTo, amountAtomic }: PaymentRecord, transfer: ProvedTransfer): boolean =>
  network === transfer.network &&
  asset === transfer.asset &&
  payTo === transfer.payTo &&
  amountAtomic === transfer.amountAtomic

/** What a payment that is in the books already is for this session. */
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
  ...{ key, network, asset, payer: from, nonce, payTo, amountAtomic },
  ...{ validBeforeMs: atMs, scheme: transferScheme, lease: leaseId },
  ...{ linkId, sessionId, storeId, purchaseId, payload: '{}' },
  requestHash: hash('sha256', `session ${sessionId}`),
})

import { debtorOf } from '../../core/domain/ledger.ts'
import { type ChainName, chainFamilyOf, familyOf, type NetworkId } from '../../core/domain/network.ts'
import { canonicalTransaction, type PaymentRecord } from '../../core/domain/payment.ts'
import { SESSION_LIFETIME_MS, type Session, statusOf } from '../../core/domain/session.ts'
import type { Store } from '../../core/domain/store.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import { type ProvedTransfer, standingOf, type TransferBooked } from '../../core/payments/transfers.ts'
import type { WantedTransfer } from '../../core/ports/chains/transferProofs.ts'
import { BLOCK_TIME_STEP_MS } from '../../core/ports/store/sessions.ts'
import type { Api } from '../deps.ts'
import { askedTerms } from './sessionView.ts'
import { malformed, notNamed, type Seen, throwWorst, used } from './transferFaults.ts'
import { isFromDebtor, isMeantFor, refuseOthers } from './transferOwnership.ts'

/**
 * How long after a session's end a search for its transfer is allowed, in ms. A search reads everything that the wallet received
 * since the session began.
 */
const SEARCHED_FOR_MS = 60 * 60 * 1000

/** The caller's statement about the transfer. With an empty body, the gateway searches for the transfer. */
export interface ConfirmBody {
  readonly txHash?: string | null
  readonly chain?: ChainName | null
}

interface Owed {
  readonly purchaseId: string
  readonly txHash: string
}

export type Confirmation =
  /**
   * The session is confirmed, now or earlier. With `further`, the same transaction paid it once more, and that payment is to be
   * refunded.
   */
  | { readonly status: 'confirmed'; readonly further?: Owed }
  /** The invoice had ended without this transfer. The transfer still reduces the fees that the store owes. */
  | { readonly status: 'credited'; readonly txHash: string }
  /** The session had ended without this transfer, so the transfer is to be refunded. */
  | ({ readonly status: 'owed' } & Owed)
  /** No transfer that decides the outcome was found yet. */
  | { readonly status: 'pending' }

/**
 * Confirms a session by a plain transfer. The caller names the transfer, or a search finds it on chain. Only the proof on chain
 * counts.
 *
 * @throws `VALIDATION_ERROR` for a text that is not a transaction id
 * @throws `TRANSACTION_MISMATCH`, `TRANSACTION_ALREADY_USED`, `CONFLICT`, `TRANSACTION_NOT_NAMED`, `SESSION_NOT_OPEN`,
 * `CHAIN_UNAVAILABLE`, `CHAIN_NOT_CONFIGURED`
 */
export async function confirmSession(
  api: Api,
  store: Store,
  session: Session,
  { txHash, chain }: ConfirmBody,
): Promise<Confirmation> {
  const { paid } = session
  if (paid !== null) {
    if (txHash == null) return { status: 'confirmed' }
    if (canonicalTransaction(paid.network, txHash) === paid.txHash) {
      // The session is already confirmed, so this request can only find further transfers. A node may have dropped the first
      // transaction by now.
      return byName(api, session, paymentMethods(api, store, session, undefined), txHash)
        .then((found): Confirmation => (found.status === 'confirmed' ? found : { status: 'confirmed' }))
        .catch(unlessRefused)
    }
  }
  const methods = paymentMethods(api, store, session, chain ?? undefined)
  if (txHash != null) return byName(api, session, methods, txHash)
  const nowMs = api.clock.now()
  const status = statusOf(session, nowMs)
  if (status !== 'open' && nowMs - (session.endedAtMs ?? session.expiresAtMs) >= SEARCHED_FOR_MS)
    throw notNamed('this session ended more than an hour ago')
  const found = await bySearch(api, session, methods)
  if (found !== undefined) return found
  if (status === 'open') return { status: 'pending' }
  throw new TollgateError(
    'SESSION_NOT_OPEN',
    `Expected an open session, but this session is ${status}, and no transfer for it was found.`,
  )
}

async function byName(
  api: Api,
  session: Session,
  methods: readonly WantedTransfer[],
  txHash: string,
): Promise<Confirmation> {
  const named = methods.flatMap((wanted) => {
    const transaction = canonicalTransaction(wanted.network, txHash)
    return transaction === undefined ? [] : [{ wanted, transaction }]
  })
  if (named.length === 0) throw malformed(methods)
  const seen = await Promise.all(
    named.map(async ({ wanted, transaction }): Promise<Seen> => {
      return { wanted, verdict: await api.transferProofs.prove(wanted, transaction) }
    }),
  )
  const transfers = seen.flatMap(transfersIn)
  // One transaction can contain transfers for several stores.
  const areFromDebtor = await Promise.all(transfers.map((transfer) => isFromDebtor(api, session, transfer)))
  const own = transfers.filter((_, i) => areFromDebtor[i])
  const fitting = own.length > 0 ? own : transfers
  const first = await takeOne(api, session, fitting)
  if (first === 'busy') return { status: 'pending' }
  if (first !== undefined) {
    const further = await oweFurther(api, session, fitting)
    return first.status === 'confirmed' && further !== undefined ? { ...first, further } : first
  }
  if (transfers.length > 0) throw used()
  throwWorst(api, seen)
  return { status: 'pending' }
}

/**
 * Records one of a transaction's transfers for the session. It is the transfer that is already recorded for the session, or else
 * the first unused one.
 *
 * @returns `busy` while another request is recording one of the transfers; undefined if all of them count for something else
 */
async function takeOne(
  api: Api,
  session: Session,
  transfers: readonly ProvedTransfer[],
): Promise<Confirmation | 'busy' | undefined> {
  const records = await Promise.all(transfers.map(({ key }) => api.payments.find(key)))
  const counted = transfers.filter((_, i) => records[i]?.sessionId === session.id && !isFree(records[i]))
  let isBusy = false
  for (const transfer of new Set([...counted, ...transfers])) {
    await refuseOthers(api, session, transfer)
    const booked = await confirmationOf(api, session, transfer, await api.transfers.book(session, transfer))
    if (booked === undefined) continue
    if (booked.status !== 'pending') return booked
    // Another request is recording this transfer for the session. A second transfer may be meant for another session, so it is not
    // tried.
    const record = await api.payments.find(transfer.key)
    if (record === undefined || record.sessionId === session.id) return 'busy'
    isBusy = true
  }
  return isBusy ? 'busy' : undefined
}

/**
 * Records the further transfers of a transaction as refunds that are due, because one transfer has already paid the session. If a
 * transfer may be meant for another session, this function leaves it for that session.
 * @returns the first refund that is due, now or earlier
 */
async function oweFurther(
  api: Api,
  session: Session,
  transfers: readonly ProvedTransfer[],
): Promise<Owed | undefined> {
  let owed: Owed | undefined
  for (const transfer of transfers) {
    const record = await api.payments.find(transfer.key)
    if (isFree(record) && (await isMeantFor(api, session, transfer))) continue
    try {
      await refuseOthers(api, session, transfer)
      const booked = await api.transfers.book(session, transfer)
      if (booked.status === 'owed') owed ??= { purchaseId: booked.purchaseId, txHash: transfer.transaction }
    } catch (error) {
      unlessRefused(error)
    }
  }
  return owed
}

const isFree = (record: PaymentRecord | undefined): boolean =>
  record === undefined || record.state === 'rejected'

/** A refusal changes nothing about a transaction that already counts for the session. @throws other errors */
function unlessRefused(error: unknown): Confirmation {
  if (isTollgateError(error)) return { status: 'confirmed' }
  throw error
}

/** Searches the chain. @returns undefined if no transfer matches */
async function bySearch(
  api: Api,
  session: Session,
  methods: readonly WantedTransfer[],
): Promise<Confirmation | undefined> {
  const seen = await Promise.all(
    methods.map(
      async (wanted): Promise<Seen> => ({ wanted, verdict: await api.transferProofs.find(wanted) }),
    ),
  )
  const free: ProvedTransfer[] = []
  let isBusy = seen.some(({ verdict }) => verdict.status === 'pending')
  for (const transfer of seen.flatMap(transfersIn)) {
    const record = await api.payments.find(transfer.key)
    // The transfer belongs to a payment that failed for good. It is recorded for the purchase for which that payment was signed.
    const isGivenUp = record?.state === 'failed_final'
    const known =
      record === undefined || isFree(record)
        ? undefined
        : isGivenUp
          ? await api.transfers.book(session, transfer)
          : standingOf(record, session.id)
    if (known === undefined) {
      if (await isFromDebtor(api, session, transfer)) free.push(transfer)
    } else if (known.status === 'confirmed' || known.status === 'owed')
      return confirmationOf(api, session, transfer, known)
    else if (known.status === 'busy') isBusy = true
  }
  if (free.length > 1) throw notNamed(`${free.length} transfers match this session`)
  const [only] = free
  if (only !== undefined) {
    if (await isMeantFor(api, session, only))
      throw notNamed(
        'another payment session of the store has the same amount, and the transfer may be meant for it',
      )
    await refuseOthers(api, session, only)
    const booked = await api.transfers.book(session, only)
    return (await confirmationOf(api, session, only, booked)) ?? { status: 'pending' }
  }
  if (isBusy) return { status: 'pending' }
  throwWorst(api, seen)
  if (seen.some(({ verdict }) => verdict.status === 'none' && !verdict.isComplete))
    throw notNamed('the wallet received more transfers than one search reads')
  return undefined
}

const transfersIn = ({ wanted, verdict }: Seen): ProvedTransfer[] =>
  verdict.status === 'found' ? verdict.transfers.map((transfer) => ({ ...wanted, ...transfer })) : []

/** @returns undefined if the transfer counts for something else */
async function confirmationOf(
  api: Pick<Api, 'sessions'>,
  { id, storeId }: Session,
  { transaction: txHash }: ProvedTransfer,
  booked: TransferBooked,
): Promise<Confirmation | undefined> {
  switch (booked.status) {
    case 'confirmed': {
      const isPaidByIt =
        debtorOf(storeId) === undefined || (await api.sessions.find(id))?.paid?.txHash === txHash
      return isPaidByIt ? { status: 'confirmed' } : { status: 'credited', txHash }
    }
    case 'owed':
      return { status: 'owed', purchaseId: booked.purchaseId, txHash }
    case 'busy':
      return { status: 'pending' }
    case 'used':
      return undefined
  }
}

/**
 * The payment methods of the session's 402 as plain transfers, now and when the session was created. Both count, because a buyer
 * may have read the wallet before the seller changed it.
 *
 * @throws `CHAIN_NOT_CONFIGURED` if there is none
 */
function paymentMethods(
  api: Api,
  store: Store,
  session: Session,
  chain: ChainName | undefined,
): WantedTransfer[] {
  const { price, payout: then, createdAtMs, expiresAtMs } = session
  // If the clock was set back, a new invoice still gets a creation time after that of the previous one. Its end has the real time,
  // so the real creation time is computed from the end.
  const madeAtMs = Math.min(createdAtMs, expiresAtMs - SESSION_LIFETIME_MS)
  // An invoice is always paid to the wallet with which it was created.
  const now = debtorOf(session.storeId) === undefined ? store.payout : then
  const sameThen = then.base === now.base && then.solana === now.solana
  const payouts = sameThen ? [now] : [now, then]
  const methods = payouts
    .flatMap((payout) => askedTerms(session, api.termsOf({ price, payout })))
    .filter(({ network, asset, payTo }, i, all) => {
      return i === all.findIndex((o) => o.network === network && o.asset === asset && o.payTo === payTo)
    })
    .filter(({ network }) => chain === undefined || familyOf(network) === chainFamilyOf(chain))
    .map(({ network, asset, payTo, amount }) => ({
      network: network as NetworkId,
      asset,
      payTo,
      amountAtomic: BigInt(amount),
      notBeforeMs: madeAtMs - (madeAtMs % BLOCK_TIME_STEP_MS),
    }))
  if (methods.length > 0) return methods
  const where = chain === undefined ? 'no network is open' : `no network of ${chain} is open`
  throw new TollgateError(
    'CHAIN_NOT_CONFIGURED',
    `Transfers cannot be verified: ${where} on which the store has a wallet.`,
  )
}

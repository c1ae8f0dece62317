import { debtorOf } from '../../core/domain/ledger.ts'
import { type ChainName, chainFamilyOf, familyOf, type NetworkId } from '../../core/domain/network.ts'
import type { PaymentRecord } from '../../core/domain/payment.ts'
import { SESSION_LIFETIME_MS, type Session, statusOf } from '../../core/domain/session.ts'
import type { Store } from '../../core/domain/store.ts'
import { canonicalTransaction } from '../../core/domain/transactionId.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import { type ProvedTransfer, standingOf, type TransferBooked } from '../../core/payments/bookTransfer.ts'
import type { WantedTransfer } from '../../core/ports/chains/transferProofs.ts'
import { BLOCK_TIME_STEP_MS } from '../../core/ports/store/sessions.ts'
import type { Api } from '../deps.ts'
import { askedTerms } from './askedTerms.ts'
import { malformed, notNamed, type Seen, throwWorst, used } from './transferFaults.ts'
import { isFromDebtor, isMeantFor, refuseOthers } from './whoseTransfer.ts'

/** So long after its end a transfer for a session is looked for: a look goes through all that its wallet got since. */
const LOOKED_FOR_MS = 60 * 60 * 1000

/** What is named of the transfer; nothing of it: then it is looked for. */
export interface ConfirmBody {
  readonly txHash?: string | null
  readonly chain?: ChainName | null
}

export interface Owed {
  readonly purchaseId: string
  readonly txHash: string
}

export type Confirmation =
  /** The session is confirmed, now or before. `further`: the same transaction paid it once more, which is owed back. */
  | { readonly status: 'confirmed'; readonly further?: Owed }
  /** An invoice that had ended without this transfer: what its store owes is less by it all the same. */
  | { readonly status: 'credited'; readonly txHash: string }
  /** It had ended without this transfer, which is owed back. */
  | ({ readonly status: 'owed' } & Owed)
  /** Nothing is known yet that would decide it. */
  | { readonly status: 'pending' }

/**
 * Confirms a session by a plain transfer, which the caller names or which is looked for on chain; nobody's word counts.
 *
 * @throws `VALIDATION_ERROR` for what is no transaction
 * @throws `TRANSACTION_MISMATCH`, `TRANSACTION_ALREADY_USED`, `CONFLICT`, `TRANSACTION_NOT_NAMED`, `SESSION_NOT_OPEN`,
 *   `CHAIN_UNAVAILABLE`, `CHAIN_NOT_CONFIGURED`
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
      // The chain is asked for further transfers only: a node may have forgotten the transaction by now.
      return byName(api, session, waysToPay(api, store, session, undefined), txHash)
        .then((found): Confirmation => (found.status === 'confirmed' ? found : { status: 'confirmed' }))
        .catch(unlessRefused)
    }
  }
  const ways = waysToPay(api, store, session, chain ?? undefined)
  if (txHash != null) return byName(api, session, ways, txHash)
  const nowMs = api.clock.now()
  const status = statusOf(session, nowMs)
  if (status !== 'open' && nowMs - (session.endedAtMs ?? session.expiresAtMs) >= LOOKED_FOR_MS)
    throw notNamed('this session ended more than an hour ago')
  const found = await byLook(api, session, ways)
  if (found !== undefined) return found
  if (status === 'open') return { status: 'pending' }
  throw new TollgateError('SESSION_NOT_OPEN', `This session is ${status}, and no transfer for it was found.`)
}

async function byName(
  api: Api,
  session: Session,
  ways: readonly WantedTransfer[],
  txHash: string,
): Promise<Confirmation> {
  const named = ways.flatMap((wanted) => {
    const transaction = canonicalTransaction(wanted.network, txHash)
    return transaction === undefined ? [] : [{ wanted, transaction }]
  })
  if (named.length === 0) throw malformed(ways)
  const seen = await Promise.all(
    named.map(async ({ wanted, transaction }): Promise<Seen> => {
      return { wanted, verdict: await api.transferProofs.prove(wanted, transaction) }
    }),
  )
  const transfers = seen.flatMap(transfersIn)
  // One transaction may have transfers of several stores.
  const fromWhom = await Promise.all(transfers.map((transfer) => isFromDebtor(api, session, transfer)))
  const own = transfers.filter((_, i) => fromWhom[i])
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
 * Counts one of a transaction's transfers for the session: the one that does so already, or the first that is free.
 *
 * @returns `busy` while another request is counting one of them, undefined where all of them count for something else
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
    // It is this session's own: a second one may be meant for another session.
    const record = await api.payments.find(transfer.key)
    if (record === undefined || record.sessionId === session.id) return 'busy'
    isBusy = true
  }
  return isBusy ? 'busy' : undefined
}

/**
 * Owes back what else a transaction has paid for a session: one of its transfers counts already. What may be meant for another
 * session is left to that one.
 *
 * @returns the first that is owed, now or before
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

/** What is refused of a transaction that counts already changes nothing about that. @throws what is not a refusal */
function unlessRefused(error: unknown): Confirmation {
  if (isTollgateError(error)) return { status: 'confirmed' }
  throw error
}

/** @returns undefined when there is no transfer that fits */
async function byLook(
  api: Api,
  session: Session,
  ways: readonly WantedTransfer[],
): Promise<Confirmation | undefined> {
  const seen = await Promise.all(
    ways.map(async (wanted): Promise<Seen> => ({ wanted, verdict: await api.transferProofs.look(wanted) })),
  )
  const free: ProvedTransfer[] = []
  let isBusy = seen.some(({ verdict }) => verdict.status === 'pending')
  for (const transfer of seen.flatMap(transfersIn)) {
    const record = await api.payments.find(transfer.key)
    // What had been given up is booked as what it was signed for.
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
  if (free.length > 1) throw notNamed(`${free.length} transfers fit this session`)
  const [only] = free
  if (only !== undefined) {
    if (await isMeantFor(api, session, only))
      throw notNamed(
        'another session of the store asks for the same amount, and the transfer may be meant for it',
      )
    await refuseOthers(api, session, only)
    const booked = await api.transfers.book(session, only)
    return (await confirmationOf(api, session, only, booked)) ?? { status: 'pending' }
  }
  if (isBusy) return { status: 'pending' }
  throwWorst(api, seen)
  if (seen.some(({ verdict }) => verdict.status === 'none' && !verdict.isComplete))
    throw notNamed('more was received than one look goes through')
  return undefined
}

const transfersIn = ({ wanted, verdict }: Seen): ProvedTransfer[] =>
  verdict.status === 'found' ? verdict.transfers.map((transfer) => ({ ...wanted, ...transfer })) : []

/** @returns undefined for a transfer that counts for something else */
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
 * The ways that a 402 for the session would offer, now or when it was made, as plain transfers: a buyer may have read the
 * wallet before the seller changed it.
 *
 * @throws `CHAIN_NOT_CONFIGURED` when there is none
 */
function waysToPay(api: Api, store: Store, session: Session, chain: ChainName | undefined): WantedTransfer[] {
  const { price, payout: then, createdAtMs, expiresAtMs } = session
  // An invoice is dated after the one before it, also when the clock was put back in between; its end is not.
  const madeAtMs = Math.min(createdAtMs, expiresAtMs - SESSION_LIFETIME_MS)
  // An invoice is paid to the wallet that it names.
  const now = debtorOf(session.storeId) !== undefined && then !== null ? then : store.payout
  const sameThen = then?.base === now.base && then?.solana === now.solana
  const payouts = then === null || sameThen ? [now] : [now, then]
  const ways = payouts
    .flatMap((payout) => askedTerms(session, api.termsOf({ price, payout })))
    .filter(({ network, asset, payTo }, i, all) => {
      return i === all.findIndex((o) => o.network === network && o.asset === asset && o.payTo === payTo)
    })
    .filter(({ network }) => chain === undefined || familyOf(network) === chainFamilyOf(chain))
    .map(({ network, asset, payTo, amount }) => ({
      ...{ network: network as NetworkId, asset, payTo, amountAtomic: BigInt(amount) },
      notBeforeMs: madeAtMs - (madeAtMs % BLOCK_TIME_STEP_MS),
    }))
  if (ways.length > 0) return ways
  const where = chain === undefined ? 'no network is open' : `no network of ${chain} is open`
  throw new TollgateError(
    'CHAIN_NOT_CONFIGURED',
    `Transfers can not be verified: ${where} on which the store has a wallet.`,
  )
}

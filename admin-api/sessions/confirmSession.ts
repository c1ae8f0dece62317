import { isSameAddress } from '../../core/domain/address.ts'
import { debtorOf, feesAccountOf } from '../../core/domain/ledger.ts'
import { payoutFor } from '../../core/domain/link.ts'
import { convertPrice, formatAmount, parseAmount } from '../../core/domain/money.ts'
import {
  type ChainName,
  chainFamilyOf,
  chainNameOf,
  familyOf,
  type NetworkId,
} from '../../core/domain/network.ts'
import { SESSION_LIFETIME_MS, type Session, statusOf } from '../../core/domain/session.ts'
import type { Store } from '../../core/domain/store.ts'
import { canonicalTransaction } from '../../core/domain/transactionId.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { type ProvedTransfer, standingOf, type TransferBooked } from '../../core/payments/bookTransfer.ts'
import type { TransferFault, TransferVerdict, WantedTransfer } from '../../core/ports/transferProofs.ts'
import type { Api } from '../deps.ts'
import { isoTime } from '../http/envelope.ts'
import { validationError } from '../schema/validationError.ts'
import { askedTerms } from './askedTerms.ts'

/** Blocks are dated by their makers' clocks: what landed this much before the session was made may be meant for it. */
const CLOCK_SLACK_MS = 30_000
/** So long after its end a transfer for a session is looked for: a look goes through all that its wallet got since. */
const LOOKED_FOR_MS = 60 * 60 * 1000
/** So long a transfer that may be a refund is left to whoever owes it, to be recorded. */
const REFUND_RECORDED_MS = 24 * 60 * 60 * 1000
/** So long one that may be a refund which nobody owes. Longer would outlast sessions that are paid so. */
const VOLUNTARY_RECORDED_MS = 10 * 60 * 1000
/** Of what was sold this long ago nobody waits for such a refund. */
const VOLUNTARY_MS = 30 * 24 * 60 * 60 * 1000
/** A block comes every few seconds; asking sooner is of no use. */
const RETRY_AFTER_SECONDS = 5

/** What is named of the transfer; nothing of it: then it is looked for. */
export interface ConfirmBody {
  readonly txHash?: string | null
  readonly chain?: ChainName | null
}

export type Confirmation =
  /** The session is confirmed, now or before. */
  | { readonly status: 'confirmed' }
  /** An invoice that had ended without this transfer: what its store owes is less by it all the same. */
  | { readonly status: 'credited'; readonly txHash: string }
  /** It had ended without this transfer, which is owed back. */
  | { readonly status: 'owed'; readonly purchaseId: string; readonly txHash: string }
  /** Nothing is known yet that would decide it. */
  | { readonly status: 'pending' }

/** One way to pay the session, and what the chain says of it. */
interface Seen {
  readonly wanted: WantedTransfer
  readonly verdict: TransferVerdict
}

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
    // What is booked is not asked of the chain again: a node may have forgotten it by now.
    if (canonicalTransaction(paid.network, txHash) === paid.txHash) return { status: 'confirmed' }
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
  let isBusy = false
  for (const transfer of own.length > 0 ? own : transfers) {
    await refuseOthers(api, session, transfer)
    const booked = await confirmationOf(api, session, transfer, await api.transfers.book(session, transfer))
    if (booked?.status === 'pending') isBusy = true
    else if (booked !== undefined) return booked
  }
  if (isBusy) return { status: 'pending' }
  if (transfers.length > 0) throw used()
  throwWorst(api, seen)
  return { status: 'pending' }
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
    const isFree = record === undefined || record.state === 'rejected'
    // What had been given up is booked as what it was signed for.
    const isGivenUp = record?.state === 'failed_final'
    const known = isFree
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

/** The store that signs in with a wallet. */
function signsInWith(api: Api, network: NetworkId, wallet: string): Promise<Store | undefined> {
  const chain = chainNameOf(network)
  return api.stores.byWallet(chain, chain === 'base' ? wallet.toLowerCase() : wallet)
}

/**
 * All stores pay their fees to one wallet, so that a transfer there says by its sender only whose fees it pays: it has to be
 * a wallet that signs in to the store. True of every session that is no invoice.
 */
async function isFromDebtor(
  api: Api,
  { storeId }: Session,
  { network, from }: ProvedTransfer,
): Promise<boolean> {
  const debtor = debtorOf(storeId)
  return debtor === undefined || (await signsInWith(api, network, from))?.id === debtor
}

/**
 * What may be somebody else's: whoever is faster must not take it.
 *
 * - A refund that is not recorded yet: its sender was paid exactly this by the payee, and owes it back. Should it pay the
 *   session after all, that is seen after a day: who owes could otherwise keep a buyer of his from ever being paid.
 * - One that nobody owes, for a few minutes: its sender has sold something for exactly this to the payee.
 * - Fees that somebody else has paid.
 * - A store may be paid to any wallet, also to another store's: one that signs in there, or that it was paid to before. Where
 *   such a store asked for the same amount then, the transfer is its buyer's.
 *
 * @throws `CONFLICT`, `TRANSACTION_MISMATCH`
 */
async function refuseOthers(api: Api, session: Session, transfer: ProvedTransfer): Promise<void> {
  const { id, storeId } = session
  const { key, network, asset, payTo, from, amountAtomic, atMs } = transfer
  const record = await api.payments.find(key)
  if (record !== undefined && record.state !== 'rejected') return
  const isOfToday = api.clock.now() - atMs < REFUND_RECORDED_MS
  if (isOfToday && (await api.purchases.isOwedBack({ network, asset, from, to: payTo, amountAtomic })))
    throw new TollgateError(
      'CONFLICT',
      `${from} owes exactly this to ${payTo} as a refund, and the transfer may be that. It pays a session once the refund is recorded by another transaction, or a day after it landed.`,
    )
  if (await isVoluntary(api, session, transfer))
    throw new TollgateError(
      'CONFLICT',
      `${from} has sold something to ${payTo} for exactly this, and the transfer may give it back. It pays a session ten minutes after it landed, unless it is recorded as a refund by then.`,
    )
  if (debtorOf(storeId) !== undefined) {
    // Whoever has that wallet by now could otherwise pay the debts of stores to himself, for ever.
    if (payTo !== payoutFor(api.feesPayTo, network) && atMs > session.expiresAtMs + CLOCK_SLACK_MS)
      throw new TollgateError(
        'TRANSACTION_MISMATCH',
        `${payTo} is no longer where fees are paid, and this landed after the invoice had ended. Ask for a new invoice.`,
      )
    if (await isFromDebtor(api, session, transfer)) return
    throw new TollgateError(
      'TRANSACTION_MISMATCH',
      `Expected a transfer from a wallet that signs in to your store; this one is from ${from}. With any other wallet pay the invoice at its checkout, which says whose it is.`,
    )
  }
  const chain = chainNameOf(network)
  if (payoutFor(api.feesPayTo, network) === payTo) {
    const payer = await signsInWith(api, network, from)
    const account = payer && feesAccountOf(payer.id)
    if (account !== undefined && (await isMeantFor(api, { id, storeId: account }, transfer)))
      throw new TollgateError(
        'CONFLICT',
        `${payTo} is where fees are paid, and who sent this has an invoice of the same amount: the transfer may be meant for it. Be paid to a wallet of your own.`,
      )
  }
  const signsIn = await signsInWith(api, network, payTo)
  const isPaidHere = signsIn !== undefined && payoutFor(signsIn.payout, network) === payTo
  if (isPaidHere && signsIn.id === storeId) return
  const longer = await api.stores.paidLonger(storeId, chain, payTo)
  const owners = new Set(isPaidHere ? [signsIn.id, ...longer] : longer)
  if (owners.size === 0) return
  const areAsking = await Promise.all(
    [...owners].map((owner) => isMeantFor(api, { id, storeId: owner }, transfer)),
  )
  if (areAsking.includes(true))
    throw new TollgateError(
      'CONFLICT',
      `${payTo} is the wallet of another store, too, which asked for the same amount then: the transfer may be meant for it. Be paid to a wallet of your own.`,
    )
}

/** Whether a transfer that landed just now may be a seller's who gives back what a buyer paid, without owing it. */
async function isVoluntary(
  api: Api,
  { storeId }: Session,
  { network, asset, from, payTo, amountAtomic, atMs }: ProvedTransfer,
): Promise<boolean> {
  const { stores, purchases, clock } = api
  const nowMs = clock.now()
  if (nowMs - atMs >= VOLUNTARY_RECORDED_MS) return false
  const sellers = new Set(await stores.paidLonger(storeId, chainNameOf(network), from))
  // What was paid there is given back from there, also where the store is paid elsewhere by now.
  const signsIn = await signsInWith(api, network, from)
  if (signsIn !== undefined && signsIn.id !== storeId) sellers.add(signsIn.id)
  const back = { network, asset, from, to: payTo, amountAtomic }
  const have = [...sellers].map((seller) => purchases.hasSold(seller, back, nowMs - VOLUNTARY_MS))
  return (await Promise.all(have)).includes(true)
}

/**
 * Whether a transfer may be meant for another session of a store than this one: it is of what that one asks for in this token.
 * Prices that differ may come to the same amount of a token with few decimals.
 */
async function isMeantFor(
  { sessions, assets }: Pick<Api, 'sessions' | 'assets'>,
  others: Pick<Session, 'id' | 'storeId'>,
  { network, asset, amountAtomic, atMs }: ProvedTransfer,
): Promise<boolean> {
  const isToken = (one: { network: string }, address: string) =>
    one.network === network && isSameAddress(familyOf(network), address, asset)
  const token = assets.find((one) => isToken(one, one.address))
  const rivals = await sessions.rivals(others, atMs, CLOCK_SLACK_MS)
  return rivals.some(({ price, asks }) => {
    if (asks !== null) return isToken(asks, asks.asset) && asks.amountAtomic === amountAtomic
    return (
      token !== undefined &&
      convertPrice(parseAmount(price, 6), token.usdPerUnit, token.decimals) === amountAtomic
    )
  })
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
      notBeforeMs: madeAtMs - CLOCK_SLACK_MS,
    }))
  if (ways.length > 0) return ways
  const where = chain === undefined ? 'no network is open' : `no network of ${chain} is open`
  throw new TollgateError(
    'CHAIN_NOT_CONFIGURED',
    `Transfers can not be verified: ${where} on which the store has a wallet.`,
  )
}

/** Says the most telling of what keeps the transfer from being booked; nothing while it may still come. */
function throwWorst(api: Api, seen: readonly Seen[]): void {
  if (seen.some(({ verdict }) => verdict.status === 'pending' && verdict.isKnown)) return
  const mismatches = seen.flatMap(({ wanted, verdict }) =>
    verdict.status === 'mismatch' ? [{ wanted, verdict }] : [],
  )
  const nearest = faults.flatMap((what) => mismatches.find(({ verdict }) => verdict.what === what) ?? [])[0]
  if (nearest !== undefined) throw mismatch(api, nearest)
  const away = seen.find(({ verdict }) => verdict.status === 'unavailable')?.verdict
  if (away?.status === 'unavailable')
    throw new TollgateError('CHAIN_UNAVAILABLE', `${away.message} Try again later.`, {
      retryAfterSeconds: RETRY_AFTER_SECONDS,
    })
  const unasked = seen.find(({ verdict }) => verdict.status === 'not_configured')
  if (unasked !== undefined && seen.every(({ verdict }) => verdict.status === 'not_configured'))
    throw new TollgateError(
      'CHAIN_NOT_CONFIGURED',
      `Transfers on ${unasked.wanted.network} can not be verified: the operator has to set networks.${unasked.wanted.network}.rpcUrls.`,
    )
}

const words: Readonly<Record<TransferFault, string>> = {
  time: 'landed before the session was made',
  amount: 'moves another amount there',
  sender: 'moves it there from no other wallet',
  recipient: 'moves none of it to that wallet',
  asset: 'moves none of that token',
  failed: 'failed on chain and moved nothing',
}

/** From the one that comes closest to a payment. */
const faults = Object.keys(words) as TransferFault[]

function mismatch(
  api: Pick<Api, 'assets'>,
  {
    wanted,
    verdict,
  }: {
    readonly wanted: WantedTransfer
    readonly verdict: Extract<TransferVerdict, { status: 'mismatch' }>
  },
): TollgateError {
  const { network, asset, payTo, amountAtomic } = wanted
  const token = api.assets.find((one) => one.network === network && one.address === asset)
  const shown = (atomic: bigint) =>
    token === undefined ? String(atomic) : `${formatAmount(atomic, token.decimals, 2)} ${token.symbol}`
  const moved = verdict.movedAtomic === undefined ? '' : `, ${shown(verdict.movedAtomic)}`
  const times = verdict.atMs === undefined ? undefined : timesOf(verdict.atMs, wanted)
  return new TollgateError(
    'TRANSACTION_MISMATCH',
    `Expected exactly ${shown(amountAtomic)} (${asset}) to ${payTo} on ${network}; this transaction ${times ?? words[verdict.what]}${moved}.`,
  )
}

/** Both times, and whose they are: who paid in time sees by them which clock is wrong. */
function timesOf(atMs: number, { notBeforeMs }: WantedTransfer): string {
  const landed = `landed at ${isoTime(atMs)} by the clock of the chain`
  const made = `made at ${isoTime(notBeforeMs + CLOCK_SLACK_MS)} by the clock of the gateway`
  return `${landed}, more than ${CLOCK_SLACK_MS / 1_000} s before the session was ${made}`
}

const used = () =>
  new TollgateError(
    'TRANSACTION_ALREADY_USED',
    'This transfer counts for another purchase, session or refund already. One transfer counts once.',
  )

const notNamed = (why: string) =>
  new TollgateError(
    'TRANSACTION_NOT_NAMED',
    `${why[0]!.toUpperCase()}${why.slice(1)}. Name the transaction in txHash.`,
  )

function malformed(ways: readonly WantedTransfer[]): TollgateError {
  const forms = [...new Set(ways.map(({ network }) => chainNameOf(network)))].map((chain) =>
    chain === 'base' ? '0x and 64 hex digits (base)' : 'the base58 of a signature of 64 bytes (solana)',
  )
  const message = `Expected a transaction: ${forms.join(', or ')}.`
  return validationError([{ path: 'txHash', code: 'format', message }])
}

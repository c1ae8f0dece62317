import { isSameAddress } from '../../core/domain/address.ts'
import { debtorOf, feesAccountOf } from '../../core/domain/ledger.ts'
import { payoutFor } from '../../core/domain/link.ts'
import { convertPrice, parseAmount } from '../../core/domain/money.ts'
import { chainNameOf, familyOf, type NetworkId } from '../../core/domain/network.ts'
import type { Session } from '../../core/domain/session.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { ProvedTransfer } from '../../core/payments/bookTransfer.ts'
import type { Api } from '../deps.ts'

/** Blocks are dated by their makers' clocks: what landed this much after a session had ended may be meant for it. */
const CLOCK_SLACK_MS = 30_000
/** So long a transfer that may be a refund is left to whoever owes it, to be recorded. */
const REFUND_RECORDED_MS = 24 * 60 * 60 * 1000
/** So long one that may be a refund which nobody owes. Longer would outlast sessions that are paid so. */
const VOLUNTARY_RECORDED_MS = 10 * 60 * 1000
/** Of what was sold this long ago nobody waits for such a refund. */
const VOLUNTARY_MS = 30 * 24 * 60 * 60 * 1000
/** The store that signs in with a wallet. */
function signsInWith(api: Api, network: NetworkId, wallet: string): Promise<Store | undefined> {
  const chain = chainNameOf(network)
  return api.stores.byWallet(chain, chain === 'base' ? wallet.toLowerCase() : wallet)
}

/**
 * All stores pay their fees to one wallet, so that a transfer there says by its sender only whose fees it pays: it has to be
 * a wallet that signs in to the store. True of every session that is no invoice.
 */
export async function isFromDebtor(
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
export async function refuseOthers(api: Api, session: Session, transfer: ProvedTransfer): Promise<void> {
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
export async function isMeantFor(
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

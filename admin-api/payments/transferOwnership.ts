import { isSameAddress } from '../../core/domain/address.ts'
import { debtorOf, feesAccountOf } from '../../core/domain/ledger.ts'
import { payoutFor } from '../../core/domain/link.ts'
import { convertPrice, parseAmount } from '../../core/domain/money.ts'
import { chainNameOf, familyOf, type NetworkId } from '../../core/domain/network.ts'
import type { Session } from '../../core/domain/session.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { ProvedTransfer } from '../../core/payments/transfers.ts'
import type { Api } from '../deps.ts'

/**
 * How long after a session's end a transfer may still be meant for it, in ms. The time allows for the clocks of block producers,
 * which differ.
 */
const CLOCK_SLACK_MS = 30_000
/** How long a transfer that may be a refund is left for its sender to record, in ms. */
const REFUND_RECORDED_MS = 24 * 60 * 60 * 1000
/**
 * How long a transfer that may be a voluntary refund is left for its sender to record, in ms. With a longer time, sessions that are
 * paid this way would end first.
 */
const VOLUNTARY_RECORDED_MS = 10 * 60 * 1000
/** A voluntary refund is expected only for sales younger than this, in ms. */
const VOLUNTARY_MS = 30 * 24 * 60 * 60 * 1000
/** The store that signs in with a wallet. */
function signsInWith(api: Api, network: NetworkId, wallet: string): Promise<Store | undefined> {
  const chain = chainNameOf(network)
  return api.stores.byWallet(chain, chain === 'base' ? wallet.toLowerCase() : wallet)
}

/**
 * Whether a transfer's sender is a wallet that signs in to the store whose fees the invoice is for. All stores pay their fees to
 * one wallet, so only the sender shows whose fees a transfer pays. Always true for sessions that are not invoices.
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
 * Refuses a transfer that may be meant for another store, because otherwise the faster caller could claim it. There are four cases:
 *
 * - The transfer may be a refund that is not recorded yet. The sender owes the payee exactly this amount for an earlier sale. After
 *   a day the transfer counts as a payment anyway, because otherwise a debtor could keep a buyer from ever being paid.
 * - It may be a voluntary refund, if its sender has sold something for exactly this amount to the payee. It counts as a payment
 *   after a few minutes.
 * - It may be a payment of fees by another store.
 * - It may be a payment to another store. A store may be paid to any wallet, even to one that signs in to another store or that
 *   another store used before. If the other store had a session for the same amount at the time, the transfer belongs to the buyer
 *   of that session.
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
      `${from} owes exactly this amount to ${payTo} as a refund, and the transfer may be that refund. The transfer counts as a payment once the refund is recorded with another transaction, or a day after it landed.`,
    )
  if (await isVoluntary(api, session, transfer))
    throw new TollgateError(
      'CONFLICT',
      `${from} has sold something to ${payTo} for exactly this amount, and the transfer may be a refund. The transfer counts as a payment ten minutes after it landed, unless it is recorded as a refund by then.`,
    )
  if (debtorOf(storeId) !== undefined) {
    // Without this check, the wallet's present owner could collect the debts of stores forever.
    if (payTo !== payoutFor(api.feesPayTo, network) && atMs > session.expiresAtMs + CLOCK_SLACK_MS)
      throw new TollgateError(
        'TRANSACTION_MISMATCH',
        `Fees are no longer paid to ${payTo}, and this transfer landed after the invoice had ended. Create a new invoice.`,
      )
    if (await isFromDebtor(api, session, transfer)) return
    throw new TollgateError(
      'TRANSACTION_MISMATCH',
      `Expected a transfer from a wallet that signs in to your store, but this transfer is from ${from}. To use another wallet, pay the invoice at its checkout.`,
    )
  }
  const chain = chainNameOf(network)
  if (payoutFor(api.feesPayTo, network) === payTo) {
    const payer = await signsInWith(api, network, from)
    const account = payer && feesAccountOf(payer.id)
    if (account !== undefined && (await isMeantFor(api, { id, storeId: account }, transfer)))
      throw new TollgateError(
        'CONFLICT',
        `Fees are paid to ${payTo}, and the sender has an invoice of the same amount, so the transfer may be meant for the invoice. Use a payout wallet of your own.`,
      )
  }
  const signsIn = await signsInWith(api, network, payTo)
  const isPaidHere = signsIn !== undefined && payoutFor(signsIn.payout, network) === payTo
  if (isPaidHere && signsIn.id === storeId) return
  const longer = await api.stores.paidLonger(storeId, chain, payTo)
  const owners = new Set(isPaidHere ? [signsIn.id, ...longer] : longer)
  if (owners.size === 0) return
  const areOpen = await Promise.all(
    [...owners].map((owner) => isMeantFor(api, { id, storeId: owner }, transfer)),
  )
  if (areOpen.includes(true))
    throw new TollgateError(
      'CONFLICT',
      `${payTo} is also the wallet of another store, which had a payment session of the same amount at that time, and the transfer may be meant for it. Use a payout wallet of your own.`,
    )
}

/** Whether a transfer that landed recently may be a voluntary refund by a seller. */
async function isVoluntary(
  api: Api,
  { storeId }: Session,
  { network, asset, from, payTo, amountAtomic, atMs }: ProvedTransfer,
): Promise<boolean> {
  const { stores, purchases, clock } = api
  const nowMs = clock.now()
  if (nowMs - atMs >= VOLUNTARY_RECORDED_MS) return false
  const sellers = new Set(await stores.paidLonger(storeId, chainNameOf(network), from))
  // A seller sends a refund from the wallet that was paid, even if the store is now paid to another wallet.
  const signsIn = await signsInWith(api, network, from)
  if (signsIn !== undefined && signsIn.id !== storeId) sellers.add(signsIn.id)
  const back = { network, asset, from, to: payTo, amountAtomic }
  const have = [...sellers].map((seller) => purchases.hasSold(seller, back, nowMs - VOLUNTARY_MS))
  return (await Promise.all(have)).includes(true)
}

/**
 * Whether a transfer may be meant for another session of the store, because it has that session's amount in this token. Two
 * different prices can be the same amount of a token with few decimals.
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

import { parseAmount } from '../../../core/domain/money.ts'
import { chargedStates, unresolvedStates } from '../../../core/domain/payment.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import { cursorAt, type LedgerFindings, type Purchases, readCursor } from '../../../core/ports/purchases.ts'
import { EVENTS_KEPT_MS, LISTENING_DOUBT_MS } from '../../../core/ports/webhooks.ts'
import type { Access } from './access.ts'
import { canonical } from './books.ts'
import type { PaymentRow, Tables } from './memory.ts'
import { hears } from './webhooks.ts'

/** Reads of what was sold, in memory, and the views counted beside it. */
export function createPurchases(tables: Tables, { read, write }: Access, clock: Clock): Purchases {
  const { purchases, rowOfPurchase, views, links, stores, wallets } = tables
  const all = () => purchases.values().map(({ purchase }) => purchase)

  /** The wallets that sign in to a store, and those it is paid to. */
  function ownWallets(storeId: string): Set<string> {
    const signedIn = wallets.values().flatMap((one) => (one.storeId === storeId ? [one.address] : []))
    const payout = stores.get(storeId)?.payout
    const paidTo = [payout?.base?.toLowerCase(), payout?.solana].filter((address) => address != null)
    return new Set([...signedIn, ...paidTo])
  }

  return {
    find: (id) =>
      read(() => {
        const row = rowOfPurchase.get(id)
        return row === undefined ? undefined : purchases.get(row)!.purchase
      }),

    page: (storeId, { cursor, limit, linkId }) =>
      read(() => {
        const after = cursor === undefined ? undefined : readCursor(cursor)
        const found = all()
          .filter(
            (one) =>
              one.storeId === storeId &&
              (linkId === undefined || one.linkId === linkId) &&
              (after === undefined ||
                one.createdAtMs < after.atMs ||
                (one.createdAtMs === after.atMs && one.id < after.id)),
          )
          .sort((a, b) => b.createdAtMs - a.createdAtMs || (a.id < b.id ? 1 : -1))
        const shown = found.slice(0, limit)
        const last = found.length > limit ? shown.at(-1) : undefined
        return {
          purchases: shown,
          nextCursor: last === undefined ? null : cursorAt(last.createdAtMs, last.id),
        }
      }),

    stats: (storeId, { sinceMs, linkId }) =>
      read(() => {
        const own = ownWallets(storeId)
        const sold = all().filter(
          (one) =>
            one.storeId === storeId &&
            one.createdAtMs >= sinceMs &&
            (one.status === 'settled' || one.status === 'delivered') &&
            (linkId === undefined || one.linkId === linkId) &&
            !own.has(canonical(one.network, one.buyerWallet)),
        )
        const sinceDay = new Date(sinceMs).toISOString().slice(0, 10)
        const seen = views
          .values()
          .filter(
            (one) =>
              links.get(one.linkId)?.storeId === storeId &&
              one.day >= sinceDay &&
              (linkId === undefined || one.linkId === linkId),
          )
        return {
          views: seen.reduce((sum, { count }) => sum + count, 0),
          buyers: new Set(sold.map((one) => one.buyerWallet)).size,
          revenueE18: sold.reduce((sum, { priceUsd }) => sum + parseAmount(priceUsd, 18), 0n),
        }
      }),

    addViews: (added) =>
      write('visible', () => {
        for (const { linkId, day, count } of added) {
          const key = `${linkId} ${day}`
          views.set(key, { linkId, day, count: count + (views.get(key)?.count ?? 0) })
        }
      }),

    refundOf: (purchaseId) =>
      read(() => {
        const row = rowOfPurchase.get(purchaseId)
        const refund = row === undefined ? undefined : tables.refunds.get(row)
        return refund && { purchaseId, ...refund }
      }),

    ledger: (purchaseId) => read(() => [...(tables.ledger.get(purchaseId) ?? [])]),

    ledgerCheck: () => read(() => checkLedger(tables, clock.now())),
  }
}

function checkLedger(tables: Tables, nowMs: number): LedgerFindings {
  const { payments, purchases, refunds, ledger } = tables
  const rows = payments.values()
  const booked = purchases.values().filter(({ purchase }) => purchase.status !== 'reorged')
  const isCharged = ({ state }: PaymentRow) => (chargedStates as readonly string[]).includes(state)
  const broken = rows.flatMap((row) => {
    const { key, state, isLandedLate } = row
    const purchase = purchases.get(row.row)?.purchase
    const found: string[] = []
    if (purchase === undefined) {
      if (isCharged(row) && !isLandedLate) found.push(`payment ${key} is ${state} and has no purchase`)
    } else if (purchase.status !== state && !(purchase.status === 'reorged' && state === 'failed_final')) {
      found.push(`payment ${key} is ${state}, its purchase ${purchase.id} is ${purchase.status}`)
    }
    const back = refunds.get(row.row)?.transaction
    if (state === 'refunded' && back === undefined)
      found.push(`payment ${key} is refunded, and no transfer back is known`)
    if (state !== 'refunded' && back !== undefined)
      found.push(`payment ${key} is ${state}, and ${back} has paid it back`)
    return found
  })
  return {
    purchases: booked.length,
    chargedPayments: rows.filter(isCharged).length,
    unresolvedPayments: rows.filter(({ state }) => (unresolvedStates as readonly string[]).includes(state))
      .length,
    refundDue: rows.filter(({ state }) => state === 'refund_due').length,
    broken: [...broken, ...untold(tables, nowMs)],
    unbalanced: ledger.keys().filter((purchaseId) => {
      const sums = new Map<string, bigint>()
      for (const { network, asset, amountAtomic } of ledger.get(purchaseId)!) {
        sums.set(`${network} ${asset}`, (sums.get(`${network} ${asset}`) ?? 0n) + amountAtomic)
      }
      return [...sums.values()].some((sum) => sum !== 0n)
    }),
    transactions: booked.flatMap(({ purchase: { network, txHash, id } }) =>
      txHash === null ? [] : [{ network, transaction: txHash, purchaseId: id }],
    ),
  }
}

/** Purchases that an endpoint listened for, without an event, as long as events are kept. */
function untold({ purchases, endpoints, events }: Tables, nowMs: number): string[] {
  const told = new Set(
    events.values().flatMap(({ kind, purchaseId }) => (kind === 'purchase.confirmed' ? [purchaseId] : [])),
  )
  const fromMs = nowMs - EVENTS_KEPT_MS + LISTENING_DOUBT_MS
  return endpoints.values().flatMap((endpoint) =>
    purchases
      .values()
      .filter(
        ({ purchase: { id, createdAtMs, storeId, linkId } }) =>
          hears(endpoint, 'purchase.confirmed', storeId, linkId) &&
          createdAtMs > Math.max(endpoint.listeningSinceMs + LISTENING_DOUBT_MS, fromMs) &&
          !told.has(id),
      )
      .map(
        ({ purchase: { id } }) =>
          `purchase ${id} has no event, and the webhook ${endpoint.id} should hear of it`,
      ),
  )
}

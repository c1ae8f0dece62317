import { debtorOf } from '../../../core/domain/ledger.ts'
import { chargedStates, unresolvedStates } from '../../../core/domain/payment.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import type { LedgerEars, LedgerFindings, Purchases } from '../../../core/ports/store/purchases.ts'
import { EVENTS_KEPT_MS, LISTENING_DOUBT_MS } from '../../../core/ports/store/webhooks.ts'
import type { Access } from './access.ts'
import { canonical } from './books.ts'
import type { PaymentRow, Tables } from './memory.ts'
import { newestPage } from './newestPage.ts'
import { hears } from './webhooks.ts'

/** Reads of what was sold, in memory. */
export function createPurchases(tables: Tables, { read }: Access, clock: Clock): Purchases {
  const { purchases, rowOfPurchase } = tables
  const all = () => purchases.values().map(({ purchase }) => purchase)

  return {
    find: (id) =>
      read(() => {
        const row = rowOfPurchase.get(id)
        return row === undefined ? undefined : purchases.get(row)!.purchase
      }),

    page: (storeId, { linkId, status, ...page }) =>
      read(() => {
        const found = all().filter(
          (one) =>
            one.storeId === storeId &&
            (linkId === undefined || one.linkId === linkId) &&
            (status === undefined || one.status === status),
        )
        const { shown, nextCursor } = newestPage(found, page)
        return { purchases: shown, nextCursor }
      }),

    isOwedBack: ({ network, asset, from, to, amountAtomic }) =>
      read(() =>
        tables.payments.values().some(({ row, payTo }) => {
          const owed = payTo === from ? purchases.get(row)?.purchase : undefined
          return (
            owed?.status === 'refund_due' &&
            owed.network === network &&
            owed.asset === asset &&
            owed.buyerWallet === to &&
            owed.amountAtomic === amountAtomic
          )
        }),
      ),

    hasSold: (storeId, { network, asset, from, to, amountAtomic }, sinceMs) =>
      read(() =>
        tables.payments.values().some(({ row, payTo }) => {
          const sold = payTo === from ? purchases.get(row)?.purchase : undefined
          return (
            sold?.storeId === storeId &&
            sold.createdAtMs >= sinceMs &&
            (sold.status === 'settled' || sold.status === 'delivered') &&
            sold.network === network &&
            sold.asset === asset &&
            sold.buyerWallet === to &&
            sold.amountAtomic === amountAtomic
          )
        }),
      ),

    refundOf: (purchaseId) =>
      read(() => {
        const row = rowOfPurchase.get(purchaseId)
        const refund = row === undefined ? undefined : tables.refunds.get(row)
        return refund && { purchaseId, ...refund }
      }),

    soldIn: (network, transactions) =>
      read(() => {
        const sold = new Set(
          all().flatMap((one) =>
            one.network === network && one.txHash !== null ? canonical(network, one.txHash) : [],
          ),
        )
        return new Set(transactions.filter((one) => sold.has(one)))
      }),

    ledger: (purchaseId) => read(() => [...(tables.ledger.get(purchaseId) ?? [])]),

    ledgerCheck: (ears) => read(() => checkLedger(tables, clock.now(), ears)),
  }
}

function checkLedger(tables: Tables, nowMs: number, ears?: LedgerEars): LedgerFindings {
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
  for (const { purchase } of booked) {
    const { network, txHash, id } = purchase
    if (txHash !== null) ears?.onTransfer?.({ network, transaction: txHash, purchaseId: id })
  }
  ears?.onProgress?.('payments', rows.length, rows.length)
  return {
    purchases: booked.length,
    chargedPayments: rows.filter(isCharged).length,
    unresolvedPayments: rows.filter(({ state }) => (unresolvedStates as readonly string[]).includes(state))
      .length,
    refundDue: rows.filter(({ state }) => state === 'refund_due').length,
    skippedDays: 0,
    broken: [...broken, ...astray(tables), ...untold(tables, nowMs), ...untoldSessions(tables, nowMs)],
    unbalanced: ledger.keys().filter((purchaseId) => {
      const sums = new Map<string, bigint>()
      for (const { network, asset, amountAtomic } of ledger.get(purchaseId)!) {
        sums.set(`${network} ${asset}`, (sums.get(`${network} ${asset}`) ?? 0n) + amountAtomic)
      }
      return [...sums.values()].some((sum) => sum !== 0n)
    }),
  }
}

/** Sessions that are not confirmed by a purchase of their own, or the other way round, and such that wait for nothing. */
function astray({ payments, purchases, sessions }: Tables): string[] {
  const ofSessions = sessions.values().flatMap(({ id, state, paymentRow, paid }) => {
    const payment = paymentRow === null ? undefined : payments.get(paymentRow)?.state
    const purchase = paymentRow === null ? undefined : purchases.get(paymentRow)?.purchase
    const isFine =
      state === 'confirmed'
        ? purchase?.sessionId === id && purchase.id === paid?.purchaseId
        : paymentRow === null ||
          (state === 'open' && (unresolvedStates as readonly (string | undefined)[]).includes(payment))
    if (isFine) return []
    return [
      `session ${id} is ${state}, its payment is ${payment ?? 'none'} with purchase ${purchase?.id ?? 'none'}`,
    ]
  })
  const ofPurchases = purchases.values().flatMap(({ purchase: { id, status, sessionId, storeId } }) => {
    const session = sessionId === null ? undefined : sessions.get(sessionId)
    if (sessionId === null || status !== 'delivered') return []
    // What pays fees counts also when its invoice has ended without it.
    if (debtorOf(storeId) !== undefined) return []
    if (session?.state === 'confirmed' && session.paid?.purchaseId === id) return []
    return [`purchase ${id} is delivered, its session ${sessionId} is ${session?.state ?? 'not there'}`]
  })
  return [...ofSessions, ...ofPurchases]
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

/** The same of sessions that were confirmed, or have expired. */
function untoldSessions({ sessions, endpoints, events }: Tables, nowMs: number): string[] {
  const fromMs = nowMs - EVENTS_KEPT_MS + LISTENING_DOUBT_MS
  return endpoints.values().flatMap((endpoint) =>
    sessions.values().flatMap(({ id, state, storeId, linkId, endedAtMs }) => {
      if (state !== 'confirmed' && state !== 'expired') return []
      const kind = `payment.${state}` as const
      const isHeard =
        hears(endpoint, kind, storeId, linkId) &&
        endedAtMs! > Math.max(endpoint.listeningSinceMs + LISTENING_DOUBT_MS, fromMs)
      if (!isHeard || events.values().some((one) => one.kind === kind && one.sessionId === id)) return []
      return [`session ${id} is ${state} without an event, and the webhook ${endpoint.id} should hear of it`]
    }),
  )
}

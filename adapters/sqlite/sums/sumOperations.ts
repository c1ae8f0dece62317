import type { DatabaseSync } from 'node:sqlite'
import { parseAmount } from '../../../core/domain/money.ts'
import { DAY_MS, HOUR_MS } from '../../../core/ports/figures.ts'
import type { Row } from '../statement.ts'
import { changedCounts } from './buyerCounts.ts'

/** What one store, or one link of it, sold within one day or hour. Its own wallets' purchases are not in it. */
export interface SalesSum {
  readonly unit: 'day' | 'hour'
  readonly scope: string
  readonly at: number
  calls: number
  revenueE18: bigint
  refunds: number
  refundedE18: bigint
  /** Purchases by the number of their buyer. */
  readonly buyers: Map<number, number>
}

/** What a store sold in one token within one month. Its own wallets' purchases are in it. */
export interface FeeSum {
  readonly key: readonly [
    store: string,
    month: string,
    network: string,
    unit: string,
    symbol: string,
    decimals: number,
  ]
  readonly asset: string
  sales: number
  sold: bigint
  fees: bigint
  refunds: number
  refunded: bigint
  returned: bigint
  standing: bigint
}

/** How the sums of one link are named. */
export const scopeOfLink = (storeId: string, linkId: string): string => `${storeId}/${linkId}`

const wallet = `CASE WHEN u.network LIKE 'eip155:%' THEN lower(u.buyer_wallet) ELSE u.buyer_wallet END`

// A store's own wallets are those that sign in to it and those it is paid to; before it has others, it is judged by a trigger.
const dueRows = `SELECT d.id AS due, d.was, d.became, u.*, r.refunded_at_ms, o.payment_id IS NOT NULL AS was_own,
    d.was IS NULL AND d.became IS NOT NULL AND d.is_judged = 0 AND (
      ${wallet} IN (SELECT address FROM store_wallets WHERE store_id = u.store_id)
      OR ${wallet} IN (SELECT lower(payout_base) FROM stores WHERE id = u.store_id)
      OR ${wallet} IN (SELECT payout_solana FROM stores WHERE id = u.store_id)) AS is_own
  FROM sums_due d LEFT JOIN purchases u ON u.payment_id = d.payment_id
    LEFT JOIN refunds r ON r.payment_id = d.payment_id LEFT JOIN own_sales o ON o.payment_id = d.payment_id
  ORDER BY d.id LIMIT ?`

/** Adds what was noted of sales to the sums that figures and fees are read from, inside the writer's transaction. */
export function sumOperations(database: DatabaseSync) {
  const due = database.prepare(dueRows)
  const own = database.prepare('INSERT OR IGNORE INTO own_sales (payment_id) VALUES (?)')
  const done = database.prepare('DELETE FROM sums_due WHERE id <= ?')
  const numberOf = database.prepare('SELECT number FROM buyers WHERE wallet = ?')
  const number = database.prepare('INSERT INTO buyers (wallet, number) VALUES (?, ?)')
  const sales = database.prepare('SELECT * FROM sales_sums WHERE unit = ? AND at = ? AND scope = ?')
  const putSales = database.prepare(`
    INSERT INTO sales_sums (unit, at, scope, calls, revenue_e18, refunds, refunded_e18, buyers)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (unit, at, scope) DO UPDATE SET calls = excluded.calls, revenue_e18 = excluded.revenue_e18,
      refunds = excluded.refunds, refunded_e18 = excluded.refunded_e18, buyers = excluded.buyers`)
  const dropSales = database.prepare('DELETE FROM sales_sums WHERE unit = ? AND at = ? AND scope = ?')
  const feeKey = 'store_id = ? AND month = ? AND network = ? AND unit = ? AND symbol = ? AND decimals = ?'
  const fees = database.prepare(`SELECT * FROM fee_sums WHERE ${feeKey}`)
  const putFees = database.prepare(`
    INSERT INTO fee_sums (store_id, month, network, unit, symbol, decimals, asset, sales, sold, fees, refunds, refunded,
      returned, standing) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (store_id, month, network, unit, symbol, decimals) DO UPDATE SET asset = excluded.asset,
      sales = excluded.sales, sold = excluded.sold, fees = excluded.fees, refunds = excluded.refunds,
      refunded = excluded.refunded, returned = excluded.returned, standing = excluded.standing`)
  const dropFees = database.prepare(`DELETE FROM fee_sums WHERE ${feeKey}`)

  /** A wallet's number is that of the first payment of it that was added up: nobody else has it. */
  function buyerOf(row: Row): number {
    const wallet = walletOf(row)
    const known = numberOf.get(wallet)
    if (known !== undefined) return Number(known['number'])
    const first = Number(row['payment_id'])
    number.run(wallet, first)
    return first
  }

  function writeSales(sum: SalesSum): void {
    const { unit, scope, at } = sum
    const found = sales.get(unit, at, scope)
    const calls = sum.calls + Number(found?.['calls'] ?? 0)
    const revenue = sum.revenueE18 + BigInt(String(found?.['revenue_e18'] ?? 0))
    const refunds = sum.refunds + Number(found?.['refunds'] ?? 0)
    const refunded = sum.refundedE18 + BigInt(String(found?.['refunded_e18'] ?? 0))
    if (calls === 0 && refunds === 0) return void dropSales.run(unit, at, scope)
    const buyers = changedCounts((found?.['buyers'] ?? null) as Uint8Array | null, sum.buyers)
    putSales.run(unit, at, scope, calls, `${revenue}`, refunds, `${refunded}`, buyers)
  }

  function writeFees(sum: FeeSum): void {
    const found = fees.get(...sum.key)
    const plus = (name: 'sold' | 'fees' | 'refunded' | 'returned' | 'standing') =>
      `${sum[name] + BigInt(String(found?.[name] ?? 0))}`
    const salesNow = sum.sales + Number(found?.['sales'] ?? 0)
    const refundsNow = sum.refunds + Number(found?.['refunds'] ?? 0)
    if (salesNow === 0 && refundsNow === 0) return void dropFees.run(...sum.key)
    const [asset] = [String(found?.['asset'] ?? ''), sum.asset].sort().reverse()
    putFees.run(
      ...[...sum.key, asset!, salesNow, plus('sold'), plus('fees')],
      ...[refundsNow, plus('refunded'), plus('returned'), plus('standing')],
    )
  }

  return {
    /** @returns how many notes were added; fewer than asked for: there are no more */
    sumUp(limit: number): number {
      const rows = due.all(limit)
      if (rows.length === 0) return 0
      const [figures, months] = [new Map<string, SalesSum>(), new Map<string, FeeSum>()]
      const foundOwn = new Set<number>()
      for (const row of rows) {
        if (row['id'] === null) continue
        const payment = Number(row['payment_id'])
        if (row['is_own'] === 1) {
          own.run(payment)
          foundOwn.add(payment)
        }
        const isOwn = row['was_own'] === 1 || foundOwn.has(payment)
        addFigures(figures, row, isOwn ? undefined : buyerOf)
        addFees(months, row)
      }
      // By their place in the tables, where neighbours share a page.
      for (const [, sum] of [...figures].sort(byKey)) writeSales(sum)
      for (const [, sum] of [...months].sort(byKey)) writeFees(sum)
      done.run(Number(rows.at(-1)!['due']))
      return rows.length
    },
  }
}

const byKey = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => (a < b ? -1 : 1)

/** An EVM address is the same in either case; a Solana address is base58, where case counts. */
const canonical = (row: Row, name: 'buyer_wallet' | 'asset'): string =>
  String(row['network']).startsWith('eip155:') ? String(row[name]).toLowerCase() : String(row[name])
export const walletOf = (row: Row): string => canonical(row, 'buyer_wallet')

const stands = (status: unknown): boolean => status === 'settled' || status === 'delivered'

/**
 * Adds one note: what a purchase was, and what it became, or (both null) that its refund is known.
 * @param buyerOf the number of a purchase's buyer; undefined of a purchase by one of the store's own wallets
 */
export function addFigures(
  sums: Map<string, SalesSum>,
  row: Row,
  buyerOf: ((row: Row) => number) | undefined,
): void {
  if (buyerOf === undefined) return
  const { was, became, store_id: storeId, link_id: linkId } = row
  const isRefund = became === null
  const sign = Number(stands(became)) - Number(stands(was))
  if (sign === 0 && !isRefund) return
  const atMs = Number(isRefund ? row['refunded_at_ms'] : row['created_at_ms'])
  const priceE18 = parseAmount(String(row['price_usd']), 18)
  const buyer = isRefund ? 0 : buyerOf(row)
  const add = (unit: SalesSum['unit'], scope: string, at: number) => {
    const key = `${unit} ${at} ${scope}`
    let sum = sums.get(key)
    if (sum === undefined) {
      sum = { unit, scope, at, calls: 0, revenueE18: 0n, refunds: 0, refundedE18: 0n, buyers: new Map() }
      sums.set(key, sum)
    }
    if (isRefund) {
      sum.refunds++
      sum.refundedE18 += priceE18
      return
    }
    sum.calls += sign
    sum.revenueE18 += sign > 0 ? priceE18 : -priceE18
    sum.buyers.set(buyer, (sum.buyers.get(buyer) ?? 0) + sign)
  }
  const day = Math.floor(atMs / DAY_MS)
  add('day', String(storeId), day)
  add('hour', String(storeId), Math.floor(atMs / HOUR_MS))
  if (linkId !== '') add('day', scopeOfLink(String(storeId), String(linkId)), day)
}

const counts = {
  sales: (status: unknown) => Number(status !== null && status !== 'reorged'),
  refunds: (status: unknown) => Number(status === 'refunded'),
  standing: (status: unknown) => Number(status !== null && status !== 'reorged' && status !== 'refunded'),
} as const

export function addFees(sums: Map<string, FeeSum>, row: Row): void {
  const { was, became } = row
  if (became === null) return
  const change = (name: keyof typeof counts) => counts[name](became) - counts[name](was)
  const [sales, refunds, standing] = [change('sales'), change('refunds'), change('standing')]
  const sumOf = (atMs: unknown): FeeSum => {
    const month = new Date(Number(atMs)).toISOString().slice(0, 7)
    const [store, network, symbol] = [row['store_id'], row['network'], row['symbol']].map(String)
    const key = [
      ...[store!, month, network!, canonical(row, 'asset'), symbol!],
      Number(row['decimals']),
    ] as unknown as FeeSum['key']
    const name = JSON.stringify(key)
    let sum = sums.get(name)
    if (sum === undefined) {
      const none = { sales: 0, sold: 0n, fees: 0n, refunds: 0, refunded: 0n, returned: 0n, standing: 0n }
      sum = { key, asset: String(row['asset']), ...none }
      sums.set(name, sum)
    }
    return sum
  }
  const [amount, fee] = [BigInt(String(row['amount_atomic'])), BigInt(String(row['fee_atomic']))]
  if (sales !== 0 || standing !== 0) {
    const sum = sumOf(row['created_at_ms'])
    sum.sales += sales
    sum.sold += BigInt(sales) * amount
    sum.fees += BigInt(sales) * fee
    sum.standing += BigInt(standing) * amount
  }
  if (refunds !== 0 && row['refunded_at_ms'] !== null) {
    const sum = sumOf(row['refunded_at_ms'])
    sum.refunds += refunds
    sum.refunded += BigInt(refunds) * amount
    sum.returned += BigInt(refunds) * fee
  }
}

import type { DatabaseSync } from 'node:sqlite'
import { changedCounts } from '../../sql/sales/buyerCounts.ts'
import { addFees, addStats, type FeeSum, type SalesSum, walletOf } from '../../sql/sales/saleRollups.ts'
import type { Row } from '../statement.ts'

const wallet = `CASE WHEN u.network LIKE 'eip155:%' THEN lower(u.buyer_wallet) ELSE u.buyer_wallet END`

// A store's own wallets are those that sign in to it and those that it is paid to. Before these wallets change,
// repositories/stores.ts decides which sales went to them.
const dueRows = `SELECT d.id AS due, d.was, d.became, d.refunded_at_ms, u.*, o.payment_id IS NOT NULL AS was_own,
    d.was IS NULL AND d.became IS NOT NULL AND d.is_decided = 0 AND (
      ${wallet} IN (SELECT address FROM store_wallets WHERE store_id = u.store_id)
      OR ${wallet} IN (SELECT lower(payout_base) FROM stores WHERE id = u.store_id)
      OR ${wallet} IN (SELECT payout_solana FROM stores WHERE id = u.store_id)) AS is_own
  FROM rollups_due d LEFT JOIN purchases u ON u.payment_id = d.payment_id
    LEFT JOIN own_sales o ON o.payment_id = d.payment_id
  ORDER BY d.id LIMIT ? + 0`

/** Adds the notes of sales to the rollups, inside the writer's transaction. Stats and fees are read from the rollups. */
export function sumOperations(database: DatabaseSync) {
  const due = database.prepare(dueRows)
  const own = database.prepare('INSERT OR IGNORE INTO own_sales (payment_id) VALUES (?)')
  const done = database.prepare('DELETE FROM rollups_due WHERE id <= ?')
  const numberOf = database.prepare('SELECT number FROM buyers WHERE wallet = ?')
  const number = database.prepare('INSERT INTO buyers (wallet, number) VALUES (?, ?)')
  const sales = database.prepare('SELECT * FROM sales_rollups WHERE unit = ? AND at = ? AND scope = ?')
  const putSales = database.prepare(`
    INSERT INTO sales_rollups (unit, at, scope, calls, revenue_e18, refunds, refunded_e18, buyers)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (unit, at, scope) DO UPDATE SET calls = excluded.calls, revenue_e18 = excluded.revenue_e18,
      refunds = excluded.refunds, refunded_e18 = excluded.refunded_e18, buyers = excluded.buyers`)
  const dropSales = database.prepare('DELETE FROM sales_rollups WHERE unit = ? AND at = ? AND scope = ?')
  const feeKey = 'store_id = ? AND month = ? AND network = ? AND unit = ? AND symbol = ? AND decimals = ?'
  const fees = database.prepare(`SELECT * FROM fee_rollups WHERE ${feeKey}`)
  const putFees = database.prepare(`
    INSERT INTO fee_rollups (store_id, month, network, unit, symbol, decimals, asset, sales, sold, fees, refunds, refunded,
      returned, standing) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (store_id, month, network, unit, symbol, decimals) DO UPDATE SET asset = excluded.asset,
      sales = excluded.sales, sold = excluded.sold, fees = excluded.fees, refunds = excluded.refunds,
      refunded = excluded.refunded, returned = excluded.returned, standing = excluded.standing`)
  const dropFees = database.prepare(`DELETE FROM fee_rollups WHERE ${feeKey}`)

  const noteLink = database.prepare(`INSERT INTO link_stats (link_id, changed) VALUES (?, 1)
    ON CONFLICT (link_id) DO UPDATE SET changed = changed + 1`)

  /**
   * The number of each buyer. It is the row number of the wallet's first payment in the rollups, so no two wallets share a number.
   */
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
    /** @returns how many notes the writer added; fewer than `limit` if there are no more */
    sumUp(limit: number): number {
      const rows = due.all(limit)
      if (rows.length === 0) return 0
      const [stats, months] = [new Map<string, SalesSum>(), new Map<string, FeeSum>()]
      const foundOwn = new Set<number>()
      const links = new Set<string>()
      for (const row of rows) {
        if (row['id'] === null) continue
        const payment = Number(row['payment_id'])
        if (row['is_own'] === 1) {
          own.run(payment)
          foundOwn.add(payment)
        }
        const isOwn = row['was_own'] === 1 || foundOwn.has(payment)
        // Discovery has to count the link's buyers again.
        if (row['became'] !== null && row['link_id'] !== '') links.add(String(row['link_id']))
        addStats(stats, row, isOwn ? undefined : buyerOf)
        addFees(months, row)
      }
      // The rows are written in the order of the table, because neighboring rows share a page.
      for (const [, sum] of [...stats].sort(byKey)) writeSales(sum)
      for (const [, sum] of [...months].sort(byKey)) writeFees(sum)
      for (const link of [...links].sort()) noteLink.run(link)
      done.run(Number(rows.at(-1)!['due']))
      return rows.length
    },
  }
}

const byKey = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => (a < b ? -1 : 1)

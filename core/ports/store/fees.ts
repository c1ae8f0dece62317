import type { AtomicAmount } from '../../domain/money.ts'
import type { NetworkId } from '../../domain/network.ts'

/** One store's sales in one asset in one month, the platform's fees on these sales, and the fees that the store paid. */
export interface FeeMonth {
  /** Month in UTC, such as `2026-11`. A refund or a payment counts in the month in which it was recorded. */
  readonly month: string
  readonly network: NetworkId
  readonly asset: string
  readonly symbol: string
  readonly decimals: number
  /** A claim of a payment channel counts as one sale, in the month in which the gateway saw it. */
  readonly sales: number
  readonly salesAtomic: AtomicAmount
  /** Fees owed for these sales. */
  readonly feesAtomic: AtomicAmount
  readonly refunds: number
  readonly refundedAtomic: AtomicAmount
  /** Fees that are no longer owed because of these refunds. */
  readonly returnedAtomic: AtomicAmount
  /** Fees paid to the operator in this month, for any month. */
  readonly paidAtomic: AtomicAmount
}

/** What stores owe the platform, by the ledger. */
export interface Fees {
  /**
   * Every month with a sale, a refund or a payment, newest first, then by network and asset. Sales and payments whose transfer has
   * left the chain do not count. It runs apart from other queries, so that a large store delays no other request.
   */
  months(storeId: string): Promise<FeeMonth[]>
}

/** Adds up the parts of each month and asset, and sorts the months as {@link Fees.months} promises. */
export function inOrder(parts: readonly FeeMonth[]): FeeMonth[] {
  const rollups = new Map<string, FeeMonth>()
  for (const part of parts) {
    const { month, network, asset, symbol, decimals } = part
    const key = [
      month,
      network,
      network.startsWith('eip155:') ? asset.toLowerCase() : asset,
      symbol,
      decimals,
    ].join()
    const sum = rollups.get(key)
    rollups.set(key, sum === undefined ? part : plus(sum, part))
  }
  return [...rollups.values()].sort(
    (a, b) => compare(b.month, a.month) || compare(a.network, b.network) || compare(a.asset, b.asset),
  )
}

const plus = (a: FeeMonth, b: FeeMonth): FeeMonth => ({
  ...a,
  sales: a.sales + b.sales,
  salesAtomic: a.salesAtomic + b.salesAtomic,
  feesAtomic: a.feesAtomic + b.feesAtomic,
  refunds: a.refunds + b.refunds,
  refundedAtomic: a.refundedAtomic + b.refundedAtomic,
  returnedAtomic: a.returnedAtomic + b.returnedAtomic,
  paidAtomic: a.paidAtomic + b.paidAtomic,
})

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b))

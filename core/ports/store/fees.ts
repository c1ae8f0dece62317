import type { AtomicAmount } from '../../domain/money.ts'
import type { NetworkId } from '../../domain/network.ts'

/** What one store sold in one asset in one month, the platform's share of it, and what was paid of that. */
export interface FeeMonth {
  /** `2026-11`, of UTC. A refund and a payment count in the month in which they were booked. */
  readonly month: string
  readonly network: NetworkId
  readonly asset: string
  readonly symbol: string
  readonly decimals: number
  readonly sales: number
  readonly salesAtomic: AtomicAmount
  /** Owed for these sales. */
  readonly feesAtomic: AtomicAmount
  readonly refunds: number
  readonly refundedAtomic: AtomicAmount
  /** Taken back by these refunds. */
  readonly returnedAtomic: AtomicAmount
  /** Paid to the operator in this month, for whatever was owed. */
  readonly paidAtomic: AtomicAmount
}

/** What stores owe the platform, as the books have it. */
export interface Fees {
  /**
   * Every month in which something was sold, refunded or paid, newest first, then by network and asset. A sale or a payment
   * whose transfer has left the chain is in none. Read beside everything else: a large store holds up nobody.
   */
  months(storeId: string): Promise<FeeMonth[]>
}

/** Adds up what is of one month and asset, and sorts it as {@link Fees.months} promises. */
export function inOrder(parts: readonly FeeMonth[]): FeeMonth[] {
  const sums = new Map<string, FeeMonth>()
  for (const part of parts) {
    const { month, network, asset, symbol, decimals } = part
    const key = [
      month,
      network,
      network.startsWith('eip155:') ? asset.toLowerCase() : asset,
      symbol,
      decimals,
    ].join()
    const sum = sums.get(key)
    sums.set(key, sum === undefined ? part : plus(sum, part))
  }
  return [...sums.values()].sort(
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

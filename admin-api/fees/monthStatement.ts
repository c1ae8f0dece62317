import type { AtomicAmount } from '../../core/domain/money.ts'
import type { FeeMonth } from '../../core/ports/store/fees.ts'
import { feesOwed, type OwedFees, tokenOf } from './feeStatement.ts'

/** One token's account with the platform over a month: what was owed before it, what changed that, and what is owed after it. */
export interface TokenStatement extends Omit<FeeMonth, 'month'> {
  readonly owedBeforeAtomic: AtomicAmount
  /** Before, with the fees, without what was given back and what was paid. Below zero where more was paid than is owed. */
  readonly owedAfterAtomic: AtomicAmount
}

/**
 * The account of every token in which something happened in a month, or was owed before it.
 *
 * @param months of one store
 * @param month `2026-11`
 */
export function monthStatement(months: readonly FeeMonth[], month: string): TokenStatement[] {
  const before = feesOwed(months.filter((one) => one.month < month))
  return feesOwed(months.filter((one) => one.month <= month)).flatMap((token) => {
    const isSame = (one: Omit<OwedFees, 'owedAtomic'>) => tokenOf(one) === tokenOf(token)
    const parts = months.filter((one) => one.month === month && isSame(one))
    const owedBeforeAtomic = before.find(isSame)?.owedAtomic ?? 0n
    if (parts.length === 0 && owedBeforeAtomic === 0n) return []
    const count = (of: 'sales' | 'refunds') => parts.reduce((sum, one) => sum + one[of], 0)
    const amount = (of: 'salesAtomic' | 'feesAtomic' | 'refundedAtomic' | 'returnedAtomic' | 'paidAtomic') =>
      parts.reduce((sum, one) => sum + one[of], 0n)
    const { owedAtomic: owedAfterAtomic, ...unit } = token
    return {
      ...{ ...unit, owedBeforeAtomic, owedAfterAtomic, sales: count('sales'), refunds: count('refunds') },
      ...{ salesAtomic: amount('salesAtomic'), feesAtomic: amount('feesAtomic') },
      ...{ refundedAtomic: amount('refundedAtomic'), returnedAtomic: amount('returnedAtomic') },
      paidAtomic: amount('paidAtomic'),
    }
  })
}

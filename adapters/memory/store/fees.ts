import { feesAccountOf } from '../../../core/domain/ledger.ts'
import type { Purchase } from '../../../core/domain/purchase.ts'
import { type FeeMonth, type Fees, inOrder } from '../../../core/ports/store/fees.ts'
import type { Access } from './access.ts'
import type { Tables } from './memory.ts'

/** What stores owe, in memory. */
export const createFees = ({ purchases, rowOfPurchase, refunds }: Tables, { read }: Access): Fees => ({
  months: (storeId) =>
    read(() => {
      const own = [...purchases.values()].flatMap(({ purchase }) =>
        purchase.storeId === storeId ? [purchase] : [],
      )
      const sold = own
        .filter(({ status }) => status !== 'reorged')
        .map((one) => ({
          ...monthOf(one, one.createdAtMs),
          ...{ sales: 1, salesAtomic: one.amountAtomic, feesAtomic: one.feeAtomic },
        }))
      const refunded = own
        .filter(({ status }) => status === 'refunded')
        .map((one) => ({
          ...monthOf(one, refunds.get(rowOfPurchase.get(one.id)!)!.refundedAtMs),
          ...{ refunds: 1, refundedAtomic: one.amountAtomic, returnedAtomic: one.feeAtomic },
        }))
      const account = feesAccountOf(storeId)
      const paid = [...purchases.values()].flatMap(({ purchase: one }) =>
        one.storeId === account && one.status !== 'reorged' && one.status !== 'refunded'
          ? [{ ...monthOf(one, one.createdAtMs), paidAtomic: one.amountAtomic }]
          : [],
      )
      return inOrder([...sold, ...refunded, ...paid])
    }),
})

const monthOf = ({ network, asset, symbol, decimals }: Purchase, atMs: number): FeeMonth => ({
  month: new Date(atMs).toISOString().slice(0, 7),
  ...{ network, asset, symbol, decimals, sales: 0, salesAtomic: 0n, feesAtomic: 0n },
  ...{ refunds: 0, refundedAtomic: 0n, returnedAtomic: 0n, paidAtomic: 0n },
})

import fc from 'fast-check'
import type { Test } from 'tap'
import { entriesOfRefund, feesAccountOf } from '../../core/domain/ledger.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import type { Fees } from '../../core/ports/store/fees.ts'
import { change, type LedgerUnderTest, type Sale, sell, type TestClock } from './samples.ts'

type Under = LedgerUnderTest & { readonly fees: Fees; readonly clock: TestClock }

const october = Date.UTC(2026, 9, 31, 23, 59, 59, 999)
const november = Date.UTC(2026, 10, 1)
const mixedCase = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'

/** What every implementation of the port Fees keeps. */
export function feesContract(t: Test, make: (t: Test) => Promise<Under>): void {
  t.test('a query after a sale includes it, even while an earlier query is in progress', async (t) => {
    const under = await make(t)
    for (const [i, name] of ['k1', 'k2', 'k3'].entries()) {
      const early = under.fees.months('store-1')
      await buy(under, name, { createdAtMs: november })
      t.match(await under.fees.months('store-1'), [{ sales: i + 1 }])
      await early
    }
  })

  t.test(
    'sales count in their month of UTC, refunds in theirs; other stores and lost sales do not',
    async (t) => {
      const under = await make(t)
      const { fees } = under
      t.strictSame(await fees.months('store-1'), [])
      const asset = { asset: mixedCase }
      const first = await buy(under, 'k1', {
        ...asset,
        createdAtMs: october,
        amountAtomic: 100n,
        feeAtomic: 5n,
      })
      await buy(under, 'k2', { ...asset, createdAtMs: november, amountAtomic: 1_000n, feeAtomic: 50n })
      await buy(under, 'k3', {
        asset: mixedCase.toLowerCase(),
        createdAtMs: november,
        amountAtomic: 3n,
        feeAtomic: 0n,
      })
      await buy(under, 'k4', { storeId: 'store-2', createdAtMs: november, amountAtomic: 7n, feeAtomic: 7n })
      const lost = await buy(under, 'k5', {
        ...asset,
        createdAtMs: november,
        amountAtomic: 9n,
        feeAtomic: 9n,
      })
      await leave(under, lost)
      under.clock.nowMs = november + 1
      await payBack(under, first)
      const unit = { network: 'eip155:84532', symbol: 'USDC', decimals: 6 }
      const months = await fees.months('store-1')
      t.strictSame(
        months.map(({ asset, ...month }) => ({ ...month, asset: asset.toLowerCase() })),
        [
          {
            ...{ month: '2026-11', ...unit, sales: 2, salesAtomic: 1_003n, feesAtomic: 50n },
            ...{ refunds: 1, refundedAtomic: 100n, returnedAtomic: 5n, paidAtomic: 0n },
            asset: mixedCase.toLowerCase(),
          },
          {
            ...{ month: '2026-10', ...unit, sales: 1, salesAtomic: 100n, feesAtomic: 5n },
            ...{ refunds: 0, refundedAtomic: 0n, returnedAtomic: 0n, paidAtomic: 0n },
            asset: mixedCase.toLowerCase(),
          },
        ],
      )
    },
  )

  t.test('what was paid counts in its month, is no sale, and counts for its store only', async (t) => {
    const under = await make(t)
    const account = feesAccountOf('store-1')
    await buy(under, 'k1', { createdAtMs: october, amountAtomic: 1_000n, feeAtomic: 50n })
    const payment = { storeId: account, feeAtomic: 0n }
    await buy(under, 'k2', { ...payment, createdAtMs: november, amountAtomic: 30n })
    await buy(under, 'k3', { ...payment, createdAtMs: november, amountAtomic: 25n })
    const lost = await buy(under, 'k4', { ...payment, createdAtMs: november, amountAtomic: 7n })
    await leave(under, lost)
    await buy(under, 'k5', { ...payment, storeId: feesAccountOf('store-2'), amountAtomic: 9n })
    const seen = (await under.fees.months('store-1')).map(({ month, sales, feesAtomic, paidAtomic }) => ({
      ...{ month, sales, feesAtomic, paidAtomic },
    }))
    t.strictSame(seen, [
      { month: '2026-11', sales: 0, feesAtomic: 0n, paidAtomic: 55n },
      { month: '2026-10', sales: 1, feesAtomic: 50n, paidAtomic: 0n },
    ])
    t.match(await under.purchases.page('store-1', { limit: 9 }), { purchases: { length: 1 } })
  })

  t.test('each network and asset stands for itself', async (t) => {
    const under = await make(t)
    const solana = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
    await buy(under, 'k1', { createdAtMs: november })
    await buy(under, 'k2', { createdAtMs: november, network: solana, asset: 'Mint1' })
    await buy(under, 'k3', { createdAtMs: november, network: solana, asset: 'mint1' })
    const months = await under.fees.months('store-1')
    t.strictSame(
      months.map(({ network }) => network),
      ['eip155:84532', solana, solana],
    )
  })

  t.test('what a store owes is what the ledger says, to the last unit of any amount', async (t) => {
    const amount = fc.bigInt({ min: 1n, max: 2n ** 200n })
    const end = fc.constantFrom('settled', 'refunded', 'reorged')
    const isPayment = fc.boolean()
    const sales = fc.array(fc.record({ end, amount, fee: amount, isPayment }), { maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(sales, async (sales) => {
        const under = await make(t)
        let owed = 0n
        for (const [i, { end, amount, fee, isPayment }] of sales.entries()) {
          const of = isPayment ? { storeId: feesAccountOf('store-1'), feeAtomic: 0n } : { feeAtomic: fee }
          const sold = await buy(under, `k${i}`, { amountAtomic: amount, ...of })
          if (end === 'refunded') await payBack(under, sold, `0xb${i}`)
          if (end === 'reorged') await leave(under, sold)
          for (const entry of await under.purchases.ledger(sold.purchase.id))
            if (entry.account === 'fees-owed:store-1') owed -= entry.amountAtomic
        }
        const months = await under.fees.months('store-1')
        return t.equal(
          months.reduce((sum, of) => sum + of.feesAtomic - of.returnedAtomic - of.paidAtomic, 0n),
          owed,
        )
      }),
      { numRuns: 8 },
    )
  })
}

const buy = (under: LedgerUnderTest, name: string, more: Partial<Purchase> = {}): Promise<Sale> =>
  sell(under, name, `0x${Buffer.from(name).toString('hex')}`, more)

const payBack = ({ ledger }: LedgerUnderTest, { claim, row, purchase }: Sale, transaction = '0xb') =>
  ledger.apply(
    change(claim, row, 'settled', 'refunded', {
      purchaseStatus: 'refunded',
      entries: entriesOfRefund(purchase),
      refund: { network: purchase.network, transaction, paymentKeys: [] },
    }),
  )

const leave = ({ ledger }: LedgerUnderTest, { claim, row, purchase }: Sale) =>
  ledger.apply(
    change(claim, row, 'settled', 'reorged', {
      purchaseStatus: 'reorged',
      entries: entriesOfRefund(purchase),
    }),
  )

import fc from 'fast-check'
import type { Test } from 'tap'
import { entriesOfRefund } from '../../core/domain/ledger.ts'
import type { Purchase, PurchaseStatus } from '../../core/domain/purchase.ts'
import { checkedLedger } from '../helpers/checkedLedger.ts'
import { change, type LedgerUnderTest, type Sale, sell, startMs } from './samples.ts'

/** What every implementation of the port Purchases keeps. */
export function purchasesContract(t: Test, make: (t: Test) => Promise<LedgerUnderTest>): void {
  t.test('pages together give every purchase once, newest first, while new ones come in', async (t) => {
    const under = await make(t)
    // Three share a moment: the order among them must hold across pages too.
    const moments = [0, 1, 1, 1, 2, 3, 4]
    for (const [i, at] of moments.entries()) await buy(under, `k${i}`, { createdAtMs: startMs + at })
    await buy(under, 'other', { storeId: 'store-2' })
    const all = (await under.purchases.page('store-1', { limit: 100 })).purchases
    t.equal(all.length, moments.length)
    t.strictSame(
      all.map((p) => p.createdAtMs - startMs),
      [...moments].reverse(),
    )

    const seen: Purchase[] = []
    let cursor: string | null | undefined
    for (let i = 0; cursor !== null; i++) {
      const page = await under.purchases.page('store-1', { limit: 2, ...(cursor && { cursor }) })
      t.ok(page.purchases.length > 0 && page.purchases.length <= 2)
      seen.push(...page.purchases)
      cursor = page.nextCursor
      await buy(under, `new${i}`, { createdAtMs: startMs + 100 + i })
    }
    t.strictSame(seen, all)
  })

  t.test('a page can be of one link; a cursor that was made up is refused', async (t) => {
    const under = await make(t)
    await buy(under, 'k1', { linkId: 'link-1' })
    await buy(under, 'k2', { linkId: 'link-2' })
    const { purchases, nextCursor } = await under.purchases.page('store-1', { limit: 5, linkId: 'link-2' })
    t.strictSame(
      purchases.map((p) => p.linkId),
      ['link-2'],
    )
    t.equal(nextCursor, null)
    for (const cursor of ['', 'x', '!!!', Buffer.from('1e9:x').toString('base64url')]) {
      await t.rejects(under.purchases.page('store-1', { limit: 5, cursor }), { code: 'VALIDATION_ERROR' })
    }
  })

  t.test('a page can be of what is owed, went back or left the chain', async (t) => {
    const under = await make(t)
    for (const [i, name] of ['k1', 'k2', 'k3', 'k4'].entries()) {
      const sold = await buy(under, name, { createdAtMs: startMs + i })
      if (i % 2 === 0) await move(under, sold, 'refund_due')
    }
    const owed = (options: object) =>
      under.purchases.page('store-1', { limit: 1, status: 'refund_due', ...options })
    const first = await owed({})
    t.match(first.purchases, [{ id: 'purchase-of-k3' }])
    const second = await owed({ cursor: first.nextCursor! })
    t.match(second, { purchases: [{ id: 'purchase-of-k1' }], nextCursor: null })
    t.strictSame((await owed({ status: 'refunded' })).purchases, [])
    t.strictSame((await owed({ linkId: 'link-2' })).purchases, [])
  })

  t.test('which transactions have been sold something by is one question', async (t) => {
    const under = await make(t)
    const hash = `0x${'Ab'.repeat(32)}`
    const [evm, solana] = ['eip155:84532', 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'] as const
    await sell(under, 'k1', hash)
    await sell(under, 'k2', 'SiGnature', { network: solana })
    const left = await sell(under, 'k3', 'Reorged', { network: solana })
    await move(under, left, 'reorged')
    const sold = async (network: typeof evm | typeof solana, ...transactions: string[]) =>
      [...(await under.purchases.soldIn(network, transactions))].sort()
    t.strictSame(await sold(evm, hash.toLowerCase(), `0x${'cd'.repeat(32)}`), [hash.toLowerCase()])
    t.strictSame(await sold(solana, 'SiGnature', 'Reorged', 'signature', 'x'), ['Reorged', 'SiGnature'])
    t.strictSame(await sold(solana, hash.toLowerCase()), [], 'of another network')
    t.strictSame(await sold(solana), [])
  })

  t.test('the ledger check counts the present rows, regardless of sales and refunds before', async (t) => {
    const ends = ['settled', 'delivered', 'refund_due', 'refunded', 'reorged'] as const
    const amount = fc.bigInt({ min: 1n, max: 2n ** 200n })
    const sales = fc.array(fc.record({ end: fc.constantFrom(...ends), amount, fee: amount }), {
      maxLength: 12,
    })
    await fc.assert(
      fc.asyncProperty(sales, async (sales) => {
        const under = await make(t)
        for (const [i, sale] of sales.entries()) {
          const key = `k${i}`
          const sold = await buy(under, key, { amountAtomic: sale.amount, feeAtomic: sale.fee })
          if (sale.end !== 'settled') await move(under, sold, sale.end, `0xb${i}`)
        }
        const onChain = sales.filter((s) => s.end !== 'reorged').length
        const { transactions, ...counts } = await checkedLedger(under.purchases)
        const expected = {
          ...{
            purchases: onChain,
            chargedPayments: onChain,
            unresolvedPayments: 0,
            skippedDays: 0,
            broken: [],
            unbalanced: [],
          },
          refundDue: sales.filter((s) => s.end === 'refund_due').length,
        }
        return (
          t.strictSame(counts, expected) &&
          t.equal(new Set(transactions.map((x) => x.transaction)).size, onChain)
        )
      }),
      { numRuns: 8 },
    )
  })
}

const buy = (under: LedgerUnderTest, name: string, more: Partial<Purchase> = {}): Promise<Sale> =>
  sell(under, name, `0x${Buffer.from(name).toString('hex')}`, more)

/** Moves a sale on, as it is booked. */
async function move(
  { ledger }: LedgerUnderTest,
  { claim, row, purchase }: Sale,
  to: Exclude<PurchaseStatus, 'settled'>,
  back = '0xb',
): Promise<void> {
  const { network } = purchase
  await ledger.apply(
    change(claim, row, 'settled', to, {
      purchaseStatus: to,
      ...((to === 'refunded' || to === 'reorged') && { entries: entriesOfRefund(purchase) }),
      ...(to === 'refunded' && { refund: { network, transaction: back, paymentKeys: [] } }),
    }),
  )
}

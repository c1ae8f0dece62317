import fc from 'fast-check'
import type { Test } from 'tap'
import { entriesOfRefund } from '../../core/domain/ledger.ts'
import type { NetworkId } from '../../core/domain/network.ts'
import type { Purchase, PurchaseStatus } from '../../core/domain/purchase.ts'
import type { Links } from '../../core/ports/links.ts'
import type { Stores } from '../../core/ports/stores.ts'
import {
  type BooksUnderTest,
  change,
  type Sale,
  sampleKey,
  sampleLink,
  sampleStore,
  sell,
  startMs,
} from './samples.ts'

const dayMs = 24 * 60 * 60 * 1000

/** What every implementation of the port Purchases keeps. */
export function purchasesContract(
  t: Test,
  make: (t: Test) => Promise<BooksUnderTest & { links: Links; stores: Stores }>,
): void {
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

  t.test('revenue adds up exactly, of purchases that stand', async (t) => {
    const under = await make(t)
    await buy(under, 'k1', { priceUsd: '0.1' })
    await buy(under, 'k2', { priceUsd: '0.2', buyerWallet: '0xb' })
    await buy(under, 'k3', { priceUsd: '0.000000000000000001', buyerWallet: '0xb' })
    await buy(under, 'k4', { priceUsd: '5', createdAtMs: startMs - 1 })
    await buy(under, 'k5', { priceUsd: '7', linkId: 'link-2', buyerWallet: '0xc' })
    const refunded = await buy(under, 'k6', { priceUsd: '9', buyerWallet: '0xd' })
    await move(under, refunded, 'refund_due')
    const stats = (more = {}) => under.purchases.stats('store-1', { sinceMs: startMs, ...more })
    t.strictSame(await stats(), { views: 0, buyers: 3, revenueE18: 7_300_000_000_000_000_001n })
    t.strictSame(await stats({ linkId: 'link-2' }), { views: 0, buyers: 1, revenueE18: 7n * 10n ** 18n })
    t.strictSame(await stats({ sinceMs: 0 }), {
      views: 0,
      buyers: 3,
      revenueE18: 12_300_000_000_000_000_001n,
    })
    t.strictSame(await under.purchases.stats('store-9', { sinceMs: 0 }), {
      views: 0,
      buyers: 0,
      revenueE18: 0n,
    })
  })

  t.test("buyers and revenue leave out the store's own wallets, and nobody else's", async (t) => {
    const under = await make(t)
    const [signedIn, paidTo, solana] = [
      `0x${'aB'.repeat(20)}`,
      `0x${'Cd'.repeat(20)}`,
      'So1anaWa11et',
    ] as const
    const wallet = { storeId: 'store-1', chain: 'base', address: signedIn.toLowerCase() } as const
    const store = sampleStore('store-1', { payout: { base: paidTo, solana } })
    await under.stores.create(store, wallet, sampleKey('k', 'store-1'))
    const others = sampleStore('store-2', { payout: { base: '0xe', solana: null } })
    await under.stores.create(others, null, sampleKey('k2', 'store-2'))
    const solanaNetwork = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
    const evm: [string, NetworkId][] = [signedIn, paidTo, `0x${'CD'.repeat(20)}`, '0xe'].map((buyer) => [
      buyer,
      'eip155:84532',
    ])
    const sales = [...evm, [solana, solanaNetwork], [solana.toLowerCase(), solanaNetwork]] as const
    for (const [i, [buyerWallet, network]] of sales.entries()) {
      await buy(under, `own${i}`, { priceUsd: '1', buyerWallet, network })
    }
    const stats = await under.purchases.stats('store-1', { sinceMs: 0 })
    t.strictSame(stats, { views: 0, buyers: 2, revenueE18: 2n * 10n ** 18n })
    await under.stores.update('store-1', { payout: { base: null, solana: null } }, startMs)
    t.equal(
      (await under.purchases.stats('store-1', { sinceMs: 0 })).buyers,
      5,
      'its sign-in wallet stays its own',
    )
    t.equal(
      (await under.purchases.page('store-1', { limit: 10 })).purchases.length,
      6,
      'they are sales all the same',
    )
  })

  t.test('views add up per link and day', async (t) => {
    const under = await make(t)
    await under.stores.create(sampleStore('store-1'), null, sampleKey('k', 'store-1'))
    for (const id of ['link-1', 'link-2']) await under.links.create(sampleLink(id, 'store-1'))
    await under.purchases.addViews([])
    await under.purchases.addViews([
      { linkId: 'link-1', day: '2026-06-02', count: 3 },
      { linkId: 'link-2', day: '2026-06-02', count: 5 },
      { linkId: 'link-1', day: '2026-06-01', count: 7 },
    ])
    await under.purchases.addViews([{ linkId: 'link-1', day: '2026-06-02', count: 4 }])
    const views = async (more: { sinceMs: number; linkId?: string }) =>
      (await under.purchases.stats('store-1', more)).views
    t.equal(await views({ sinceMs: 0 }), 19)
    t.equal(await views({ sinceMs: startMs }), 12)
    t.equal(await views({ sinceMs: startMs, linkId: 'link-1' }), 7)
    t.equal(await views({ sinceMs: startMs + dayMs }), 0)
  })

  t.test('the ledger check counts what is there, whatever was sold and taken back', async (t) => {
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
        const { transactions, ...counts } = await under.purchases.ledgerCheck()
        const expected = {
          ...{
            purchases: onChain,
            chargedPayments: onChain,
            unresolvedPayments: 0,
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

const buy = (under: BooksUnderTest, name: string, more: Partial<Purchase> = {}): Promise<Sale> =>
  sell(under, name, `0x${Buffer.from(name).toString('hex')}`, more)

/** Moves a sale on, as it is booked. */
async function move(
  { books }: BooksUnderTest,
  { claim, row, purchase }: Sale,
  to: Exclude<PurchaseStatus, 'settled'>,
  back = '0xb',
): Promise<void> {
  const { network } = purchase
  await books.apply(
    change(claim, row, 'settled', to, {
      purchaseStatus: to,
      ...(to !== 'delivered' && { entries: entriesOfRefund(purchase) }),
      ...(to === 'refunded' && { refund: { network, transaction: back, paymentKeys: [] } }),
    }),
  )
}

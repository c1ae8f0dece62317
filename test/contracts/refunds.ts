import type { Test } from 'tap'
import { entriesOfRefund, entriesOfSale } from '../../core/domain/ledger.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import { checkedLedger } from '../helpers/checkedLedger.ts'
import { type BooksUnderTest, change, claimed, keyOf, type Sale, sampleClaim, sell } from './samples.ts'

/** What every implementation of the ports Books and Purchases keeps of transfers back. */
export function refundsContract(t: Test, make: (t: Test) => Promise<BooksUnderTest>): void {
  t.test('a refund moves payment, purchase and ledger in one commit, and says by what', async (t) => {
    const under = await make(t)
    const sale = await sell(under, 'k1', '0xaa')
    const { purchase, row, claim } = sale
    t.equal(await under.books.refundOf(row), undefined)
    t.equal(await under.purchases.refundOf(purchase.id), undefined)
    under.clock.nowMs += 5_000
    t.equal(await refund(under, sale, '0xBB'), true)
    t.match(await under.books.find(claim.key), { state: 'refunded', updatedAtMs: under.clock.nowMs })
    t.strictSame(await under.purchases.find(purchase.id), { ...purchase, status: 'refunded' })
    const facts = {
      network: purchase.network,
      transaction: '0xbb',
      refundedAtMs: under.clock.nowMs,
    }
    t.strictSame(await under.books.refundOf(row), facts)
    t.strictSame(await under.purchases.refundOf(purchase.id), { purchaseId: purchase.id, ...facts })
    t.strictSame(await under.purchases.ledger(purchase.id), [
      ...entriesOfSale(purchase),
      ...entriesOfRefund(purchase),
    ])
    t.match(await checkedLedger(under.purchases), {
      ...{ purchases: 1, chargedPayments: 1, refundDue: 0, broken: { length: 0 }, unbalanced: { length: 0 } },
      transactions: [{ transaction: '0xaa' }],
    })
  })

  t.test('what is owed back is known by both wallets, amount and token, until it is paid back', async (t) => {
    const under = await make(t)
    const sale = await sell(under, 'k1', '0xaa')
    const { purchase, row, claim } = sale
    const { network, asset, amountAtomic } = purchase
    const back = { network, asset, amountAtomic, from: claim.payTo, to: claim.payer }
    t.equal(await under.purchases.isOwedBack(back), false, 'sold, and not owed')
    const owed = { purchaseStatus: 'refund_due' } as const
    t.equal(await under.books.apply(change(claim, row, 'settled', 'refund_due', owed)), true)
    t.equal(await under.purchases.isOwedBack(back), true)
    for (const other of [
      { from: 'other' },
      { to: 'other' },
      { asset: 'other' },
      { network: 'eip155:1' as const },
      { amountAtomic: amountAtomic + 1n },
    ])
      t.equal(await under.purchases.isOwedBack({ ...back, ...other }), false)
    t.equal(await refund(under, sale, '0xbb'), true)
    t.equal(await under.purchases.isOwedBack(back), false)
  })

  t.test(
    'what a store has sold and may give back is known by both wallets, amount, token and time',
    async (t) => {
      const under = await make(t)
      const sale = await sell(under, 'k1', '0xaa')
      const { purchase, claim } = sale
      const { network, asset, amountAtomic, storeId, createdAtMs } = purchase
      const back = { network, asset, amountAtomic, from: claim.payTo, to: claim.payer }
      const { purchases } = under
      t.equal(await purchases.hasSold(storeId, back, createdAtMs), true)
      t.equal(await purchases.hasSold(storeId, back, createdAtMs + 1), false, 'longer ago')
      t.equal(await purchases.hasSold('another', back, createdAtMs), false)
      for (const other of [
        { from: 'other' },
        { to: 'other' },
        { asset: 'other' },
        { network: 'eip155:1' as const },
        { amountAtomic: amountAtomic + 1n },
      ])
        t.equal(await purchases.hasSold(storeId, { ...back, ...other }, createdAtMs), false)
      t.equal(await refund(under, sale, '0xbb'), true)
      t.equal(await purchases.hasSold(storeId, back, createdAtMs), false, 'paid back already')
    },
  )

  t.test('of many refunds of one purchase one is booked, by the same transaction or others', async (t) => {
    for (const others of [false, true]) {
      const under = await make(t)
      const sale = await sell(under, 'k1', '0xaa')
      const results = await Promise.all(
        Array.from({ length: 10 }, (_, i) => refund(under, sale, others ? `0xb${i}` : '0xbb')),
      )
      t.strictSame(results.toSorted(), [...Array(9).fill(false), true])
      t.equal(await refund(under, sale, '0xbb'), false)
      t.equal((await under.purchases.ledger(sale.purchase.id)).length, 8)
      t.match(await checkedLedger(under.purchases), { broken: { length: 0 }, unbalanced: { length: 0 } })
    }
  })

  t.test('one transaction pays one purchase back, however many ask at once', async (t) => {
    const under = await make(t)
    const sold = await Promise.all(Array.from({ length: 10 }, (_, i) => sell(under, `k${i}`, `0xa${i}`)))
    const results = await Promise.all(
      sold.map((sale, i) => refund(under, sale, i % 2 === 0 ? '0xbb' : '0xBB')),
    )
    t.equal(results.filter(Boolean).length, 1)
    t.match(await checkedLedger(under.purchases), {
      purchases: 10,
      broken: { length: 0 },
      unbalanced: { length: 0 },
    })
    for (const [i, isRefunded] of results.entries()) {
      t.equal((await under.books.find(keyOf(`k${i}`)))?.state, isRefunded ? 'refunded' : 'settled')
      t.equal((await under.purchases.ledger(sold[i]!.purchase.id)).length, isRefunded ? 8 : 4)
    }
  })

  t.test('a transaction that paid for a purchase, its own or another, is no refund', async (t) => {
    const under = await make(t)
    const sale = await sell(under, 'k1', '0xAbCd')
    await sell(under, 'k2', '0xcc')
    for (const transaction of ['0xAbCd', '0xabcd', '0xcc', '0xCC']) {
      t.equal(await refund(under, sale, transaction), false, transaction)
    }
    t.match(await under.books.find(sale.claim.key), { state: 'settled' })
    t.equal((await under.purchases.ledger(sale.purchase.id)).length, 4)
    t.equal(await refund(under, sale, '0xdd'), true)
  })

  t.test('nor is one that is a payment which this store knows, however far that has come', async (t) => {
    const under = await make(t)
    const sale = await sell(under, 'k1', '0xaa')
    const other = sampleClaim('k2')
    const row = await claimed(under, other)
    t.equal(await refund(under, sale, '0xbb', [keyOf('unknown'), other.key]), false, 'claimed')
    await under.books.apply(change(other, row, 'claimed', 'rejected'))
    t.equal(await refund(under, sale, '0xbb', [other.key]), false, 'it may be claimed again')
    t.equal(await refund(under, sale, '0xbb', [keyOf('unknown')]), true)
  })

  t.test('base58 signatures that differ in case are two, and networks do not mix', async (t) => {
    const under = await make(t)
    const network = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1' as const
    const one = await sell(under, 'k1', '5a1', { network })
    const two = await sell(under, 'k2', '5a2', { network })
    const three = await sell(under, 'k3', '0xa3')
    t.equal(await refund(under, one, '5bC'), true)
    t.equal(await refund(under, two, '5bC'), false)
    t.equal(await refund(under, two, '5Bc'), true)
    t.equal(await refund(under, three, '5bC'), true, 'an id says something on its own network only')
  })

  t.test(
    'what was paid back and is not where it was booked makes way there, and is a refund still',
    async (t) => {
      const under = await make(t)
      const sale = await sell(under, 'k1', '0xaa', { event: '7' })
      const { claim, row, purchase } = sale
      t.equal(await refund(under, sale, '0xbb'), true)
      await t.rejects(sell(under, 'k2', '0xaa', { event: '7' }), { code: 'CONFLICT' })
      const refunded: Purchase = { ...purchase, status: 'refunded' }
      const settled = { transaction: '0xaa', event: null, block: 1, chargedAtomic: claim.amountAtomic }
      t.ok(
        await under.books.apply(
          change(claim, row, 'refunded', 'refunded', { settled, purchase: refunded, dueInMs: null }),
        ),
      )
      await sell(under, 'k3', '0xaa', { event: '7' })
      t.match(await under.books.find(claim.key), { state: 'refunded', transaction: '0xaa', event: null })
      t.strictSame(await under.purchases.find(purchase.id), refunded)
      t.match(await under.books.refundOf(row), { transaction: '0xbb' })
      t.match(await checkedLedger(under.purchases), {
        ...{ purchases: 2, chargedPayments: 2, broken: { length: 0 }, unbalanced: { length: 0 } },
      })
    },
  )

  t.test('a payment without a purchase is paid back, too', async (t) => {
    const under = await make(t)
    const claim = sampleClaim('k1')
    const row = await claimed(under, claim)
    const { network } = claim
    t.ok(
      await under.books.apply(
        change(claim, row, 'claimed', 'refunded', {
          refund: { network, transaction: '0xbb', paymentKeys: [] },
          purchaseStatus: 'refunded',
        }),
      ),
    )
    t.match(await under.books.refundOf(row), { transaction: '0xbb' })
    t.equal(await under.purchases.refundOf(claim.purchaseId), undefined)
  })
}

const refund = (
  { books }: BooksUnderTest,
  { claim, row, purchase }: Sale,
  transaction: string,
  paymentKeys: string[] = [],
) =>
  books.apply(
    change(claim, row, ['settled', 'delivered', 'refund_due'], 'refunded', {
      purchaseStatus: 'refunded',
      entries: entriesOfRefund(purchase),
      refund: { network: purchase.network, transaction, paymentKeys },
      durability: 'flushed',
    }),
  )

import fc from 'fast-check'
import type { Test } from 'tap'
import { entriesOfLostRefund, entriesOfRefund, entriesOfSale } from '../../core/domain/ledger.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import { checkedLedger } from '../helpers/checkedLedger.ts'
import { change, claimed, keyOf, type LedgerUnderTest, type Sale, sampleClaim, sell } from './samples.ts'

/** What every implementation of the ports Books and Purchases keeps of transfers back. */
export function refundsContract(t: Test, make: (t: Test) => Promise<LedgerUnderTest>): void {
  t.test('a refund moves payment, purchase and ledger in one commit, and says by what', async (t) => {
    const under = await make(t)
    const sale = await sell(under, 'k1', '0xaa')
    const { purchase, row, claim } = sale
    t.equal(await under.ledger.refundOf(row), undefined)
    t.equal(await under.purchases.refundOf(purchase.id), undefined)
    under.clock.nowMs += 5_000
    t.equal(await refund(under, sale, '0xBB'), true)
    t.match(await under.ledger.find(claim.key), { state: 'refunded', updatedAtMs: under.clock.nowMs })
    t.strictSame(await under.purchases.find(purchase.id), { ...purchase, status: 'refunded' })
    const facts = {
      network: purchase.network,
      transaction: '0xbb',
      refundedAtMs: under.clock.nowMs,
    }
    t.strictSame(await under.ledger.refundOf(row), facts)
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
    t.equal(await under.ledger.apply(change(claim, row, 'settled', 'refund_due', owed)), true)
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
      t.equal((await under.ledger.find(keyOf(`k${i}`)))?.state, isRefunded ? 'refunded' : 'settled')
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
    t.match(await under.ledger.find(sale.claim.key), { state: 'settled' })
    t.equal((await under.purchases.ledger(sale.purchase.id)).length, 4)
    t.equal(await refund(under, sale, '0xdd'), true)
  })

  t.test('nor is one that is a payment that the ledger knows, however far that has come', async (t) => {
    const under = await make(t)
    const sale = await sell(under, 'k1', '0xaa')
    const other = sampleClaim('k2')
    const row = await claimed(under, other)
    t.equal(await refund(under, sale, '0xbb', [keyOf('unknown'), other.key]), false, 'claimed')
    await under.ledger.apply(change(other, row, 'claimed', 'rejected'))
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
        await under.ledger.apply(
          change(claim, row, 'refunded', 'refunded', { settled, purchase: refunded, dueInMs: null }),
        ),
      )
      await sell(under, 'k3', '0xaa', { event: '7' })
      t.match(await under.ledger.find(claim.key), { state: 'refunded', transaction: '0xaa', event: null })
      t.strictSame(await under.purchases.find(purchase.id), refunded)
      t.match(await under.ledger.refundOf(row), { transaction: '0xbb' })
      t.match(await checkedLedger(under.purchases), {
        purchases: 2,
        chargedPayments: 2,
        broken: { length: 0 },
        unbalanced: { length: 0 },
      })
    },
  )

  t.test('a refund that left the chain is kept, owed again, and replaced by exactly one', async (t) => {
    const under = await make(t)
    const sale = await sell(under, 'k1', '0xaa')
    const other = await sell(under, 'k2', '0xab')
    const { purchase, claim, row } = sale
    const { network } = purchase
    t.equal(await lose(under, sale, '0xbb'), false, 'nothing has refunded it')
    const refundedAtMs = under.clock.nowMs
    t.equal(await refund(under, sale, '0xbb'), true)
    t.equal(await lose(under, sale, '0xbc'), false, 'another one has')
    under.clock.nowMs += 5_000
    const both = await Promise.all([lose(under, sale, '0xBB'), lose(under, sale, '0xbb')])
    t.strictSame(both.toSorted(), [false, true])
    t.match(await under.ledger.find(claim.key), { state: 'refund_due' })
    t.equal(await under.purchases.refundOf(purchase.id), undefined)
    const lost = { purchaseId: purchase.id, network, transaction: '0xbb', refundedAtMs }
    t.strictSame(await under.purchases.lostRefundsOf(purchase.id), [{ ...lost, lostAtMs: under.clock.nowMs }])
    t.strictSame(await under.purchases.lostRefundsOf(other.purchase.id), [])
    t.strictSame(await under.purchases.ledger(purchase.id), [
      ...entriesOfSale(purchase),
      ...entriesOfRefund(purchase),
      ...entriesOfLostRefund(purchase),
    ])
    t.match(await checkedLedger(under.purchases), {
      purchases: 2,
      refundDue: 1,
      broken: { length: 0 },
      unbalanced: { length: 0 },
    })
    t.equal(await refund(under, other, '0xbb'), false, 'it refunds no other purchase')
    const paysFor = sampleClaim('k3')
    const paid = await claimed(under, paysFor)
    const noRefund = { noRefund: { network, transaction: '0xBB' } }
    t.equal(
      await under.ledger.apply(change(paysFor, paid, 'claimed', 'rejected', noRefund)),
      false,
      'it pays for nothing',
    )
    const rivals = await Promise.all(['0xbb', '0xbd', '0xbe'].map((tx) => refund(under, sale, tx)))
    t.equal(rivals.filter(Boolean).length, 1)
    const standing = (await under.ledger.refundOf(row))!.transaction
    t.strictSame(
      (await under.purchases.lostRefundsOf(purchase.id)).map(({ transaction }) => transaction),
      standing === '0xbb' ? [] : ['0xbb'],
      'one that was recorded again is not lost any more',
    )
    t.match(await checkedLedger(under.purchases), {
      refundDue: 0,
      broken: { length: 0 },
      unbalanced: { length: 0 },
    })
  })

  t.test(
    'refunds leave the chain and are replaced in any order, and the ledger has the current state',
    async (t) => {
      const step = fc.record({
        sale: fc.nat(1),
        transaction: fc.constantFrom('0xb1', '0xb2', '0xb3'),
        isLost: fc.boolean(),
      })
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 16 }), async (steps) => {
          const under = await make(t)
          const sales = [await sell(under, 'k1', '0xaa'), await sell(under, 'k2', '0xab')]
          const standing: (string | undefined)[] = []
          const lost: string[][] = [[], []]
          const lines = [4, 4]
          for (const { sale: i, transaction, isLost } of steps) {
            under.clock.nowMs += 20 * 86_400_000
            const isTaken = standing.includes(transaction) || lost[1 - i]!.includes(transaction)
            const may = isLost ? standing[i] === transaction : standing[i] === undefined && !isTaken
            const done = await (isLost ? lose : refund)(under, sales[i]!, transaction)
            t.equal(done, may)
            if (!done) continue
            lines[i]! += 4
            standing[i] = isLost ? undefined : transaction
            lost[i] = lost[i]!.filter((one) => one !== transaction)
            if (isLost) lost[i]!.push(transaction)
          }
          for (const [i, { purchase, row }] of sales.entries()) {
            t.equal((await under.ledger.refundOf(row))?.transaction, standing[i])
            const kept = await under.purchases.lostRefundsOf(purchase.id)
            t.strictSame(
              kept.map(({ transaction }) => transaction),
              lost[i],
            )
            t.equal((await under.purchases.ledger(purchase.id)).length, lines[i])
          }
          t.match(await checkedLedger(under.purchases), { broken: { length: 0 }, unbalanced: { length: 0 } })
        }),
        { numRuns: 5 },
      )
    },
  )

  t.test('a payment without a purchase is paid back, too', async (t) => {
    const under = await make(t)
    const claim = sampleClaim('k1')
    const row = await claimed(under, claim)
    const { network } = claim
    t.ok(
      await under.ledger.apply(
        change(claim, row, 'claimed', 'refunded', {
          refund: { network, transaction: '0xbb', paymentKeys: [] },
          purchaseStatus: 'refunded',
        }),
      ),
    )
    t.match(await under.ledger.refundOf(row), { transaction: '0xbb' })
    t.equal(await under.purchases.refundOf(claim.purchaseId), undefined)
  })
}

const refund = (
  { ledger }: LedgerUnderTest,
  { claim, row, purchase }: Sale,
  transaction: string,
  paymentKeys: string[] = [],
) =>
  ledger.apply(
    change(claim, row, ['settled', 'delivered', 'refund_due'], 'refunded', {
      purchaseStatus: 'refunded',
      entries: entriesOfRefund(purchase),
      refund: { network: purchase.network, transaction, paymentKeys },
      durability: 'flushed',
    }),
  )

const lose = ({ ledger }: LedgerUnderTest, { claim, row, purchase }: Sale, transaction: string) =>
  ledger.apply(
    change(claim, row, 'refunded', 'refund_due', {
      purchaseStatus: 'refund_due',
      entries: entriesOfLostRefund(purchase),
      lostRefund: { network: purchase.network, transaction },
      durability: 'flushed',
    }),
  )

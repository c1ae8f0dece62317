import type { Test } from 'tap'
import { entriesOfRefund, entriesOfSale } from '../../../core/domain/ledger.ts'
import { checkedLedger } from '../../helpers/checkedLedger.ts'
import {
  change,
  claimed,
  keyOf,
  type LedgerUnderTest,
  saleOf,
  sampleClaim,
  samplePurchase,
  sell,
  startMs,
} from '../samples.ts'

/** What every implementation of the port Books keeps when a payment becomes a purchase, and stops being one. */
export function bookSalesContract(t: Test, make: (t: Test) => Promise<LedgerUnderTest>): void {
  t.test(
    'of many that apply the same change one does, and purchase and ledger are booked once',
    async (t) => {
      const under = await make(t)
      const claim = sampleClaim('k1')
      const purchase = samplePurchase(claim, '0xaa')
      const row = await claimed(under, claim)
      const settle = change(claim, row, ['settling', 'claimed'], 'settled', saleOf(purchase))
      const results = await Promise.all(Array.from({ length: 10 }, () => under.ledger.apply(settle)))
      t.strictSame(results.toSorted(), [...Array(9).fill(false), true])
      t.strictSame(await under.purchases.find(purchase.id), purchase)
      t.strictSame(await under.purchases.ledger(purchase.id), entriesOfSale(purchase))
      t.match(await under.ledger.find(claim.key), {
        state: 'settled',
        transaction: '0xaa',
        event: '0',
        block: 12,
      })
      t.match(await checkedLedger(under.purchases), {
        ...{
          purchases: 1,
          chargedPayments: 1,
          unresolvedPayments: 0,
          refundDue: 0,
          broken: { length: 0 },
          unbalanced: { length: 0 },
        },
        transactions: [{ network: claim.network, transaction: '0xaa', purchaseId: purchase.id }],
      })
    },
  )

  t.test('several payments of one transaction are booked, each by its own event', async (t) => {
    const under = await make(t)
    for (let i = 0; i < 5; i++) await sell(under, `k${i}`, i % 2 === 0 ? '0xAA' : '0xaa', { event: `${i}` })
    t.match(await checkedLedger(under.purchases), {
      purchases: 5,
      broken: { length: 0 },
      unbalanced: { length: 0 },
    })
  })

  t.test(
    'one event pays for one purchase: its second use is refused by name and changes nothing',
    async (t) => {
      const under = await make(t)
      await sell(under, 'k1', '0xAbCd', { event: '4' })
      const claim = sampleClaim('k2')
      const row = await claimed(under, claim)
      const twin = change(claim, row, 'claimed', 'settled', saleOf(samplePurchase(claim, '0xabcd'), '4'))
      const refusal = { code: 'CONFLICT', message: /0xabcd on eip155:84532.*purchase-of-k2/ }
      await t.rejects(under.ledger.apply(twin), refusal)
      const [error, isOther] = await under.ledger.applyAll([
        twin,
        change(claim, row, 'claimed', 'claimed', { errorReason: 'kept' }),
      ])
      t.match(error, refusal)
      t.equal(isOther, true)
      t.match(await under.ledger.find(claim.key), {
        state: 'claimed',
        transaction: null,
        errorReason: 'kept',
      })
      t.equal(await under.purchases.find(claim.purchaseId), undefined)
      t.strictSame(await under.purchases.ledger(claim.purchaseId), [])
      await t.rejects(
        under.ledger.apply(
          change(
            claim,
            row,
            'claimed',
            'settled',
            saleOf(samplePurchase(claim, '0xee', { id: 'purchase-of-k1' })),
          ),
        ),
        { code: 'CONFLICT' },
        "another payment's purchase id",
      )
    },
  )

  t.test('payments without a transaction of their own do not meet', async (t) => {
    const under = await make(t)
    for (const name of ['k1', 'k2']) {
      const claim = sampleClaim(name)
      const row = await claimed(under, claim)
      const purchase = { ...samplePurchase(claim, ''), txHash: null }
      t.ok(await under.ledger.apply(change(claim, row, 'claimed', 'settled', saleOf(purchase, null!))))
      t.strictSame(await under.purchases.find(purchase.id), purchase)
    }
    t.match(await checkedLedger(under.purchases), {
      purchases: 2,
      transactions: { length: 0 },
      broken: { length: 0 },
    })
  })

  t.test('base58 transactions that differ in case are two', async (t) => {
    const under = await make(t)
    const network = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1' as const
    await sell(under, 'k1', '5abC', { network })
    await sell(under, 'k2', '5ABc', { network })
    t.match(await checkedLedger(under.purchases), { purchases: 2 })
  })

  t.test('a write that breaks a rule leaves the writes beside it standing', async (t) => {
    const under = await make(t)
    await sell(under, 'k1', '0xaa')
    const [second, third] = [sampleClaim('k2'), sampleClaim('k3')]
    const rows = [await claimed(under, second), await claimed(under, third)] as const
    const settle = (claim: typeof second, row: number, tx: string) =>
      under.ledger.apply(change(claim, row, 'claimed', 'settled', saleOf(samplePurchase(claim, tx))))
    const results = await Promise.allSettled([
      under.ledger.claim(sampleClaim('before')),
      settle(second, rows[0], '0xaa'),
      settle(third, rows[1], '0xbb'),
      under.ledger.claim(sampleClaim('after')),
    ])
    t.strictSame(
      results.map((r) => r.status),
      ['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
    )
    for (const name of ['before', 'after']) t.ok(await under.ledger.find(keyOf(name)))
    t.match(await under.ledger.find(second.key), { state: 'claimed' })
    t.equal((await under.purchases.ledger(third.purchaseId)).length, 4, 'booked once')
    t.match(await checkedLedger(under.purchases), {
      purchases: 2,
      broken: { length: 0 },
      unbalanced: { length: 0 },
    })
  })

  t.test('a transfer that leaves the chain and comes back is still one purchase', async (t) => {
    const under = await make(t)
    const { claim, row, purchase } = await sell(under, 'k1', '0xaa')
    const gone = { purchaseStatus: 'reorged', entries: entriesOfRefund(purchase) } as const
    t.ok(await under.ledger.apply(change(claim, row, 'settled', 'reorged', gone)))
    t.match(await under.purchases.find(purchase.id), { status: 'reorged' })
    t.match(await checkedLedger(under.purchases), {
      purchases: 0,
      transactions: { length: 0 },
      broken: { length: 0 },
      unbalanced: { length: 0 },
    })
    const back = samplePurchase(claim, '0xbb', { createdAtMs: startMs + 9_000, reviewTokenHash: 'new' })
    t.ok(await under.ledger.apply(change(claim, row, 'reorged', 'settled', saleOf(back, '7'))))
    t.strictSame(await under.purchases.find(purchase.id), { ...purchase, txHash: '0xbb' })
    t.equal((await under.purchases.page('store-1', { limit: 10 })).purchases.length, 1)
    t.equal((await under.purchases.ledger(purchase.id)).length, 12)
    t.match(await checkedLedger(under.purchases), {
      purchases: 1,
      broken: { length: 0 },
      unbalanced: { length: 0 },
    })
    await sell(under, 'k2', '0xaa')
    await t.rejects(
      sell(under, 'k3', '0xbb', { event: '7' }),
      { code: 'CONFLICT' },
      'it pays by its new event',
    )
  })
}

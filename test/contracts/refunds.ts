import type { Test } from 'tap'
import { entriesOfRefund, entriesOfSale } from '../../core/domain/ledger.ts'
import { type PaymentsUnderTest, sampleClaim, samplePurchase } from './samples.ts'

/** What every implementation of the ports Payments and Purchases keeps of refunds. */
export function refundsContract(t: Test, make: (t: Test) => Promise<PaymentsUnderTest>): void {
  t.test('a refund moves payment, purchase and ledger in one step, and says by what', async (t) => {
    for (const from of ['settled', 'delivered', 'refund_due'] as const) {
      const under = await make(t)
      const purchase = await sell(under, 'k1', '0xaa')
      if (from !== 'settled') t.ok(await under.payments.moveCharged('k1', 'settled', from, []))
      t.equal(await under.purchases.refundOf(purchase.id), undefined)
      under.clock.nowMs += 5_000
      t.equal(await refund(under, purchase, '0xBB'), 'refunded', from)
      t.match(await under.payments.find('k1'), { state: 'refunded', updatedAtMs: under.clock.nowMs })
      t.strictSame(await under.purchases.find(purchase.id), { ...purchase, status: 'refunded' })
      t.strictSame(await under.purchases.refundOf(purchase.id), {
        purchaseId: purchase.id,
        network: purchase.network,
        transaction: '0xbb',
        refundedAtMs: under.clock.nowMs,
      })
      t.strictSame(await under.purchases.ledger(purchase.id), [
        ...entriesOfSale(purchase),
        ...entriesOfRefund(purchase),
      ])
      t.match(await under.purchases.ledgerCheck(), {
        ...{ purchases: 1, chargedPayments: 1, refundDue: 0, broken: [], unbalanced: [] },
        transactions: [{ transaction: '0xaa' }],
      })
    }
  })

  t.test('the same refund reported again, at once or later, is booked once', async (t) => {
    const under = await make(t)
    const purchase = await sell(under, 'k1', '0xaa')
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, i) => refund(under, purchase, i % 2 === 0 ? '0xbb' : '0xBB')),
    )
    under.clock.nowMs += 1_000
    results.push(await refund(under, purchase, '0xbb'))
    t.strictSame(new Set(results), new Set(['refunded']))
    t.equal((await under.purchases.ledger(purchase.id)).length, 8)
    t.equal((await under.purchases.refundOf(purchase.id))?.refundedAtMs, under.clock.nowMs - 1_000)
  })

  t.test('of many transactions for one purchase one pays it back', async (t) => {
    const under = await make(t)
    const purchase = await sell(under, 'k1', '0xaa')
    const results = await Promise.all(
      Array.from({ length: 10 }, (_, i) => refund(under, purchase, `0xb${i}`)),
    )
    t.equal(results.filter((r) => r === 'refunded').length, 1)
    t.equal(results.filter((r) => r === 'refunded_otherwise').length, 9)
    t.equal((await under.purchases.ledger(purchase.id)).length, 8)
    t.match(await under.purchases.ledgerCheck(), { broken: [], unbalanced: [] })
  })

  t.test('one transaction pays one purchase back, however many ask at once', async (t) => {
    const under = await make(t)
    const sold = await Promise.all(Array.from({ length: 10 }, (_, i) => sell(under, `k${i}`, `0xa${i}`)))
    const results = await Promise.all(
      sold.map((purchase, i) => refund(under, purchase, i % 2 === 0 ? '0xbb' : '0xBB')),
    )
    t.equal(results.filter((r) => r === 'refunded').length, 1)
    t.equal(results.filter((r) => r === 'transaction_used').length, 9)
    t.match(await under.purchases.ledgerCheck(), { purchases: 10, broken: [], unbalanced: [] })
    for (const [i, result] of results.entries()) {
      const isRefunded = result === 'refunded'
      t.equal((await under.payments.find(`k${i}`))?.state, isRefunded ? 'refunded' : 'settled')
      t.equal((await under.purchases.ledger(sold[i]!.id)).length, isRefunded ? 8 : 4)
    }
  })

  t.test('a transaction that paid for a purchase, its own or another, is no refund', async (t) => {
    const under = await make(t)
    const purchase = await sell(under, 'k1', '0xAbCd')
    await sell(under, 'k2', '0xcc')
    for (const transaction of ['0xAbCd', '0xabcd', '0xcc', '0xCC']) {
      t.equal(await refund(under, purchase, transaction), 'transaction_used', transaction)
    }
    t.match(await under.payments.find('k1'), { state: 'settled' })
    t.equal(await refund(under, purchase, '0xdd'), 'refunded')
  })

  t.test('nor is one that is a payment which this store knows, however far that has come', async (t) => {
    const under = await make(t)
    const purchase = await sell(under, 'k1', '0xaa')
    const other = sampleClaim('k2')
    await under.payments.claim(other)
    t.equal(await refund(under, purchase, '0xbb', ['unknown', 'k2']), 'transaction_used', 'claimed')
    await under.payments.advance('k2', other.owner, 'claimed', 'rejected', 'abandoned')
    t.equal(await refund(under, purchase, '0xbb', ['k2']), 'transaction_used', 'it may be claimed again')
    t.equal(await refund(under, purchase, '0xbb', ['unknown']), 'refunded')
  })

  t.test('base58 signatures that differ in case are two, and networks do not mix', async (t) => {
    const under = await make(t)
    const network = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1' as const
    const [one, two, three] = [
      await sell(under, 'k1', '5a1', { network }),
      await sell(under, 'k2', '5a2', { network }),
      await sell(under, 'k3', '0xa3'),
    ]
    t.equal(await refund(under, one!, '5bC'), 'refunded')
    t.equal(await refund(under, two!, '5bC'), 'transaction_used')
    t.equal(await refund(under, two!, '5Bc'), 'refunded')
    t.equal(await refund(under, three!, '5bC'), 'refunded', 'an id says something on its own network only')
  })

  t.test('what was not charged, or has left the chain, can not be paid back', async (t) => {
    const under = await make(t)
    const purchase = await sell(under, 'k1', '0xaa')
    await under.payments.moveCharged('k1', 'settled', 'reorged', entriesOfRefund(purchase))
    t.equal(await refund(under, purchase, '0xbb'), 'not_refundable')
    t.match(await under.purchases.find(purchase.id), { status: 'reorged' })
    const claim = sampleClaim('k2')
    await under.payments.claim(claim)
    t.equal(await refund(under, samplePurchase(claim, '0xcc'), '0xbb'), 'not_refundable')
    const nobody = samplePurchase(sampleClaim('k3'), '0xdd')
    t.equal(await refund(under, nobody, '0xbb'), 'not_refundable')
    t.match(await under.purchases.ledgerCheck(), { broken: [], unbalanced: [] })
  })

  t.test('a payment that landed late is paid back without a purchase', async (t) => {
    const under = await make(t)
    const claim = sampleClaim('k1')
    await under.payments.claim(claim)
    await under.payments.beginSettlement('k1', claim.owner, attempt('0xaa'), null)
    await under.payments.advance('k1', claim.owner, 'settling', 'failed_final', 'expired')
    await under.payments.moveCharged('k1', 'failed_final', 'refund_due', [], 'landed_late')
    t.equal(await under.payments.recordRefund('k1', { transaction: '0xbb', paymentKeys: [] }, []), 'refunded')
    t.match(await under.payments.find('k1'), { state: 'refunded', errorReason: 'landed_late' })
    t.match(await under.purchases.ledgerCheck(), { refundDue: 0, broken: [], unbalanced: [] })
  })

  t.test('entries that do not cancel out are refused before anything is written', async (t) => {
    const under = await make(t)
    const purchase = await sell(under, 'k1', '0xaa')
    const [one] = entriesOfRefund(purchase)
    await t.rejects(
      under.payments.recordRefund('k1', { transaction: '0xbb', paymentKeys: [] }, [one!]),
      /add up to zero/,
    )
    t.match(await under.payments.find('k1'), { state: 'settled' })
    t.equal(await under.purchases.refundOf(purchase.id), undefined)
  })
}

const attempt = (transaction: string) => ({ settler: 'evm', bytes: '0x1', transaction, sequence: null })

async function sell({ payments }: PaymentsUnderTest, key: string, txHash: string, more: object = {}) {
  const claim = sampleClaim(key, more)
  const purchase = samplePurchase(claim, txHash)
  await payments.claim(claim)
  await payments.beginSettlement(key, claim.owner, attempt(txHash), null)
  await payments.settle(key, claim.owner, txHash, purchase, entriesOfSale(purchase))
  return purchase
}

const refund = (
  { payments }: PaymentsUnderTest,
  purchase: ReturnType<typeof samplePurchase>,
  transaction: string,
  paymentKeys: string[] = [],
) => payments.recordRefund(purchase.paymentKey, { transaction, paymentKeys }, entriesOfRefund(purchase))

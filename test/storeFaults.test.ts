import t from 'tap'
import { startPaid, stateOf } from './helpers/paid.ts'
import { until } from './helpers/rawHttp.ts'
import { recoveryOf } from './helpers/recovery.ts'
import { startSeller } from './helpers/sellers.ts'

t.test('an answer that is charged and cannot be recorded at once is not lost', async (t) => {
  let isDown = true
  const { settler, gateway, call } = await startPaid(t, {
    adaptLedger: (ledger) => ({
      ...ledger,
      apply: (change) =>
        isDown && change.purchase !== undefined
          ? Promise.reject(new Error('disk full'))
          : ledger.apply(change),
    }),
  })
  const seller = await startSeller(t, 'hello')
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const first = await call(link.url)
  t.match(first, { status: 503, body: { error: { code: 'settlement_pending' }, purchaseId: String } })
  t.equal(settler.transfers.length, 1)
  isDown = false
  await recoveryOf(gateway).round()
  t.match(await call(link.url), {
    status: 200,
    body: { data: { hello: 'world' }, _svc: { purchaseId: first.body.purchaseId! } },
  })
  t.equal(seller.requests.length, 1)
  t.match(await gateway.store.purchases.ledgerCheck(), {
    purchases: 1,
    broken: { length: 0 },
    unbalanced: { length: 0 },
  })
})

/** Every write of a paid call, by the state that it leads to. */
const steps = ['claimed', 'settling', 'settled', 'delivered'] as const
for (const step of steps) {
  for (const when of ['before', 'after'] as const) {
    t.test(`a store that dies ${when} ${step} leaves nothing charged without a record`, async (t) => {
      let failures = 1
      const { settler, gateway, call } = await startPaid(t, {
        adaptLedger(ledger) {
          const write = async <T>(to: string, real: () => Promise<T>): Promise<T> => {
            const fails = to === step && failures-- > 0
            if (fails && when === 'before') throw new Error('the store is away')
            const result = await real()
            if (fails) throw new Error('the store went away')
            return result
          }
          return {
            ...ledger,
            claim: (request) => write('claimed', () => ledger.claim(request)),
            apply: (change) => write(change.to, () => ledger.apply(change)),
          }
        },
      })
      const seller = await startSeller(t, 'hello')
      const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
      settler.sendsAgain = true
      const recovery = recoveryOf(gateway)
      let response = await call(link.url)
      for (let i = 0; i < 20 && response.status !== 200; i++) {
        t.ok(response.status === 500 || response.status === 503, `answered ${response.status}`)
        await recovery.round()
        response = await call(link.url)
      }
      t.equal(response.status, 200, 'in the end the same payment buys the call')
      t.equal(settler.transfers.length, 1, 'one transfer')
      const check = await gateway.store.purchases.ledgerCheck()
      t.match(check, { purchases: 1, broken: { length: 0 }, unbalanced: { length: 0 } })
      await until(async () => ['settled', 'delivered'].includes((await stateOf(gateway))!))
    })
  }
}

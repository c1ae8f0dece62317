import t from 'tap'
import { reconcilerOf, startPaid, stateOf } from './helpers/paid.ts'
import { until } from './helpers/rawHttp.ts'
import { startSeller } from './helpers/sellers.ts'

t.test('an answer that is charged and can not be recorded at once is not lost', async (t) => {
  let isDown = true
  const { settler, gateway, call } = await startPaid(t, {
    adapt: (ports) => ({
      ...ports,
      payments: {
        ...ports.payments,
        settle: (...args) =>
          isDown ? Promise.reject(new Error('disk full')) : ports.payments.settle(...args),
      },
    }),
  })
  const seller = await startSeller(t, 'hello')
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const first = await call(link.url)
  t.match(first, { status: 503, body: { error: { code: 'settlement_pending' }, purchaseId: String } })
  t.equal(settler.transfers.length, 1)
  isDown = false
  await reconcilerOf(gateway).round()
  t.match(await call(link.url), {
    status: 200,
    body: { data: { hello: 'world' }, _svc: { purchaseId: first.body.purchaseId! } },
  })
  t.equal(seller.requests.length, 1)
  t.match(await gateway.store.purchases.ledgerCheck(), { purchases: 1, broken: [], unbalanced: [] })
})

const steps = ['claim', 'beginSettlement', 'settle', 'moveCharged'] as const
for (const step of steps) {
  for (const when of ['before', 'after'] as const) {
    t.test(`a store that dies ${when} ${step} leaves nothing charged without a record`, async (t) => {
      let failures = 1
      const { settler, gateway, call } = await startPaid(t, {
        adapt: (ports) => {
          const real = ports.payments[step].bind(ports.payments) as (...args: unknown[]) => Promise<unknown>
          const failing = async (...args: unknown[]) => {
            const fails = failures-- > 0
            if (fails && when === 'before') throw new Error('the store is away')
            const result = await real(...args)
            if (fails) throw new Error('the store went away')
            return result
          }
          return { ...ports, payments: { ...ports.payments, [step]: failing } }
        },
      })
      const seller = await startSeller(t, 'hello')
      const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
      settler.sendsAgain = true
      const reconciler = reconcilerOf(gateway)
      let answer = await call(link.url)
      for (let i = 0; i < 20 && answer.status !== 200; i++) {
        t.ok(answer.status === 500 || answer.status === 503, `answered ${answer.status}`)
        await reconciler.round()
        answer = await call(link.url)
      }
      t.equal(answer.status, 200, 'in the end the same payment buys the call')
      t.equal(settler.transfers.length, 1, 'one transfer')
      const check = await gateway.store.purchases.ledgerCheck()
      t.match(check, { purchases: 1, broken: [], unbalanced: [] })
      await until(async () => ['settled', 'delivered'].includes((await stateOf(gateway))!))
    })
  }
}

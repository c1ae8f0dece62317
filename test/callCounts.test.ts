import t from 'tap'
import { callAndGo, startPaid } from './helpers/paid.ts'
import { startSeller } from './helpers/sellers.ts'
import { scriptedPayment } from './helpers/settler.ts'

t.test('each call of a link is counted once, by what became of it', async (t) => {
  const { settler, gateway, call } = await startPaid(t)
  const [good, bad, refusing, asking] = await Promise.all([
    startSeller(t, 'hello'),
    startSeller(t, 'status-500'),
    startSeller(t, 'status-404'),
    startSeller(t, 'status-402'),
  ])
  const add = async (slug: string, url: string, price: string) =>
    (await gateway.addLink({ slug, url, price })).url
  const [paid, free] = [await add('paid', good.url, '0.10'), await add('free', good.url, '0')]
  const [broken, picky] = [await add('broken', bad.url, '0.10'), await add('picky', refusing.url, '0.10')]
  const own402 = await add('own-402', asking.url, '0')
  const none = {
    ...{ asked: 0, paid: 0, answered: 0, repeated: 0, pending: 0 },
    ...{ refused: 0, failed: 0, free: 0, left: 0, underWay: 0 },
  }
  const paying = (nonce: string) => ({ headers: { 'payment-signature': scriptedPayment(nonce, '100000') } })
  t.strictSame(gateway.gateway.calls.counts(), none)
  for (let i = 0; i < 3; i++) await (await fetch(paid)).text()
  for (let i = 0; i < 2; i++) await (await fetch(free)).text()
  for (let i = 0; i < 2; i++) t.equal((await call(paid, paying('a'))).status, 200)
  t.equal((await call(broken, paying('b'))).status, 502)
  t.equal((await call(picky, paying('c'))).status, 404)
  t.equal((await fetch(own402)).status, 402, 'a free link’s seller asks for something; the gateway does not')
  settler.settle = async () => ({ status: 'pending', transaction: '0x1', reason: 'test' })
  t.equal((await call(paid, paying('d'))).status, 503)
  t.strictSame(gateway.gateway.calls.counts(), {
    ...none,
    ...{ asked: 3, free: 2, paid: 1, answered: 1, repeated: 1, failed: 1, refused: 2, pending: 1 },
  })
})

t.test('what was charged and not answered is seen as that', async (t) => {
  const { gateway, call } = await startPaid(t)
  const seller = await startSeller(t, 'status-500')
  const { url } = await gateway.addLink({ slug: 'first', url: seller.url, price: '0.10', settle: 'before' })
  t.equal((await call(url)).status, 502)
  t.match(gateway.gateway.calls.counts(), { paid: 1, answered: 0, failed: 0 })
})

for (const [price, counted] of [
  ['0', { left: 1, failed: 0, paid: 0 }],
  ['0.10', { left: 0, failed: 0, paid: 1, answered: 0 }],
] as const) {
  t.test(
    `whose caller goes while the seller works has not failed, and is paid where its seller has worked, at ${price}`,
    async (t) => {
      const paid = await startPaid(t, {
        plugins: [{ use: 'x402' }, { use: 'replay-guard' }, { use: 'upstream' }, { use: 'purchase-record' }],
      })
      await callAndGo(t, paid, price)
      t.match(paid.gateway.gateway.calls.counts(), counted)
    },
  )
}

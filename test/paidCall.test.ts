import t from 'tap'
import { startGateway } from './helpers/gateway.ts'
import { startSeller } from './helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'

t.test('a free call reaches the seller and comes back as it is', async (t) => {
  const seller = await startSeller(t, 'mirror')
  const { addLink } = await startGateway(t)
  const link = await addLink({ slug: 'free', url: `${seller.url}/base?k=1` })
  const response = await fetch(`${link.url}/below/it?q=2`, { method: 'POST', body: 'hello' })
  t.equal(response.status, 200)
  const body = await response.json()
  t.match(body, { method: 'POST', target: '/base/below/it?k=1&q=2', body: 'hello' })
})

t.test(
  'a paid call without a payment gets the same offer in header and body, and the seller is not called',
  async (t) => {
    const seller = await startSeller(t, 'hello')
    const { addLink } = await startGateway(t, { settlers: [createScriptedSettler()] })
    const link = await addLink({ slug: 'paid', url: seller.url, price: '0.10' })
    const response = await fetch(link.url)
    t.equal(response.status, 402)
    const body = (await response.json()) as { accepts: { amount: string }[] }
    const header = JSON.parse(Buffer.from(response.headers.get('payment-required')!, 'base64').toString())
    t.strictSame(body, header)
    t.equal(body.accepts[0]?.amount, '100000')
    t.equal(seller.requests.length, 0)
  },
)

t.test('a payment buys one call, however often it is presented', async (t) => {
  const seller = await startSeller(t, 'hello')
  const settler = createScriptedSettler()
  const { addLink, store } = await startGateway(t, { settlers: [settler] })
  const link = await addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const other = await addLink({ slug: 'other', url: seller.url, price: '0.10' })
  const headers = { 'payment-signature': scriptedPayment('n1', '100000') }
  const responses = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const response = await fetch(link.url, { headers })
      return { status: response.status, body: await response.text() }
    }),
  )
  t.equal(seller.requests.length, 1, 'the seller worked once')
  t.equal(settler.transfers.length, 1, 'one transfer')
  t.ok(
    responses.every((a) => a.status === 200 && a.body === responses[0]!.body),
    'everybody who asked gets that one answer',
  )
  t.match(JSON.parse(responses[0]!.body), {
    data: { hello: 'world' },
    _svc: { purchaseId: String, reviewToken: String },
  })

  const again = await fetch(link.url, { headers })
  t.equal(await again.text(), responses[0]!.body, 'later too')
  const elsewhere = await fetch(other.url, { headers })
  t.equal(elsewhere.status, 409)
  t.match(await elsewhere.json(), { error: { code: 'payment_already_used' } })
  t.equal(seller.requests.length, 1)
  const check = await store.purchases.ledgerCheck()
  t.match(check, { purchases: 1, broken: { length: 0 }, unbalanced: { length: 0 } })
})

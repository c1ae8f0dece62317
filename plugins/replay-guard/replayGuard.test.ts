import t from 'tap'
import { startGateway } from '../../test/helpers/gateway.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { sellerOf } from '../../test/helpers/sellerOf.ts'
import { startSeller } from '../../test/helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from '../../test/helpers/settler.ts'

const plugins = (options: object) => [
  { use: 'x402' },
  { use: 'replay-guard', with: options },
  { use: 'upstream' },
  { use: 'purchase-record' },
]
const pay = (nonce: string) => ({ headers: { 'payment-signature': scriptedPayment(nonce, '100000') } })

t.test('a repeat that waits longer than it may is told to come back, not to pay again', async (t) => {
  const mayGoOn = Promise.withResolvers<void>()
  const seller = await sellerOf(t, async (_req, res) => {
    await mayGoOn.promise
    res.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
  const gateway = await startGateway(t, {
    settlers: [createScriptedSettler()],
    plugins: plugins({ joinTimeoutMs: 50 }),
  })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const first = fetch(link.url, pay('n'))
  await until(() => seller.calls === 1)
  const second = await fetch(link.url, pay('n'))
  t.equal(second.status, 503)
  t.ok(second.headers.get('retry-after'))
  t.match(await second.json(), {
    error: { code: 'settlement_pending', message: /do not pay again/ },
    purchaseId: String,
  })
  mayGoOn.resolve()
  const text = await (await first).text()
  t.equal(await (await fetch(link.url, pay('n'))).text(), text)
  t.equal(seller.calls, 1)
})

t.test('after the time for repeats a delivered answer is not given out again', async (t) => {
  const seller = await startSeller(t, 'hello')
  let ahead = 0
  const gateway = await startGateway(t, {
    settlers: [createScriptedSettler()],
    plugins: plugins({ replayWindowMs: 60_000 }),
    adapt: (ports) => ({ ...ports, clock: { now: () => Date.now() + ahead } }),
  })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  t.equal((await fetch(link.url, pay('n'))).status, 200)
  ahead = 50_000
  t.equal((await fetch(link.url, pay('n'))).status, 200)
  ahead = 70_000
  const late = await fetch(link.url, pay('n'))
  t.equal(late.status, 409)
  t.match(await late.json(), { error: { code: 'payment_already_used', reason: 'payment_already_used' } })
})

t.test('bodies are told apart up to the limit, and no further', async (t) => {
  const seller = await startSeller(t, 'echo')
  const gateway = await startGateway(t, {
    settlers: [createScriptedSettler()],
    plugins: plugins({ maxBodyBytes: 10 }),
  })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10', responseMode: 'raw' })
  const post = (nonce: string, body: string) => fetch(link.url, { ...pay(nonce), method: 'POST', body })
  t.equal((await post('short', '0123456789')).status, 200)
  t.equal((await post('short', '0123456789')).status, 200)
  t.equal((await post('long', '01234567890')).status, 200)
  t.equal((await post('long', '01234567890')).status, 409)
  t.equal(seller.requests.length, 2)
})

t.test('100 callers with one payment: one call, one transfer, and everybody has the answer', async (t) => {
  const seller = await startSeller(t, 'hello')
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, { settlers: [settler] })
  const link = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const responses = await Promise.all(
    Array.from({ length: 100 }, async () => (await fetch(link.url, pay('n'))).text()),
  )
  t.equal(new Set(responses).size, 1)
  t.equal(seller.requests.length, 1)
  t.strictSame(settler.transfers, ['n'])
})

import type { ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { notCollected } from '../core/domain/payment.ts'
import { priceRange, type UsePrice } from '../core/domain/pricing.ts'
import type { LinkCall, LinkResponse } from '../core/ports/linkCalls.ts'
import type { TestGateway } from './helpers/gateway.ts'
import { patientPlugins, reaches, receiptOf, startPaid } from './helpers/paid.ts'
import { until } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { startSeller } from './helpers/sellers.ts'
import { scriptedPayment } from './helpers/settler.ts'

/** Calls of links that come in whole and without HTTP, beside those that come over it. */
async function start(t: Test) {
  const { gateway, settler } = await startPaid(t, { plugins: patientPlugins })
  const payment = { header: scriptedPayment('n', '100000'), x402Version: 2 } as const
  const call = (target: string, more: Partial<LinkCall> = {}) =>
    gateway.gateway.linkCalls.call({
      ...{ method: 'GET', requestId: 'id-of-a-request', target, headers: [], body: null, payment: null },
      clientIp: '127.0.0.1',
      ...{ signal: new AbortController().signal, maxResponseBytes: 65_536 },
      ...more,
    })
  return { gateway, settler, payment, call }
}

const textOf = (response: LinkResponse | undefined) => response?.body.toString()
const headerOf = (response: LinkResponse, name: string) =>
  response.headers[response.headers.indexOf(name) + 1]

const post = (gateway: TestGateway, path: string, payment: string, body: string) =>
  fetch(gateway.url + path, {
    method: 'POST',
    headers: { 'payment-signature': payment, 'content-type': 'application/json' },
    body,
  })

t.test('one payment through two transports at the same moment is one call, with one answer', async (t) => {
  const seller = await startSeller(t, 'mirror')
  const { gateway, settler, payment, call } = await start(t)
  const { path } = await gateway.addLink({ slug: 'it', url: seller.url, price: '0.10' })
  const held = {
    ...{ method: 'POST', headers: ['Content-Type', 'application/json'], payment },
    body: Buffer.from('{"a":1}'),
  }
  const [first, second, third] = await Promise.all([
    call(`${path}/b?c=1`, held),
    post(gateway, `${path}/b?c=1`, payment.header, '{"a":1}').then((response) => response.text()),
    call(`${path}/b?c=1`, held),
  ])
  t.equal(first!.status, 200)
  t.equal(second, textOf(first))
  t.equal(textOf(third), textOf(first))
  t.equal(seller.requests.length, 1)
  t.match(seller.requests[0], { method: 'POST', target: '/b?c=1', body: Buffer.from('{"a":1}') })
  t.strictSame(settler.transfers, ['n'])
  t.equal((await post(gateway, `${path}/b?c=1`, payment.header, '{"a":2}')).status, 409, 'another body')
  t.equal((await call(`${path}/b?c=2`, held))!.status, 409, 'another query')
})

t.test('without a payment it is the 402 of the link, header and body', async (t) => {
  const { gateway, call } = await start(t)
  const { path, url } = await gateway.addLink({ slug: 'it', url: 'http://127.0.0.1:1', price: '0.10' })
  const answer = (await call(path))!
  const response = await fetch(url)
  t.equal(answer.status, 402)
  t.equal(textOf(answer), await response.text())
  t.equal(headerOf(answer, 'PAYMENT-REQUIRED'), response.headers.get('payment-required'))
})

t.test('a caller who hangs up while the seller works is charged, and a repeat gets the answer', async (t) => {
  const responses: ServerResponse[] = []
  const seller = await sellerOf(t, (_req, res) => void responses.push(res))
  const { gateway, settler, payment, call } = await start(t)
  const { path, url } = await gateway.addLink({ slug: 'it', url: seller.url, price: '0.10' })
  const caller = new AbortController()
  const response = call(path, { payment, signal: caller.signal })
  await until(() => responses.length === 1)
  caller.abort()
  t.equal(await response, undefined)
  t.equal(
    await call(path, { payment, signal: caller.signal }),
    undefined,
    'a call that is canceled already is not begun',
  )
  const again = fetch(url, { headers: { 'payment-signature': payment.header } })
  await until(() => settler.calls.check === 2)
  responses[0]!.end('done')
  t.equal((await again).status, 200)
  t.equal(seller.calls, 1)
  t.strictSame(settler.transfers, ['n'])
  await reaches(gateway, 'delivered')
})

t.test('whoever hangs up after the charge gets the answer when it comes again', async (t) => {
  const seller = await startSeller(t, 'hello')
  const { gateway, settler, payment, call } = await start(t)
  const { path, url } = await gateway.addLink({ slug: 'it', url: seller.url, price: '0.10' })
  const caller = new AbortController()
  settler.settleWith = async () => void caller.abort()
  t.equal(await call(path, { payment, signal: caller.signal }), undefined)
  await reaches(gateway, 'settled')
  const again = await fetch(url, { headers: { 'payment-signature': payment.header } })
  t.equal(again.status, 200)
  t.equal(seller.requests.length, 1)
  t.strictSame(settler.transfers, ['n'])
})

for (const settle of ['after', 'before'] as const) {
  t.test(
    `an answer that is longer than wanted is cut, and a repeat gets it all: charged ${settle}`,
    async (t) => {
      const seller = await sellerOf(t, (_req, res) => res.end('x'.repeat(1_000)))
      const { gateway, settler, payment, call } = await start(t)
      const { path, url } = await gateway.addLink({ slug: 'it', url: seller.url, price: '0.10', settle })
      const cut = (await call(path, { payment, maxResponseBytes: 100 }))!
      t.match(cut, { status: 200, isWhole: false })
      t.equal(cut.body.length, 100)
      t.ok(headerOf(cut, 'PAYMENT-RESPONSE'), 'with its receipt')
      await reaches(gateway, 'settled')
      const [row] = await gateway.store.ledger.list({ states: ['settled'], limit: 1 })
      t.equal(row!.errorReason, notCollected, 'nothing is owed back if the buyer does not repeat the call')
      const whole = await fetch(url, { headers: { 'payment-signature': payment.header } })
      t.equal((await whole.text()).length, 1_000)
      t.equal(seller.calls, 1)
      t.strictSame(settler.transfers, ['n'])
    },
  )
}

t.test(
  'a streamed answer that is longer than wanted is charged for all of it, and a repeat gets it',
  async (t) => {
    const usage = '{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":500}}'
    const text = `data: {"choices":[]}\n\n${`: ${'x'.repeat(80)}\n\n`.repeat(10)}data: ${usage}\n\n`
    const seller = await sellerOf(t, async (_req, res) => {
      res.setHeader('content-type', 'text/event-stream').write(text.slice(0, 500))
      setImmediate(() => res.end(text.slice(500)))
    })
    const { gateway, settler, call } = await start(t)
    const pricing: UsePrice = {
      upTo: '0.10',
      by: { tokens: { input: '3', output: '15' } },
      otherwise: '0',
      stream: true,
    }
    const { path, url } = await gateway.addLink({
      slug: 'it',
      url: seller.url,
      ...priceRange(pricing),
      pricing,
    })
    const header = scriptedPayment('n', '100000', undefined, {}, 'upto')
    const cut = await call(path, { payment: { header, x402Version: 2 }, maxResponseBytes: 100 })
    t.match(cut, { status: 200, isWhole: false })
    await reaches(gateway, 'settled')
    const whole = await fetch(url, { headers: { 'payment-signature': header } })
    t.equal(await whole.text(), text)
    t.match(receiptOf(whole.headers), { amount: '10500' })
    t.equal(seller.calls, 1)
    t.strictSame(settler.transfers, ['n'])
  },
)

t.test('a free answer that is longer than wanted is cut, and the seller is let go', async (t) => {
  const seller = await startSeller(t, 'endless')
  const { gateway, call } = await start(t)
  const { path } = await gateway.addLink({ slug: 'it', url: seller.url })
  t.match(await call(path, { maxResponseBytes: 100 }), { status: 200, isWhole: false })
  await until(() => seller.connections.size === 0)
})

t.test('a renamed link answers at its former address; a seller leads nobody to another link', async (t) => {
  const seller = await startSeller(t, 'mirror')
  const { gateway, settler, payment, call } = await start(t)
  const { id } = await gateway.addLink({ slug: 'old', url: seller.url, price: '0.10' })
  await gateway.store.links.update(id, { slug: 'new' }, Date.now())
  const moved = await call('/api/link/demo/old/b?c=1', { payment })
  t.equal(moved!.status, 200)
  t.match(seller.requests, [{ target: '/b?c=1' }])
  t.strictSame(settler.transfers, ['n'])

  const liar = await sellerOf(t, (_req, res) => res.writeHead(308, { location: '/api/link/demo/new' }).end())
  const { path } = await gateway.addLink({ slug: 'liar', url: liar.url })
  const led = await call(path, { payment: { ...payment, header: scriptedPayment('m', '100000') } })
  t.equal(led!.status, 308, 'its redirect is an answer like any other')
  t.equal(seller.requests.length, 1)
})

t.test('what can be read in two ways is refused as over HTTP, and no seller sees it', async (t) => {
  const seller = await startSeller(t, 'hello')
  const { gateway, call } = await start(t)
  const { path } = await gateway.addLink({ slug: 'it', url: seller.url })
  const refused = { code: 'bad_request' }
  const paths = [
    '/../other',
    '/%2e%2e/x',
    '/a//b',
    '/a\\b',
    '/a#b',
    '/a b',
    '/a\r\nX: y',
    '/%zz',
    '/é',
    '?a=\n',
  ]
  for (const below of paths) await t.rejects(call(path + below), refused, JSON.stringify(below))
  for (const headers of [
    ['X: y\r\nZ', 'a'],
    ['X', 'a\r\nTransfer-Encoding: chunked'],
    ['X', 'a\0'],
    ['', 'a'],
    ['X Y', 'a'],
    ['X', 'ł'],
  ])
    await t.rejects(call(path, { headers }), refused, JSON.stringify(headers))
  // Sellers close the connection at such heads; that would be told of them as their fault.
  const long = 'a'.repeat(4_000)
  const many = Array.from({ length: 9 }, (_, i) => [`x-${i}`, long]).flat()
  await t.rejects(call(path, { headers: many }), refused, 'headers of more than the listener takes')
  await t.rejects(call(`${path}?a=${long.repeat(9)}`), refused, 'a query of more than that')
  await t.rejects(call(path, { payment: { header: long.repeat(9), x402Version: 2 } }), refused)
  for (const method of ['CONNECT', 'TRACE', 'get', 'GET /x HTTP/1.1\r\n', ''])
    await t.rejects(call(path, { method }), refused, JSON.stringify(method))
  for (const target of ['/api/link/demo', '/api/link/demo/nothing', '/api/link//it'])
    await call(target).then(
      (response) => t.equal(response!.status, 404, target),
      (error) => t.match(error, refused, target),
    )
  t.equal(seller.requests.length, 0)
})

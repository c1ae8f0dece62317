import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import type { Link } from '../core/domain/link.ts'
import { type PriceTable, priceRange } from '../core/domain/pricing.ts'
import { encodeHeader } from '../core/x402/header.ts'
import type { TestGatewayOptions } from './helpers/gateway.ts'
import { reaches, receiptOf, startPaid } from './helpers/paid.ts'
import { until } from './helpers/rawHttp.ts'
import { recoveryOf } from './helpers/recovery.ts'
import { startSeller } from './helpers/sellers.ts'
import { scriptedPayment, testAsset, testNetwork } from './helpers/settler.ts'

const table: PriceTable = {
  rules: [
    { when: { path: '/render/*', query: { size: ['large', 'huge'] } }, price: '0.05' },
    { when: { header: { 'x-quality': 'hd' } }, price: '0.04' },
    { when: { method: 'POST', body: { '/model': 'big' } }, price: '0.03' },
    { when: { path: '/secret' }, price: '2' },
  ],
  otherwise: '0.01',
}

async function start(
  t: Test,
  pricing: PriceTable = table,
  more: Partial<Link> = {},
  options: TestGatewayOptions = {},
) {
  const paid = await startPaid(t, options)
  const { gateway, settler } = paid
  const seller = await startSeller(t, 'mirror')
  const link = await gateway.addLink({
    slug: 'priced',
    url: seller.url,
    ...priceRange(pricing),
    pricing,
    ...more,
  })
  let payments = 0
  return {
    ...paid,
    seller,
    link,
    change: (fields: Partial<Link>) =>
      gateway.store.links.update(link.id, fields, Date.now()).then(() => {
        gateway.ports.changes.publish({ kind: 'link', username: 'demo', slug: 'priced' })
      }),
    /** The amounts and statuses of a call without a payment. */
    async price(below: string, init: RequestInit = {}) {
      const response = await fetch(link.url + below, init)
      const body = (await response.json()) as { accepts?: { amount: string }[]; error: { code: string } }
      return response.status === 402 ? body.accepts![0]!.amount : `${response.status} ${body.error.code}`
    },
    async pay(amount: string, below: string, init: RequestInit = {}, nonce = `n${++payments}`) {
      const response = await fetch(link.url + below, {
        ...init,
        headers: { ...init.headers, 'payment-signature': scriptedPayment(nonce, amount) },
      })
      const body = JSON.parse(await response.text())
      return {
        status: response.status,
        body,
        headers: response.headers,
        receipt: receiptOf(response.headers),
      }
    },
    amounts: async () =>
      (await gateway.store.purchases.page(gateway.storeId, { limit: 100 })).purchases.map(
        ({ amountAtomic, priceUsd }) => [String(amountAtomic), priceUsd],
      ),
    settler,
  }
}

const json = (body: object | string, headers: Record<string, string> = {}): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: typeof body === 'string' ? body : JSON.stringify(body),
})

t.test('the 402 says the price of this request, and its payment is charged as such', async (t) => {
  const { price, pay, seller, amounts, gateway } = await start(t)
  const calls: readonly (readonly [string, string, string, RequestInit?])[] = [
    ['10000', '0.01', ''],
    ['50000', '0.05', '/render/a?size=large'],
    ['50000', '0.05', '/render/a?x=1&size=huge'],
    ['10000', '0.01', '/render/a?size=small'],
    ['40000', '0.04', '/render/a', { headers: { 'X-Quality': 'hd' } }],
    ['30000', '0.03', '', json({ model: 'big', n: 1 })],
    ['10000', '0.01', '', json({ model: 'small' })],
    ['2000000', '2', '/secret', json({ model: 'small' })],
  ]
  for (const [amount, , below, init] of calls) {
    t.equal(await price(below, init), amount, `${below} ${JSON.stringify(init ?? {})}`)
    const paid = await pay(amount, below, init)
    t.match(paid, { status: 200, receipt: { success: true, amount } })
    const got = seller.requests.at(-1)!
    t.equal(
      got.body.toString(),
      (init?.body as string | undefined) ?? '',
      'the seller gets the bytes that were priced',
    )
  }
  t.strictSame(
    (await amounts()).reverse(),
    calls.map(([amount, usd]) => [amount, String(Number(usd))]),
  )
  t.match(await gateway.store.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test(
  'a payment of another price is refused with an offer for this request, and never charged',
  async (t) => {
    const { pay, seller, settler } = await start(t)
    for (const amount of ['10000', '40000', '50001']) {
      const refused = await pay(amount, '/render/a?size=large')
      t.match(refused, {
        status: 402,
        body: {
          error: { code: 'invalid_payment', reason: 'invalid_exact_evm_payload_authorization_value' },
          accepts: [{ amount: '50000' }],
          resource: { url: /\/priced\/render\/a\?size=large$/ },
        },
        receipt: { success: false, errorReason: 'invalid_exact_evm_payload_authorization_value' },
      })
      const fresh = JSON.parse(Buffer.from(refused.headers.get('payment-required')!, 'base64').toString())
      t.match(fresh, { accepts: [{ amount: '50000' }] })
    }
    t.equal(seller.requests.length, 0)
    t.strictSame(settler.transfers, [])
  },
)

t.test('whatever is asked and paid, only the exact price of the request is charged', async (t) => {
  const { price, pay, settler } = await start(t)
  const below = fc.constantFrom(
    '',
    '/render/a',
    '/render/a?size=large',
    '/RENDER/a?size=large',
    '/x?size=large&size=small',
  )
  const init = fc.constantFrom<RequestInit>(
    {},
    { headers: { 'x-quality': 'hd' } },
    { headers: { x_quality: 'hd' } },
    json({ model: 'big' }),
    json('{"model":"small","model":"big"}'),
    json({ MODEL: 'big' }),
  )
  const amount = fc.constantFrom('10000', '30000', '40000', '50000')
  await fc.assert(
    fc.asyncProperty(below, init, amount, async (path, more, paid) => {
      const asked = await price(path, more)
      const before = settler.transfers.length
      const { status } = await pay(paid, path, more)
      return (
        (status === 200) === (asked === paid) && settler.transfers.length - before === Number(asked === paid)
      )
    }),
    { numRuns: 150 },
  )
  t.pass()
})

t.test('a request without a price is refused, with and without a payment', async (t) => {
  const { price, pay, seller, settler } = await start(t, { ...table, otherwise: null })
  t.equal(await price('/else'), '422 request_not_sold')
  t.equal(await price('/render/a?size=large'), '50000')
  t.match(await pay('10000', '/else'), { status: 422, body: { error: { code: 'request_not_sold' } } })
  t.equal((await fetch(`${seller.url}`)).status, 200)
  t.equal(seller.requests.length, 1, 'only the request of this test itself')
  t.strictSame(settler.transfers, [])
})

t.test('a body that decides a price has a stated length within bounds, and one meaning', async (t) => {
  const { link, price, pay, seller } = await start(t)
  const chunked = httpRequest(link.url, { method: 'POST', headers: { 'transfer-encoding': 'chunked' } })
  chunked.end('{"model":"big"}')
  const [response]: [IncomingMessage] = (await once(chunked, 'response')) as never
  t.equal(response.statusCode, 411)
  t.match(JSON.parse(await text(response)), { error: { code: 'length_required' } })
  t.equal(await price('', json(`{"model":"${'x'.repeat(262_144)}"}`)), '413 payload_too_large')
  t.equal(await price('', json('{"model":"small","model":"big"}')), '400 ambiguous_request')
  t.equal(await price('', json('{"model":"big",}')), '400 ambiguous_request')
  t.equal(await price('', json({ model: 'big' }, { 'content-encoding': 'gzip' })), '415 unsupported_encoding')
  t.equal(await price('', json({ MODEL: 'big' })), '400 ambiguous_request')
  t.match(await pay('10000', '', json({ MODEL: 'big' })), { status: 400 })
  t.equal(seller.requests.length, 0)
})

t.test(
  'an identical repeat gets the stored response, although the price has changed meanwhile',
  async (t) => {
    const { pay, change, price, seller, gateway } = await start(t)
    const first = await pay('30000', '', json({ model: 'big' }), 'once')
    t.equal(first.status, 200)
    const changes: readonly Partial<Link>[] = [
      { pricing: { rules: [{ when: { body: { '/model': 'big' } }, price: '7' }], otherwise: null } },
      { pricing: { rules: [{ when: { body: { '/n': '7' } }, price: '7' }], otherwise: null } },
      { price: '9', pricing: null, priceMax: null },
    ]
    for (const fields of changes) {
      await change(fields)
      t.not(await price('', json({ model: 'big' })), '30000')
      const again = await pay('30000', '', json({ model: 'big' }), 'once')
      t.equal(again.status, 200)
      t.strictSame(again.body, first.body)
      const { status } = await pay('30000', '', json({ model: 'big' }), `new ${JSON.stringify(fields)}`)
      t.ok([402, 422].includes(status), `a new payment of the old price gets ${status}`)
    }
    t.equal(seller.requests.length, 1)
    t.match(await gateway.store.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
  },
)

t.test('a payment that landed late buys no request with another priced header', async (t) => {
  const { pay, settler, gateway, seller } = await start(t, table, { settle: 'before' })
  settler.settleWith = async () => ({ status: 'pending', transaction: '0x1', reason: 'settlement_pending' })
  t.equal((await pay('10000', '/a', {}, 'late')).status, 503)
  settler.transfers.push('late')
  await recoveryOf(gateway).round()
  await reaches(gateway, 'refund_due')
  const dearer = await pay('10000', '/a', { headers: { 'x-quality': 'hd' } }, 'late')
  t.match(dearer, {
    status: 409,
    body: { error: { code: 'payment_already_used', reason: 'charged_refund_owed' }, purchaseId: /-/ },
  })
  t.equal(seller.requests.length, 0)
  await reaches(gateway, 'refund_due')
  t.match(await gateway.store.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test(
  'a payment that landed late buys no request with another priced header, although the link has one price now',
  async (t) => {
    const { pay, settler, gateway, seller, change } = await start(t, table, { settle: 'before' })
    settler.settleWith = async () => ({ status: 'pending', transaction: '0x1', reason: 'settlement_pending' })
    t.equal((await pay('10000', '/a', {}, 'late')).status, 503)
    settler.transfers.push('late')
    await recoveryOf(gateway).round()
    await reaches(gateway, 'refund_due')
    await change({ price: '0.01', pricing: null, priceMax: null })
    const hd = { headers: { 'x-quality': 'hd' } }
    t.match(await pay('10000', '/a', hd, 'late'), {
      status: 409,
      body: { error: { code: 'payment_already_used' } },
    })
    t.equal(seller.requests.length, 0)
    t.match(await pay('10000', '/a', {}, 'late'), { status: 200 }, 'its own request is served')
    t.equal(seller.requests.length, 1)
  },
)

t.test(
  'a payment buys its request with its priced headers only, and other headers do not matter',
  async (t) => {
    const { pay, change, seller } = await start(t)
    const hd = { headers: { 'x-quality': 'hd' } }
    const first = await pay('40000', '/a', hd, 'once')
    t.equal(first.status, 200)
    t.match(await pay('40000', '/a', { headers: { 'X-Quality': 'hd', 'x-other': '1' } }, 'once'), {
      status: 200,
      body: first.body,
    })
    for (const pricing of [table, null]) {
      await change(pricing === null ? { price: '1', pricing, priceMax: null } : { pricing })
      for (const headers of [{}, { 'x-quality': 'sd' }])
        t.match(await pay('40000', '/a', { headers }, 'once'), {
          status: pricing === null ? 409 : /./,
          body: { error: { code: pricing === null ? 'payment_already_used' : String } },
        })
      t.match(await pay('40000', '/a', hd, 'once'), { status: 200, body: first.body })
    }
    t.equal(seller.requests.length, 1)
  },
)

t.test('a payment that landed late buys the request that it was signed for', async (t) => {
  const { pay, settler, gateway, seller } = await start(t, table, { settle: 'before' })
  settler.settleWith = async () => ({ status: 'pending', transaction: '0x1', reason: 'settlement_pending' })
  const hd = { headers: { 'x-quality': 'hd' } }
  t.equal((await pay('40000', '/a', hd, 'late')).status, 503)
  settler.transfers.push('late')
  await recoveryOf(gateway).round()
  await reaches(gateway, 'refund_due')
  t.match(await pay('40000', '/a', hd, 'late'), { status: 200 })
  t.equal(seller.requests.length, 1)
  await reaches(gateway, 'delivered')
})

t.test('a payment identifier belongs to one request of a link with several prices', async (t) => {
  const { price, link, settler, seller, gateway } = await start(t)
  const id = 'pay_7d5d747be160e280504c099d984bcfe0'
  const pay = async (nonce: string, value: string, below: string) => {
    const payment = {
      x402Version: 2,
      accepted: { scheme: 'exact', network: testNetwork, asset: testAsset },
      payload: { payer: '0x2222222222222222222222222222222222222222', nonce, value },
      extensions: { 'payment-identifier': { info: { required: false, id } } },
    }
    const response = await fetch(link.url + below, {
      headers: { 'payment-signature': encodeHeader(payment) },
    })
    return { status: response.status, body: await response.json() }
  }
  const offer = await fetch(link.url)
  t.match(await offer.json(), { extensions: { 'payment-identifier': { info: { required: false } } } })
  const first = await pay('a', '50000', '/render/a?size=large')
  t.equal(first.status, 200)
  t.strictSame(await pay('a', '50000', '/render/a?size=large'), first, 'a repeat gets the stored response')
  t.match(await pay('b', '10000', '/b'), { status: 409, body: { error: { code: 'payment_id_reused' } } })
  t.match(await pay('a', '50000', '/b'), { status: 409, body: { error: { code: 'payment_already_used' } } })
  t.equal(await price('/b'), '10000')
  t.strictSame(settler.transfers, ['a'])
  t.equal(seller.requests.length, 1)
  t.match(await gateway.store.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test('a call by another transport has the same price', async (t) => {
  const { gateway, link } = await start(t)
  const response = await gateway.gateway.linkCalls.call({
    method: 'POST',
    requestId: 'id-of-a-request',
    target: link.path,
    headers: ['content-type', 'application/json'],
    body: Buffer.from('{"model":"big"}'),
    payment: null,
    clientIp: '127.0.0.1',
    signal: new AbortController().signal,
    maxResponseBytes: 65_536,
  })
  t.match(JSON.parse(response!.body.toString()), { accepts: [{ amount: '30000' }] })
})

t.test('the handshake of a WebSocket with a body is refused before it has a price', async (t) => {
  const { link } = await start(t)
  const headers = { connection: 'upgrade', upgrade: 'websocket', 'content-length': '15' }
  const handshake = httpRequest(link.url, { headers })
  handshake.end('{"model":"big"}')
  const [response]: [IncomingMessage] = (await once(handshake, 'response')) as never
  t.equal(response.statusCode, 400)
  response.resume()
})

t.test('bodies that decide a price share a limited memory until their price is known', async (t) => {
  let nowMs = Date.now()
  const { link, gateway, price } = await start(
    t,
    table,
    {},
    { heldBytes: 20, adapt: (ports) => ({ ...ports, clock: { now: () => nowMs } }) },
  )
  const memory = gateway.ports.responseBuffer
  const headers = { 'content-type': 'application/json', 'content-length': '15' }
  const slow = httpRequest(link.url, { method: 'POST', headers })
  slow.write('{"model":')
  await until(() => memory.heldBytes === 15)
  t.equal(await price('', json({ model: 'big' })), '503 upstream_busy')
  t.equal(await price('/secret'), '2000000', 'a request without a body needs none')
  slow.end('"big"}')
  const [response]: [IncomingMessage] = (await once(slow, 'response')) as never
  t.match(JSON.parse(await text(response)), { accepts: [{ amount: '30000' }] })
  t.equal(memory.heldBytes, 0)
  const broken = httpRequest(link.url, { method: 'POST', headers: { 'content-length': '15' } })
  broken.on('error', () => {})
  broken.write('{"model":')
  await until(() => memory.heldBytes === 15)
  broken.destroy()
  await until(() => memory.heldBytes === 0)
  const idle = httpRequest(link.url, { method: 'POST', headers })
  const cutOff = once(idle, 'error')
  idle.write('{')
  await until(() => memory.heldBytes === 15)
  t.equal(await price('', json({ model: 'big' })), '503 upstream_busy')
  nowMs += 2_000
  t.equal(await price('', json({ model: 'big' })), '30000', 'a slow caller loses its memory to another call')
  await cutOff
  await until(() => memory.heldBytes === 0)
})

import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import type { Link } from '../core/domain/link.ts'
import { type PriceQuery, priceRange } from '../core/domain/pricing.ts'
import { priceKeyOf } from '../core/pricing/priceSecret.ts'
import { receiptOf, startPaid } from './helpers/paid.ts'
import { until } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { startSeller } from './helpers/sellers.ts'
import { scriptedPayment } from './helpers/settler.ts'

type Answer = (res: ServerResponse, req: IncomingMessage) => void

const stating =
  (amount: string, headers: Record<string, string> = {}): Answer =>
  (res) =>
    void res
      .writeHead(200, { 'content-type': 'application/json', ...headers })
      .end(JSON.stringify({ amount }))

async function start(t: Test, more: Partial<PriceQuery> = {}, link: Partial<Link> = {}) {
  let aheadMs = 0
  const paid = await startPaid(t, {
    adapt: (ports) => ({ ...ports, clock: { now: () => Date.now() + aheadMs } }),
  })
  const seller = await startSeller(t, 'mirror')
  const asked: {
    readonly facts: Record<string, unknown>
    readonly body: string
    readonly headers: IncomingMessage['headers']
  }[] = []
  const server: { answer: Answer } = { answer: stating('0.012') }
  const priceServer = await sellerOf(t, async (req, res) => {
    const body = await text(req)
    asked.push({ facts: JSON.parse(body), body, headers: req.headers })
    server.answer(res, req)
  })
  const pricing: PriceQuery = {
    url: `${priceServer.url}/price`,
    headers: [],
    max: '0.50',
    fallback: null,
    ...more,
  }
  const { gateway } = paid
  const made = await gateway.addLink({
    slug: 'priced',
    url: seller.url,
    ...priceRange(pricing),
    pricing,
    ...link,
  })
  let payments = 0
  return {
    ...paid,
    seller,
    server,
    asked,
    link: made,
    later: (ms: number) => {
      aheadMs += ms
    },
    async price(below = '', init: RequestInit = {}) {
      const response = await fetch(made.url + below, init)
      const body = (await response.json()) as { accepts?: { amount: string }[]; error: { code: string } }
      return response.status === 402 ? body.accepts![0]!.amount : `${response.status} ${body.error.code}`
    },
    async pay(amount: string, below = '', init: RequestInit = {}, nonce = `n${++payments}`) {
      const response = await fetch(made.url + below, {
        ...init,
        headers: { ...init.headers, 'payment-signature': scriptedPayment(nonce, amount) },
      })
      const body = JSON.parse(await response.text())
      return { status: response.status, body, receipt: receiptOf(response.headers) }
    },
  }
}

t.test('the server is asked with the signed facts of the request, and its price is charged', async (t) => {
  const { price, pay, asked, link, gateway, seller } = await start(t, { headers: ['x-quality'] })
  const init = {
    method: 'POST',
    headers: { 'X-Quality': 'hd', 'content-type': 'application/json' },
    body: '{"model":"big"}',
  }
  t.equal(await price('/render/a?size=l', init), '12000')
  t.strictSame(asked[0]!.facts, {
    linkId: link.id,
    method: 'POST',
    path: '/render/a',
    query: '?size=l',
    headers: { 'x-quality': 'hd' },
    body: '{"model":"big"}',
    bodyBytes: 15,
  })
  const { headers, body } = asked[0]!
  const signed = createHmac('sha256', priceKeyOf(gateway.ports.sealer, link.id))
    .update(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`)
    .digest('base64')
  t.equal(headers['webhook-signature'], `v1,${signed}`)
  t.match(await pay('12000', '/render/a?size=l', init), { status: 200, receipt: { amount: '12000' } })
  t.equal(asked.length, 1, 'a price that was told is not asked again for its payment')
  t.equal(seller.requests[0]!.body.toString(), '{"model":"big"}')
  const [sale] = (await gateway.store.purchases.page(gateway.storeId, { limit: 10 })).purchases
  t.match(sale, { amountAtomic: 12_000n, priceUsd: '0.012' })
})

t.test(
  'a price that was told is honored until its payment is too old, and no other price is charged',
  async (t) => {
    const { price, pay, server, later, settler, asked } = await start(t)
    t.equal(await price(), '12000')
    server.answer = stating('0.3')
    t.match(await pay('400000'), { status: 402, body: { accepts: [{ amount: '300000' }] } })
    t.match(await pay('12000'), { status: 200, receipt: { amount: '12000' } })
    t.match(await pay('300000'), { status: 200, receipt: { amount: '300000' } })
    t.match(await pay('11999'), {
      status: 402,
      body: {
        error: { code: 'invalid_payment', reason: 'invalid_exact_evm_payload_authorization_value' },
        accepts: [{ amount: '300000' }],
      },
    })
    later(301_000)
    server.answer = stating('0.4')
    const before = asked.length
    t.match(await pay('12000'), { status: 402, body: { accepts: [{ amount: '400000' }] } })
    t.equal(asked.length, before + 1)
    t.match(await pay('12000', '/else'), { status: 402, body: { accepts: [{ amount: '400000' }] } })
    t.equal(settler.transfers.length, 2)
  },
)

t.test(
  'a price is cached as long as its response allows, and asked once for equal calls at once',
  async (t) => {
    const { price, server, asked, later } = await start(t)
    server.answer = (res, req) => void setTimeout(() => stating('0.02')(res, req), 100)
    const together = await Promise.all(Array.from({ length: 20 }, () => price('/same')))
    t.strictSame([...new Set(together)], ['20000'])
    t.equal(asked.length, 1)
    await price('/same')
    t.equal(asked.length, 2, 'a response without Cache-Control is not cached')
    server.answer = stating('0.03', { 'cache-control': 'private, max-age=60' })
    t.equal(await price('/kept'), '30000')
    server.answer = stating('0.04')
    t.equal(await price('/kept'), '30000')
    t.equal(await price('/other'), '40000')
    later(61_000)
    t.equal(await price('/kept'), '40000')
    server.answer = stating('0.05', { 'cache-control': 'max-age=60, no-store' })
    t.equal(await price('/stored'), '50000')
    server.answer = stating('0.06')
    t.equal(await price('/stored'), '60000')
  },
)

const raw =
  (body: string | Buffer, headers: Record<string, string> = {}, status = 200): Answer =>
  (res) =>
    void res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)

const hostile: Readonly<Record<string, Answer>> = {
  silent: () => {},
  'slow to end': (res) => void res.writeHead(200).write('{"amount":'),
  huge: (res) => {
    res.writeHead(200)
    const more = () => {
      while (!res.destroyed && res.write('x'.repeat(65_536)));
      if (!res.destroyed) res.once('drain', more)
    }
    more()
  },
  NaN: raw('{"amount":"NaN"}'),
  negative: raw('{"amount":"-0.01"}'),
  '1e400': raw('{"amount":"1e400"}'),
  'a number': raw('{"amount":0.01}'),
  'the number 1e400': raw('{"amount":1e400}'),
  zero: raw('{"amount":"0.000"}'),
  'too many decimals': raw('{"amount":"0.0000001"}'),
  'too many digits': raw(`{"amount":"${'9'.repeat(3_000)}"}`),
  'above the maximum': raw('{"amount":"0.500001"}'),
  'two amounts': raw('{"amount":"0.1","amount":"0.01"}'),
  'no JSON': raw('0.01'),
  'a list': raw('[{"amount":"0.01"}]'),
  inherited: raw('{"__proto__":{"amount":"0.01"}}'),
  empty: raw(''),
  'status 201': raw('{"amount":"0.01"}', {}, 201),
  'status 500': raw('{"amount":"0.01"}', {}, 500),
  'a redirect': (res) => void res.writeHead(302, { location: '/elsewhere' }).end(),
  'a gzip bomb': raw(gzipSync(Buffer.alloc(50_000_000)), { 'content-encoding': 'gzip' }),
  'gzipped JSON': raw(gzipSync('{"amount":"0.01"}'), { 'content-encoding': 'gzip' }),
  'a reset': (res) => void res.destroy(),
}

t.test('whatever else the server answers, the fallback is the price, or nothing is sold', async (t) => {
  const one = await start(t, { fallback: '0.1' })
  const none = await start(t)
  const all = Object.entries(hostile)
  for (const each of [one, none]) {
    let i = 0
    each.server.answer = (res, req) => all[i]![1](res, req)
    for (; i < all.length; i++) {
      const [name] = all[i]!
      const expected = each === one ? '100000' : '503 price_unavailable'
      t.equal(await each.price(`/${i}`), expected, name)
      if (name === 'silent' || name === 'slow to end') continue
      const paid = await each.pay('100000', `/${i}`)
      t.equal(paid.status, each === one ? 200 : 503, name)
    }
  }
  t.strictSame(none.settler.transfers, [])
  t.equal(none.seller.requests.length, 0)
})

t.test('a server at a private address is not asked', async (t) => {
  const { price, asked } = await start(t, { url: 'http://10.0.0.1/price', fallback: '0.2' })
  t.equal(await price(), '200000')
  t.equal(asked.length, 0)
})

t.test('an identical repeat gets the stored response, although the server is down meanwhile', async (t) => {
  const { price, pay, server, later, seller, asked } = await start(t)
  t.equal(await price(), '12000')
  const first = await pay('12000', '', {}, 'once')
  t.equal(first.status, 200)
  later(400_000)
  server.answer = raw('', {}, 500)
  t.equal(await price(), '503 price_unavailable')
  const again = await pay('12000', '', {}, 'once')
  t.equal(again.status, 200)
  t.strictSame(again.body, first.body)
  t.equal(seller.requests.length, 1)
  t.ok(asked.length > 1)
})

t.test('a link whose prices a server states is no price server', async (t) => {
  const first = await start(t)
  await first.price()
  const mark = String(first.asked[0]!.headers['cdn-loop'])
  t.match(mark, /^tollgate-\S+;for=price$/)
  const second = await start(t)
  const nested = { method: 'POST', headers: { 'cdn-loop': mark }, body: first.asked[0]!.body }
  t.equal(await second.price('', nested), '508 loop_detected')
  t.equal(await second.price('', { ...nested, headers: { 'cdn-loop': 'cloudflare' } }), '12000')
})

t.test('callers cannot make the gateway flood the server', async (t) => {
  const { price, server, asked } = await start(t, { fallback: '0.1' })
  const held: (() => void)[] = []
  server.answer = (res, req) => void held.push(() => stating('0.02')(res, req))
  const prices: string[] = []
  const calls = Array.from({ length: 60 }, async (_, i) => void prices.push(await price(`/${i}`)))
  await until(() => held.length === 16 && prices.length === 44)
  t.strictSame(
    [...new Set(prices)],
    ['503 price_unavailable'],
    'not the fallback, which a flood could choose',
  )
  for (const answer of held) answer()
  await Promise.all(calls)
  t.equal(prices.filter((one) => one === '20000').length, 16)
  t.equal(asked.length, 16)
})

t.test('a body that hides its length has no price', async (t) => {
  const { price, link, asked } = await start(t)
  const gzipped = {
    method: 'POST',
    headers: { 'content-encoding': 'gzip' },
    body: gzipSync('x'.repeat(90_000)),
  }
  t.equal(await price('', gzipped as never), '415 unsupported_encoding')
  const chunked = httpRequest(link.url, { method: 'POST', headers: { 'transfer-encoding': 'chunked' } })
  chunked.end('x'.repeat(90_000))
  const [response]: [IncomingMessage] = (await once(chunked, 'response')) as never
  t.equal(response.statusCode, 411)
  response.resume()
  t.equal(asked.length, 0)
})

t.test('a body that is long or not text is described by its length', async (t) => {
  const seller = await startSeller(t, 'hello')
  const { price, pay, asked } = await start(t, {}, { url: seller.url })
  const post = (body: string | Buffer): RequestInit => ({ method: 'POST', body: body as never })
  await price('', post(Buffer.from([0xff, 0xfe, 0x00])))
  t.match(asked.at(-1)!.facts, { body: null, bodyBytes: 3 })
  const long = 'x'.repeat(65_537)
  t.equal(await price('', post(long)), '12000')
  t.match(asked.at(-1)!.facts, { body: null, bodyBytes: 65_537 })
  t.equal((await pay('12000', '', post(long))).status, 200)
  t.equal(seller.requests.length, 1)
  t.equal(await price('', { headers: { 'x-a': '1' } }), '12000')
})

t.test('a payment of the current price is accepted, although only another process has told it', async (t) => {
  const { price, pay, server } = await start(t)
  t.equal(await price(), '12000')
  server.answer = stating('0.3')
  t.match(await pay('300000'), { status: 200, receipt: { amount: '300000' } })
  server.answer = raw('', {}, 500)
  t.match(await pay('400000'), { status: 402, body: { accepts: [{ amount: '300000' }] } })
})

t.test('only amounts that the server states or has stated lately are charged', async (t) => {
  const { price, pay, server, settler } = await start(t)
  let current = '0.012'
  const told: Record<string, Set<string>> = { '/a': new Set(), '/b?x=1': new Set() }
  for (const path of Object.keys(told)) told[path]!.add(await price(path))
  const step = fc.tuple(
    fc.constantFrom('ask', 'pay', 'change'),
    fc.constantFrom(...Object.keys(told)),
    fc.constantFrom('0.01', '0.012', '0.02'),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 8 }), async (steps) => {
      for (const [what, path, amount] of steps) {
        const atomic = String(Number(amount) * 1_000_000)
        if (what === 'change') server.answer = stating((current = amount))
        else if (what === 'ask') told[path]!.add(await price(path))
        else {
          const before = settler.transfers.length
          const { status } = await pay(atomic, path)
          if (!told[path]!.has(atomic)) told[path]!.add(String(Number(current) * 1_000_000))
          const wasTold = told[path]!.has(atomic)
          if (status !== (wasTold ? 200 : 402)) return false
          if (settler.transfers.length - before !== Number(wasTold)) return false
        }
      }
      return true
    }),
    { numRuns: 40 },
  )
  t.pass()
})

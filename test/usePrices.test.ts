import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import type { Link } from '../core/domain/link.ts'
import { priceRange, type UsePrice } from '../core/domain/pricing.ts'
import type { Checked, SettleOutcome } from '../core/ports/chains/settler.ts'
import { silentLog } from '../core/ports/log.ts'
import type { TestGatewayOptions } from './helpers/gateway.ts'
import { reaches, receiptOf, shortPlugins, startPaid } from './helpers/paid.ts'
import { until } from './helpers/rawHttp.ts'
import { recoveryOf } from './helpers/recovery.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'

const byHeader: UsePrice = { upTo: '0.10', by: 'header', otherwise: '0.07', stream: false }
const mostAtomic = '100000'
const tokens = { tokens: { input: '3', output: '15' } }

type Respond = (res: ServerResponse, req: IncomingMessage) => void

/** Starts a gateway with a link that has a price by use, and a seller that responds as the test says. */
async function start(
  t: Test,
  pricing: UsePrice | null,
  more: Partial<Link> = {},
  options: TestGatewayOptions = {},
) {
  const lines: Record<string, unknown>[] = []
  const log = { ...silentLog, warn: (fields: object) => void lines.push({ ...fields }) }
  const paid = await startPaid(t, { log, ...options })
  const { gateway } = paid
  let respond: Respond = (res) => res.end('{}')
  const seller = await sellerOf(t, (req, res) => {
    res.setHeader('content-type', 'application/json')
    respond(res, req)
  })
  const price = pricing === null ? { price: '0.10' } : { ...priceRange(pricing), pricing }
  const link = await gateway.addLink({ slug: 'metered', url: seller.url, ...price, ...more })
  let payments = 0
  return {
    ...paid,
    seller,
    link,
    lines,
    respondWith: (next: Respond) => void (respond = next),
    async pay(nonce = `n${++payments}`, amount = mostAtomic, scheme: 'upto' | 'exact' = 'upto') {
      const response = await fetch(link.url, {
        headers: { 'payment-signature': scriptedPayment(nonce, amount, undefined, {}, scheme) },
      })
      const text = await response.text()
      return {
        status: response.status,
        text,
        headers: response.headers,
        receipt: receiptOf(response.headers),
      }
    },
    sold: async () =>
      (await gateway.store.purchases.page(gateway.storeId, { limit: 100 })).purchases.map(
        ({ amountAtomic }) => amountAtomic,
      ),
  }
}

t.test(
  'the 402 offers the most by the scheme upto, and the buyer is charged what the seller states',
  async (t) => {
    const { link, respondWith, pay, sold, gateway } = await start(t, byHeader)
    const unpaid = await fetch(link.url)
    t.match(await unpaid.json(), { accepts: [{ scheme: 'upto', amount: mostAtomic }] })
    const stated: readonly (readonly [string, string])[] = [
      ['50000', '50000'],
      ['50%', '50000'],
      ['$0.05', '50000'],
      ['0', '0'],
      ['100001', mostAtomic],
      ['250%', mostAtomic],
      ['-1', '70000'],
      ['NaN', '70000'],
      ['1e3', '70000'],
    ]
    for (const [amount, charged] of stated) {
      respondWith((res) => res.setHeader('Settlement-Overrides', JSON.stringify({ amount })).end('{"a":1}'))
      const paid = await pay()
      t.match(paid, { status: 200, receipt: { success: true, amount: charged } }, amount)
      t.equal(paid.headers.get('settlement-overrides'), null, 'the buyer does not see it')
      t.match(JSON.parse(paid.text), { data: { a: 1 } })
      if (charged === '0') t.match(paid.receipt, { transaction: '' })
    }
    t.strictSame(
      (await sold()).reverse(),
      stated.map(([, charged]) => BigInt(charged)),
    )
    const { purchases } = await gateway.store.purchases.page(gateway.storeId, { limit: 1 })
    t.match(
      purchases,
      [{ authorizedAtomic: 100_000n, amountAtomic: 70_000n }],
      'both figures are in the ledger',
    )
    t.match(await gateway.store.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
  },
)

t.test(
  'a header that is missing, malformed or sent twice costs what the link says, with a line in the log',
  async (t) => {
    const { respondWith, pay, lines } = await start(t, byHeader)
    const heads: readonly (readonly string[])[] = [
      [],
      ['{'],
      ['{"amount":"1"}', '{"amount":"1"}'],
      ['{"amount":1}'],
    ]
    for (const values of heads) {
      respondWith((res) => res.setHeader('settlement-overrides', values).end('{}'))
      t.match(await pay(), { status: 200, receipt: { amount: '70000' } })
    }
    t.match(lines, [{ event: 'use_not_known', reason: /no header Settlement-Overrides/ }], 'once a minute')
  },
)

t.test('a charge above the most is capped, with a line in the log', async (t) => {
  const { respondWith, pay, lines, link } = await start(t, byHeader)
  respondWith((res) => res.setHeader('settlement-overrides', '{"amount":"$7"}').end('{}'))
  t.match(await pay(), { receipt: { amount: mostAtomic } })
  t.match(lines, [{ event: 'charge_capped', linkId: link.id }])
})

t.test('a link with one price ignores the header, strips it and logs it', async (t) => {
  for (const settle of ['after', 'before'] as const) {
    const { respondWith, pay, lines, link } = await start(t, null, { settle })
    respondWith((res) => res.setHeader('Settlement-Overrides', '{"amount":"1"}').end('{}'))
    const paid = await pay('n', mostAtomic, 'exact')
    t.match(paid, { status: 200, receipt: { amount: mostAtomic } })
    t.equal(paid.headers.get('settlement-overrides'), null)
    t.match(lines, [{ event: 'settlement_overrides_ignored', linkId: link.id }])
  }
})

t.test('tokens, bytes and a value of the response are charged', async (t) => {
  const { gateway, seller, respondWith } = await start(t, byHeader)
  const usage = '{"usage":{"prompt_tokens":1000,"completion_tokens":500},"credits":[7]}'
  const cases: readonly (readonly [UsePrice['by'], string])[] = [
    [tokens, '10500'],
    [{ bytes: '1000' }, String(usage.length * 1_000)],
    [{ pointer: '/credits/0', each: '0.001' }, '7000'],
  ]
  let asked: string | undefined
  respondWith((res, req) => {
    asked = req.headers['accept-encoding']
    res.end(usage)
  })
  for (const [i, [by, charged]] of cases.entries()) {
    const pricing = { ...byHeader, by }
    const slug = `by-${i}`
    const { url } = await gateway.addLink({ slug, url: seller.url, ...priceRange(pricing), pricing })
    const paid = await fetch(url, {
      headers: { 'payment-signature': scriptedPayment(slug, mostAtomic, undefined, {}, 'upto') },
    })
    t.match(receiptOf(paid.headers), { amount: charged }, JSON.stringify(by))
    t.equal(asked, 'identity', 'the seller is asked for a response that can be counted')
  }
})

t.test('seconds are charged by the time of the call', async (t) => {
  const { respondWith, pay } = await start(t, { ...byHeader, by: { seconds: '0.1' } })
  respondWith((res) => setTimeout(() => res.end('{}'), 100))
  const amount = Number((await pay()).receipt.amount)
  t.ok(amount >= 9_900, String(amount))
})

t.test('a response that is compressed all the same costs what the link says', async (t) => {
  const { respondWith, pay } = await start(t, { ...byHeader, by: tokens })
  const body = gzipSync('{"usage":{"prompt_tokens":1000,"completion_tokens":500}}')
  respondWith((res) => res.setHeader('content-encoding', 'gzip').end(body))
  t.match(await pay(), { status: 200, receipt: { amount: '70000' } })
})

t.test('a call that the seller refuses costs nothing, whatever its header says', async (t) => {
  const { respondWith, pay, settler, sold } = await start(t, byHeader)
  for (const status of [400, 404, 500]) {
    respondWith((res) => {
      res.statusCode = status
      res.setHeader('settlement-overrides', '{"amount":"50%"}').end('{}')
    })
    const { status: got, headers } = await pay()
    t.equal(got, status === 500 ? 502 : status)
    t.equal(headers.get('settlement-overrides'), null)
  }
  t.strictSame(settler.transfers, [])
  t.strictSame(await sold(), [])
})

t.test('a repeat gets the stored response and is charged once, also for nothing', async (t) => {
  for (const amount of ['20%', '0']) {
    const { respondWith, pay, seller, sold } = await start(t, byHeader)
    respondWith((res) => res.setHeader('settlement-overrides', JSON.stringify({ amount })).end('{"n":1}'))
    const first = await pay('once')
    const again = await pay('once')
    t.equal(again.status, 200)
    t.equal(again.text, first.text)
    t.match(again.receipt, { amount: first.receipt.amount })
    t.equal(seller.calls, 1)
    t.equal((await sold()).length, 1)
  }
})

t.test('a settlement whose outcome is unknown is recovered with the amount that was stored', async (t) => {
  const { respondWith, pay, settler, gateway, sold } = await start(t, byHeader)
  respondWith((res) => res.setHeader('settlement-overrides', '{"amount":"30%"}').end('{"n":1}'))
  settler.settleWith = async (transfer) => {
    transfer()
    throw new Error('the node went away')
  }
  t.match(await pay('once'), { status: 503 })
  await recoveryOf(gateway).round()
  await reaches(gateway, 'settled')
  t.strictSame(await sold(), [30_000n])
  t.match(await pay('once'), { status: 200, receipt: { amount: '30000' } })
})

t.test(
  'a payment that was freed and is used again is recovered with the amount of the later call',
  async (t) => {
    const { respondWith, pay, settler, gateway, sold } = await start(t, byHeader)
    const unavailable = { reason: 'unexpected_settle_error', message: 'no facilitator', transient: true }
    settler.settleWith = async () => ({ status: 'rejected', ...unavailable })
    respondWith((res) => res.setHeader('settlement-overrides', '{"amount":"30%"}').end('{"n":1}'))
    t.match(await pay('once'), { status: 503 })
    await reaches(gateway, 'rejected')
    settler.settleWith = async (transfer) => {
      transfer()
      throw new Error('the node went away')
    }
    respondWith((res) => res.setHeader('settlement-overrides', '{"amount":"100%"}').end('{"n":1}'))
    t.match(await pay('once'), { status: 503 })
    await recoveryOf(gateway).round()
    await reaches(gateway, 'settled')
    t.strictSame(await sold(), [100_000n])
  },
)

const streamed = { ...byHeader, by: tokens, stream: true }
const piece = (text: string) =>
  `data: {"choices":[{"delta":{"content":${JSON.stringify(text)}}}],"usage":null}\n\n`
const usage = 'data: {"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":500}}\n\n'

t.test('a streamed response reaches the buyer before it has ended, and is charged at its end', async (t) => {
  const { respondWith, link, sold, gateway, seller } = await start(t, streamed)
  const seen = Promise.withResolvers<void>()
  respondWith(async (res) => {
    res.setHeader('content-type', 'text/event-stream').write(piece('hé'))
    await seen.promise
    res.end(`${piece('llo')}${usage}data: [DONE]\n\n`)
  })
  const headers = { 'payment-signature': scriptedPayment('once', mostAtomic, undefined, {}, 'upto') }
  const response = await fetch(link.url, { headers })
  t.equal(response.status, 200)
  t.equal(response.headers.get('payment-response'), null, 'the charge is not known yet')
  t.ok(response.headers.get('x-purchase-id'))
  t.equal(response.headers.get('cache-control'), 'private, no-store')
  const reader = response.body!.getReader()
  const first = await reader.read()
  t.match(Buffer.from(first.value!).toString(), /hé/)
  t.strictSame(await sold(), [], 'nothing is charged yet')
  seen.resolve()
  let text = Buffer.from(first.value!).toString()
  for (let next = await reader.read(); !next.done; next = await reader.read()) text += Buffer.from(next.value)
  t.match(text, /\[DONE\]/)
  await reaches(gateway, 'delivered')
  t.strictSame(await sold(), [10_500n])
  const again = await fetch(link.url, { headers })
  t.equal(await again.text(), text, 'the repeat gets the stored response')
  t.match(receiptOf(again.headers), { success: true, amount: '10500' })
  t.equal(seller.calls, 1)
  t.equal((await sold()).length, 1)
  t.match(await gateway.store.purchases.ledgerCheck(), { broken: { length: 0 }, unbalanced: { length: 0 } })
})

t.test('a streamed JSON response is wrapped, and the repeat is identical', async (t) => {
  const { respondWith, pay, gateway, sold } = await start(t, { ...streamed, by: { bytes: '1000' } })
  respondWith((res) => res.end('{"a":1}'))
  const first = await pay('once')
  t.match(JSON.parse(first.text), { data: { a: 1 }, _svc: { purchaseId: String } })
  await reaches(gateway, 'delivered')
  t.strictSame(await sold(), [7_000n])
  t.equal((await pay('once')).text, first.text)
})

t.test('a buyer who hangs up before the usage is charged what the link says', async (t) => {
  for (const [events, charged] of [
    [piece('hello'), 70_000n],
    ['data: {"message":{"usage":{"input_tokens":1000,"output_tokens":1}}}\n\n', 70_000n],
    ['data: {"message":{"usage":{"input_tokens":30000,"output_tokens":1}}}\n\n', 90_015n],
  ] as const) {
    const { respondWith, link, sold, gateway, seller } = await start(t, streamed)
    respondWith((res) => void res.setHeader('content-type', 'text/event-stream').write(events))
    const leaving = new AbortController()
    const headers = { 'payment-signature': scriptedPayment('once', mostAtomic, undefined, {}, 'upto') }
    const response = await fetch(link.url, { headers, signal: leaving.signal })
    await response.body!.getReader().read()
    leaving.abort()
    await reaches(gateway, 'delivered')
    t.strictSame(await sold(), [charged])
    await until(() => seller.connections.size === 0, 'the seller to be disconnected')
  }
})

t.test(
  'a buyer who hangs up while the seller works is charged once the seller begins its response, unless it is an error',
  async (t) => {
    for (const status of [200, 400, 500]) {
      const { respondWith, link, sold, gateway, transports, settler } = await start(t, streamed)
      const working = Promise.withResolvers<ServerResponse>()
      respondWith((res) => working.resolve(res))
      const leaving = new AbortController()
      const headers = { 'payment-signature': scriptedPayment('once', mostAtomic, undefined, {}, 'upto') }
      const called = t.rejects(fetch(link.url, { headers, signal: leaving.signal }))
      const res = await working.promise
      leaving.abort()
      await called
      await until(() => transports.at(-1)!.hasLeft, 'the gateway to see that its caller has left')
      res.statusCode = status
      res.write('{}')
      await until(() => gateway.gateway.calls.counts().underWay === 0, 'the call to end')
      t.strictSame(await sold(), status === 200 ? [70_000n] : [])
      t.equal(settler.held, 0)
    }
  },
)

t.test('a seller that breaks off gets what was counted until then, and nothing is owed back', async (t) => {
  const cases = [
    [tokens, piece('hello'), []],
    [tokens, `${piece('hello')}${usage}`, [10_500n]],
    [{ bytes: '1000' }, 'abcd', [4_000n]],
  ] as const
  for (const [by, sent, charged] of cases) {
    const { respondWith, link, sold, gateway, settler } = await start(t, { ...streamed, by })
    respondWith((res) => {
      res.setHeader('content-type', 'text/event-stream').write(sent)
      setImmediate(() => res.destroy())
    })
    const headers = { 'payment-signature': scriptedPayment('once', mostAtomic, undefined, {}, 'upto') }
    const response = await fetch(link.url, { headers })
    await t.rejects(response.text(), 'the buyer sees that the response is not whole')
    await until(() => gateway.gateway.calls.counts().underWay === 0, 'the call to end')
    await reaches(gateway, charged.length === 0 ? 'rejected' : 'delivered')
    t.strictSame(await sold(), charged)
    t.equal(settler.held, 0)
  }
})

t.test('a streamed call that the seller refuses costs nothing', async (t) => {
  for (const status of [404, 500, 302]) {
    const { respondWith, pay, sold } = await start(t, streamed)
    respondWith((res) => {
      res.statusCode = status
      res.setHeader('location', '/').end('{"usage":{"prompt_tokens":5}}')
    })
    const { status: got, headers } = await pay()
    t.equal(got, status === 404 ? 404 : 502)
    t.equal(headers.get('x-purchase-id'), null)
    t.strictSame(await sold(), [])
  }
})

t.test('a streamed response ends while its payment can still be settled', async (t) => {
  const { respondWith, pay, sold, gateway, settler } = await start(t, streamed)
  respondWith((res) => void res.setHeader('content-type', 'text/event-stream').write(piece('hello')))
  const { check } = settler
  // Most of the time that the buyer has signed passes before the seller is called.
  settler.check = (payment, terms) => {
    const checked = check(payment, terms) as Checked
    settler.verifyWith = async () => {
      Object.assign(checked.identity!, { validBeforeMs: Date.now() + 15_300 })
      return { ok: true }
    }
    return checked
  }
  await t.rejects(pay('once'))
  await reaches(gateway, 'delivered')
  t.strictSame(await sold(), [70_000n])
})

t.test(
  'a streamed payment that lands after a lost settlement is delivered, and nothing is owed back',
  async (t) => {
    const { respondWith, pay, settler, gateway, sold } = await start(t, {
      ...streamed,
      by: { bytes: '1000' },
    })
    // More than the gateway keeps of a response.
    respondWith((res) => res.setHeader('content-type', 'text/plain').end('x'.repeat(5_000)))
    settler.settleWith = async (transfer) => {
      transfer()
      throw new Error('the node went away')
    }
    t.match(await pay('once'), { status: 200 })
    await reaches(gateway, 'pending')
    await recoveryOf(gateway).round()
    await reaches(gateway, 'delivered')
    t.strictSame(await sold(), [100_000n])
  },
)

t.test('an authorization that may end while the seller works on a stream is refused first', async (t) => {
  const { link, seller, settler, sold } = await start(t, streamed)
  const payment = scriptedPayment('once', mostAtomic, undefined, { validForMs: 150_000 }, 'upto')
  const response = await fetch(link.url, { headers: { 'payment-signature': payment } })
  t.equal(response.status, 402)
  t.match(await response.json(), {
    error: { reason: 'permit2_deadline_expired', message: /valid for at least 158 more seconds/ },
  })
  t.equal(seller.calls, 0)
  t.equal(settler.held, 0)
  t.strictSame(await sold(), [])
})

t.test('a buyer who reads a stream and does not finish the request is charged', async (t) => {
  const cases: readonly (readonly [string, (req: ClientRequest) => void])[] = [
    ['sends nothing more', () => {}],
    ['sends too much', (req) => req.write(Buffer.alloc(200_000))],
  ]
  for (const [what, next] of cases) {
    const plugins = shortPlugins.map((one) =>
      one.use === 'upstream' ? { ...one, with: { ...one.with, maxRequestBytes: 100_000 } } : one,
    )
    const { respondWith, link, sold, gateway } = await start(t, streamed, {}, { plugins })
    respondWith((res, req) => {
      req.resume()
      res.setHeader('content-type', 'text/event-stream').write(piece('hello'))
    })
    const headers = { 'payment-signature': scriptedPayment('once', mostAtomic, undefined, {}, 'upto') }
    const req = request(link.url, { method: 'POST', headers })
    req.on('error', () => {}).write(Buffer.alloc(70_000))
    const [response] = (await once(req, 'response')) as [IncomingMessage]
    response.on('error', () => {})
    await once(response, 'data')
    next(req)
    await new Promise((resolve) => response.once('close', resolve).resume())
    await reaches(gateway, 'delivered')
    t.strictSame(await sold(), [70_000n], what)
  }
})

t.test('a stream is charged although the settlement cannot begin at its end', async (t) => {
  const unavailable = { reason: 'unexpected_settle_error', message: 'no node responds', transient: true }
  for (const isStored of [false, true]) {
    const { respondWith, pay, settler, gateway, sold } = await start(t, streamed)
    respondWith((res) => res.setHeader('content-type', 'text/event-stream').end(usage))
    const { settle, settleWith, verifyWith } = settler
    const refuseOnce = async (): Promise<SettleOutcome> => {
      Object.assign(settler, { settle, settleWith })
      settler.verifyWith = async () => {
        settler.verifyWith = verifyWith
        return { ok: false, ...unavailable }
      }
      return { status: 'rejected', ...unavailable }
    }
    Object.assign(settler, { [isStored ? 'settleWith' : 'settle']: refuseOnce })
    t.match(await pay('once'), { status: 200 })
    await reaches(gateway, 'delivered')
    t.strictSame(await sold(), [10_500n], `the attempt was ${isStored ? '' : 'not '}stored`)
    t.equal(settler.held, 0)
  }
})

t.test('a streamed payment that can no longer be settled is not sold', async (t) => {
  const { respondWith, pay, settler, gateway, sold } = await start(t, { ...streamed, by: { bytes: '1000' } })
  respondWith((res) => res.end('{}'))
  settler.settleWith = async () => ({ status: 'rejected', reason: 'insufficient_funds', message: 'moved' })
  t.match(await pay('once'), { status: 200 })
  await reaches(gateway, 'rejected')
  t.strictSame(await sold(), [])
})

t.test('a payment by exact does not pay a price by use, and the other way round', async (t) => {
  const byUse = await start(t, byHeader)
  t.match(await byUse.pay('n', mostAtomic, 'exact'), { status: 402 })
  const fixed = await start(t, null)
  t.match(await fixed.pay('n', mostAtomic, 'upto'), { status: 402 })
  t.equal(byUse.seller.calls + fixed.seller.calls, 0)
})

t.test('a link whose networks do not settle upto tells why it is not offered', async (t) => {
  const { link } = await start(t, byHeader, {}, { settlers: [createScriptedSettler()] })
  const response = await fetch(link.url)
  t.equal(response.status, 503)
  t.match(await response.json(), {
    error: { message: /x402 scheme upto, which this gateway does not settle on/ },
  })
})

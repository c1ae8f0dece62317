import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import type { ExchangeInit } from '../core/plugin/exchange.ts'
import { newCalls, runCall } from '../gateway/call.ts'
import { startGateway } from './helpers/gateway.ts'
import { callThrough, MemoryTransport, type MemoryTransportInit } from './helpers/memoryTransport.ts'
import { until } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { startSeller } from './helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'

/** Calls of links that come in without HTTP, through the programs that every call runs. */
async function start(t: Test, link: { url: string; price?: string }) {
  const settler = createScriptedSettler()
  const gateway = await startGateway(t, { settlers: [settler] })
  await gateway.addLink({ slug: 'it', ...link })
  const served = (await gateway.ports.links.served('demo', 'it'))!
  const generation = await gateway.build([
    { use: 'x402' },
    { use: 'replay-guard' },
    { use: 'upstream', with: { bodyTimeoutMs: 2_000 } },
    { use: 'purchase-record' },
  ])
  t.teardown(() => generation.retire())
  const program = generation.compile(served)
  return {
    settler,
    generation,
    call(init?: MemoryTransportInit, more?: Partial<ExchangeInit>) {
      const transport = new MemoryTransport(init)
      const x = callThrough(transport, served, more)
      runCall(x, program, generation, newCalls(gateway.ports.log))
      return { transport, x }
    },
  }
}

t.test(
  'a free program runs behind a transport other than HTTP: query, headers and a body go on',
  async (t) => {
    const seller = await startSeller(t, 'mirror')
    const { call, generation } = await start(t, { url: seller.url })
    const got = await call({ headers: { 'x-of-mine': 'a' } }, { subPath: '/b', query: '?c=1' }).transport
      .ended
    t.equal(got!.status, 200)
    const { rawHeaders, ...seen } = JSON.parse(got!.body)
    t.match(seen, { method: 'GET', target: '/b?c=1' })
    t.equal(rawHeaders[rawHeaders.indexOf('x-of-mine') + 1], 'a')
    const whole = { hasBody: true, body: Buffer.from('whole') }
    const posted = await call({ method: 'POST' }, whole).transport.ended
    t.match(JSON.parse(posted!.body), { method: 'POST', body: 'whole' })
    const body = Readable.from([Buffer.from('in '), Buffer.from('pieces')])
    const streamed = await call({ method: 'POST', body }, { hasBody: true }).transport.ended
    t.match(JSON.parse(streamed!.body), { method: 'POST', body: 'in pieces' })
    const stated = { 'content-length': '9' }
    const read = call(
      { method: 'POST', headers: stated, body: Readable.from([Buffer.from('in '), Buffer.from('pieces')]) },
      { hasBody: true },
    )
    t.match(JSON.parse((await read.transport.ended)!.body), { body: 'in pieces' })
    await until(() => generation.calls === 0)
  },
)

t.test(
  'a paid program runs there too: the 402, one charge for the same call twice, its receipt',
  async (t) => {
    const seller = await startSeller(t, 'echo')
    const { call, settler } = await start(t, { url: seller.url, price: '0.10' })
    const sold = { hasBody: true, body: Buffer.from('{"a":1}') }
    const init = { method: 'POST', headers: { 'content-type': 'application/json' } }
    const unpaid = await call(init, sold).transport.ended
    t.equal(unpaid!.status, 402)
    t.ok(unpaid!.headers.includes('PAYMENT-REQUIRED'))
    const paid = { ...sold, paymentHeader: scriptedPayment('n', '100000') }
    const first = await call(init, paid).transport.ended
    t.equal(first!.status, 200)
    t.match(JSON.parse(first!.body), { data: { a: 1 }, _svc: {} })
    t.ok(first!.headers.includes('PAYMENT-RESPONSE'))
    const again = await call(init, paid).transport.ended
    t.strictSame(again!.body, first!.body, 'the same call gets the same answer')
    const other = await call(init, { ...paid, body: Buffer.from('{"a":2}') }).transport.ended
    t.equal(other!.status, 409, 'another call does not')
    t.equal(seller.requests.length, 1)
    t.strictSame(settler.transfers, ['n'])
  },
)

t.test('a caller who leaves such a transport ends the call to the seller', async (t) => {
  const seller = await sellerOf(t, (_req, res) => void res.write('begin'))
  const { call, generation } = await start(t, { url: seller.url })
  const { transport, x } = call()
  await until(() => transport.pieces.length === 1)
  transport.abort()
  await until(() => generation.calls === 0)
  t.equal(x.upstreamOutcome, 'buyer-left')
  t.ok(x.isUnsent)
  await until(() => seller.connections.size === 0)
})

t.test('a caller who reads slowly holds the seller back, and gets all of it', async (t) => {
  const seller = await startSeller(t, 'big')
  const { call } = await start(t, { url: seller.url })
  const { transport } = call()
  transport.isSlow = true
  await until(() => transport.pieces.length > 0)
  const before = transport.pieces.length
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(transport.pieces.length, before, 'nothing more is written until it reads')
  transport.read()
  const got = await transport.ended
  t.equal(got!.status, 200)
})

t.test('a body that breaks off before its stated length is refused', async (t) => {
  const seller = await startSeller(t, 'echo')
  const { call } = await start(t, { url: seller.url })
  const body = new Readable({ read() {} })
  const { transport } = call({ method: 'POST', headers: { 'content-length': '9' }, body }, { hasBody: true })
  body.push('in ')
  body.destroy()
  t.match(await transport.ended, { status: 400, body: /ended before its stated length/ })
})

// Each answer has the id of its request, and the access log finds the call again by it.
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { silentLog } from '../core/ports/log.ts'
import type { TestGatewayOptions } from './helpers/gateway.ts'
import { callAndGo, shortPlugins, startPaid } from './helpers/paid.ts'
import { until } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { startSeller } from './helpers/sellers.ts'
import { scriptedPayment } from './helpers/settler.ts'

type Line = Readonly<Record<string, unknown>>

async function start(t: Test, options: TestGatewayOptions = {}) {
  const lines: Line[] = []
  const log = {
    ...silentLog,
    info: (fields: object) => void ('event' in fields && lines.push(fields as Line)),
  }
  const paid = await startPaid(t, { log, ...options })
  const lineOf = async (id: string | null): Promise<Line> => {
    const found = () => lines.find(({ requestId }) => requestId === id)
    await until(() => found() !== undefined, `a line of ${id}`)
    return found()!
  }
  return { ...paid, lines, lineOf }
}

const uuid = /^[0-9a-f]{8}-[0-9a-f-]{27}$/
const idOf = ({ headers }: { headers: Headers }) => headers.get('x-request-id')
const paying = (nonce: string) => ({ 'payment-signature': scriptedPayment(nonce, '100000') })

t.test('whatever a call comes to, its answer has an id, and one line has the same', async (t) => {
  const { gateway, settler, call, lineOf, lines } = await start(t)
  const [good, bad] = await Promise.all([startSeller(t, 'hello'), startSeller(t, 'status-500')])
  const add = async (slug: string, url: string, price: string) => gateway.addLink({ slug, url, price })
  const [paid, free] = [await add('paid', good.url, '0.10'), await add('free', good.url, '0')]
  const broken = await add('broken', bad.url, '0.10')
  const link = { linkId: paid.id, link: 'demo/paid', method: 'GET' }

  const asked = await fetch(paid.url)
  t.match(idOf(asked), uuid)
  t.match(await lineOf(idOf(asked)), { event: 'call', ...link, outcome: '402', status: 402, ms: Number })

  const bought = await call(paid.url, { headers: paying('a') })
  const purchaseId = bought.headers.get('x-purchase-id')
  const line = await lineOf(idOf(bought))
  t.match(line, { ...link, outcome: 'paid', status: 200, purchaseId, sellerMs: Number, settleMs: Number })
  t.match(line['payer'], /^.{6}….{4}$/)
  t.notOk(JSON.stringify(line).includes(scriptedPayment('a', '100000')), 'no payment is logged')

  const again = await call(paid.url, { headers: paying('a') })
  t.not(idOf(again), idOf(bought), 'a repeat is another request')
  t.match(await lineOf(idOf(again)), { outcome: 'repeated', status: 200, purchaseId })

  const failed = await call(broken.url, { headers: paying('b') })
  const { error } = failed.body as unknown as { error: { requestId: string } }
  t.equal(error.requestId, idOf(failed))
  t.match(await lineOf(idOf(failed)), { outcome: 'failed', status: 502, code: 'upstream_error' })

  settler.settle = async () => ({ status: 'pending', transaction: '0x1', reason: 'test' })
  const pending = await call(paid.url, { headers: paying('c') })
  t.match(await lineOf(idOf(pending)), { outcome: 'pending', code: 'settlement_pending' })

  const refused = await call(paid.url, { headers: { 'payment-signature': 'e30=' } })
  t.match(await lineOf(idOf(refused)), { outcome: 'refused', code: String })

  const freely = await fetch(free.url)
  t.match(await lineOf(idOf(freely)), { outcome: 'free', status: 200, link: 'demo/free', sellerMs: Number })

  for (const [path, init, status] of [
    ['/api/link/demo/none', {}, 404],
    ['/api/link/demo/paid/%zz', {}, 400],
    ['/api/link/demo/paid', { method: 'OPTIONS' }, 204],
  ] as const) {
    const response = await fetch(gateway.url + path, init)
    t.equal(response.status, status, path)
    t.match(idOf(response), uuid, path)
    if (status >= 400) t.match(await lineOf(idOf(response)), { outcome: 'refused', status })
  }
  t.equal(new Set(lines.map(({ requestId }) => requestId)).size, lines.length, 'one line a call')
})

t.test('what is no HTTP, and an upgrade that is refused, have an id that the log has', async (t) => {
  const { gateway, lineOf } = await start(t)
  const talk = (bytes: string) =>
    new Promise<string>((resolve) => {
      let text = ''
      const socket = connect(gateway.port, '127.0.0.1', () => void socket.write(bytes))
      socket.on('data', (piece) => (text += piece)).on('close', () => resolve(text))
    })
  const upgrade = 'Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
  for (const bytes of [
    'no http\r\n\r\n',
    'GET /api/link/demo/x HTTP/1.1\r\n\r\n',
    `POST /api/link/demo/x HTTP/1.1\r\n${upgrade}\r\n`,
    `GET /api/link/demo/x HTTP/1.1\r\n${upgrade}\r\n`,
  ]) {
    const text = await talk(bytes)
    const ids = [...text.matchAll(/^X-Request-Id: (\S+)\r$/gim)]
    t.equal(ids.length, 1, JSON.stringify(bytes))
    t.ok(text.includes(`"requestId":"${ids[0]![1]}"`))
    t.match(await lineOf(ids[0]![1]!), { event: 'call', outcome: 'refused' })
  }
})

t.test(
  "the caller's id and trace are kept where they have the form of one, and reach the seller",
  async (t) => {
    const { gateway, lineOf } = await start(t)
    let got: readonly string[] = []
    const seller = await sellerOf(t, (req, res) => {
      got = req.rawHeaders
      res.writeHead(200, { 'X-Request-Id': 'of-the-seller' }).end('ok')
    })
    const { url } = await gateway.addLink({ slug: 'free', url: seller.url })
    const sent = (name: string) => got.filter((_, i) => got[i - 1]?.toLowerCase() === name)
    const trace = '0af7651916cd43dd8448eb211c80319c'
    const traceparent = `00-${trace}-b7ad6b7169203331-01`
    for (const id of ['req_0123456789', '1-67891233-abcdef012345678912345678', 'a'.repeat(64)]) {
      const response = await fetch(url, { headers: { 'x-request-id': id, traceparent } })
      t.equal(idOf(response), id, "the seller's own is not the answer's")
      t.match(await lineOf(id), { traceId: trace })
      t.strictSame(sent('x-request-id'), [id])
      t.strictSame(sent('traceparent'), [traceparent])
    }
    for (const id of [
      '',
      'short',
      'a'.repeat(65),
      'with a space',
      '{"a":"bcdefgh"}',
      'd\u00e9j\u00e0-vu-encore',
    ]) {
      const response = await fetch(url, { headers: { 'x-request-id': id, traceparent: '00-xyz-1-01' } })
      t.match(idOf(response), uuid, id)
      t.equal((await lineOf(idOf(response)))['traceId'], undefined)
      t.strictSame(sent('x-request-id'), [idOf(response)])
    }
    const two = [
      ['x-request-id', 'first-of-two'],
      ['x-request-id', 'second-of-two'],
    ] as [string, string][]
    t.match(idOf(await fetch(url, { headers: two })), uuid, 'two are none')
  },
)

t.test('a stream, a body in pieces and a call that is left behind have one id each', async (t) => {
  const paid = await start(t)
  const seller = await sellerOf(t, (_req, res) => {
    res.write('a')
    setImmediate(() => res.end('b'))
  })
  const { url } = await paid.gateway.addLink({ slug: 'stream', url: seller.url })
  const response = await fetch(url)
  t.equal(await response.text(), 'ab')
  t.match(idOf(response), uuid)
  await callAndGo(t, paid, '0')
  await until(() => paid.lines.some(({ outcome }) => outcome === 'left'), 'the line of who has left')
})

t.test('the slug of a stealth link is not in the log', async (t) => {
  const { gateway, lineOf } = await start(t)
  const seller = await startSeller(t, 'hello')
  const privateSlug = 'c'.repeat(32)
  const link = { slug: 'hidden', isStealth: true, privateSlug, url: seller.url }
  const { id } = await gateway.addLink(link)
  const response = await fetch(`${gateway.url}/api/link/demo/${privateSlug}`)
  const line = await lineOf(idOf(response))
  t.match(line, { linkId: id, outcome: 'free' })
  t.notOk(JSON.stringify(line).includes(privateSlug))
})

t.test('402s and free calls are sampled, a flood is cut, and what came with a payment is not', async (t) => {
  const none = { unpaidShare: 0, unpaidPerSecond: 100 }
  const cut = { unpaidShare: 1, unpaidPerSecond: 0 }
  for (const accessLog of [none, cut]) {
    const { gateway, call, lines, lineOf } = await start(t, { options: { accessLog } })
    const seller = await startSeller(t, 'hello')
    const { url } = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
    for (let i = 0; i < 3; i++) t.match(idOf(await fetch(url)), uuid)
    const bought = await call(url, { headers: paying('a') })
    t.match(await lineOf(idOf(bought)), { outcome: 'paid', leftOut: accessLog === cut ? 3 : undefined })
    t.equal(lines.length, 1)
    const missing = await fetch(`${gateway.url}/api/link/demo/none`)
    if (accessLog === none) t.match(await lineOf(idOf(missing)), { code: 'link_not_found' })
  }
})

t.test(
  'a flood of headers that are no payment is cut as any other, apart from calls without one',
  async (t) => {
    const plugins = [{ use: 'rate-limit', with: { paymentPoints: 3 } }, ...shortPlugins]
    const options = { accessLog: { unpaidShare: 1, unpaidPerSecond: 0 } }
    const { gateway, call, lines, lineOf } = await start(t, { plugins, options })
    const seller = await startSeller(t, 'hello')
    const { url } = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
    const bought = await call(url, { headers: paying('a') })
    const nowhere = `${gateway.url}/api/link/demo/%00`
    const junk = { headers: { 'payment-signature': 'junk' } }
    for (const [address, status] of [
      ...[url, url, url].map((address) => [address, 400] as const),
      ...[url, url].map((address) => [address, 429] as const),
      ...[nowhere, nowhere].map((address) => [address, 400] as const),
    ])
      t.equal((await fetch(address, junk)).status, status)
    t.match(await lineOf(idOf(bought)), { outcome: 'paid' })
    t.equal(lines.length, 1)
  },
)

import t from 'tap'
import { limits, startImpatient, statusOf } from './helpers/impatient.ts'
import { hasWholeResponse, openSocket, talk, until } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { startSeller } from './helpers/sellers.ts'

const { gateway, pay } = await startImpatient(t, 'method')

t.test('HEAD, OPTIONS, 204, 304 and ranges pass a free link as the seller answers them', async (t) => {
  const seller = await sellerOf(t, (req, res) => {
    if (req.url === '/204') res.writeHead(204, { 'x-a': '1' }).end()
    else if (req.url === '/304') res.writeHead(304, { etag: '"e"' }).end()
    else if (req.headers.range)
      res.writeHead(206, { 'content-range': 'bytes 0-1/5', 'content-length': 2 }).end('he')
    else
      res
        .writeHead(200, { 'content-length': 5, allow: 'GET' })
        .end(req.method === 'HEAD' ? undefined : 'hello')
  })
  const link = await gateway.addLink({ slug: 'methods', url: seller.url })
  const head = await fetch(link.url, { method: 'HEAD' })
  t.match({ status: head.status, length: head.headers.get('content-length') }, { status: 200, length: '5' })
  t.equal((await fetch(`${link.url}/204`)).status, 204)
  const unchanged = await fetch(`${link.url}/304`, { headers: { 'if-none-match': '"e"' } })
  t.match({ status: unchanged.status, etag: unchanged.headers.get('etag') }, { status: 304, etag: '"e"' })
  const part = await fetch(link.url, { headers: { range: 'bytes=0-1' } })
  t.match(
    { status: part.status, text: await part.text(), range: part.headers.get('content-range') },
    { status: 206, text: 'he', range: 'bytes 0-1/5' },
  )
  const options = await fetch(link.url, { method: 'OPTIONS' })
  t.match({ status: options.status, allow: options.headers.get('allow') }, { status: 200, allow: 'GET' })
})

t.test('a link takes the methods it lists, and says which', async (t) => {
  const seller = await startSeller(t, 'hello')
  for (const price of ['0', '0.10']) {
    const link = await gateway.addLink({
      slug: `only-${price.replace('.', '-')}`,
      url: seller.url,
      price,
      methods: ['POST'],
    })
    const refused = await fetch(link.url)
    t.match(
      { status: refused.status, allow: refused.headers.get('allow') },
      { status: 405, allow: 'POST, OPTIONS' },
    )
    t.match(await refused.json(), { success: false, error: { code: 'method_not_allowed' } })
    const options = await fetch(link.url, { method: 'OPTIONS' })
    t.match(
      { status: options.status, allow: options.headers.get('allow') },
      { status: 204, allow: 'POST, OPTIONS' },
    )
    t.equal((await fetch(link.url, { method: 'HEAD' })).status, price === '0' ? 405 : 402)
    t.equal(await statusOf(await fetch(link.url, { method: 'POST' })), price === '0' ? 200 : 402)
  }
  t.equal(seller.requests.length, 1)
})

t.test('HEAD and OPTIONS are no way past the price', async (t) => {
  const seller = await startSeller(t, 'hello')
  const link = await gateway.addLink({ slug: 'priced', url: seller.url, price: '0.10' })
  for (const headers of [{}, pay()]) {
    const head = await fetch(link.url, { method: 'HEAD', headers })
    t.equal(head.status, 402)
    t.ok(head.headers.get('payment-required'))
    t.equal(await head.text(), '')
    t.equal((await fetch(link.url, { method: 'OPTIONS', headers })).status, 204)
  }
  t.equal(seller.requests.length, 0)
})

t.test('a body that is too large is 413, stated or not, and the seller gets no whole request', async (t) => {
  let whole = 0
  const seller = await sellerOf(t, (req, res) => {
    req.resume().on('end', () => {
      whole++
      res.end()
    })
  })
  const link = await gateway.addLink({ slug: 'large', url: seller.url })
  const stated = await talk(
    gateway.port,
    `POST ${link.path} HTTP/1.1\r\nHost: g\r\nContent-Length: ${limits.maxRequestBytes + 1}\r\n\r\n`,
    hasWholeResponse,
  )
  t.strictSame(stated.statuses, [413])
  t.match(stated.text, /payload_too_large/)
  const body = new ReadableStream({
    start(controller) {
      for (let i = 0; i <= limits.maxRequestBytes / 1_048_576; i++)
        controller.enqueue(new Uint8Array(1_048_576))
      controller.close()
    },
  })
  const chunked = await fetch(link.url, { method: 'POST', body, duplex: 'half' } as RequestInit)
  t.equal(chunked.status, 413)
  t.equal(whole, 0)
})

t.test('Expect: 100-continue is met when the body is wanted, and not for a 402', async (t) => {
  const seller = await startSeller(t, 'echo')
  const expects = (path: string) =>
    `POST ${path} HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n`
  const free = await gateway.addLink({ slug: 'expect', url: seller.url })
  const socket = await openSocket(t, gateway.port)
  let text = ''
  socket.on('data', (chunk: Buffer) => (text += chunk))
  socket.write(expects(free.path))
  await until(() => text.includes('100 Continue\r\n\r\n'))
  t.equal(seller.requests.length, 0, 'the seller waits for the body')
  socket.write('body')
  await until(() => text.includes(' 200 '))
  t.match(seller.requests[0], { body: Buffer.from('body') })
  t.notOk(seller.requests[0]!.rawHeaders.some((name) => name.toLowerCase() === 'expect'))

  const paid = await gateway.addLink({ slug: 'expect-paid', url: seller.url, price: '0.10' })
  for (const [path, status] of [
    [paid.path, 402],
    ['/api/link/demo/none', 404],
  ] as const) {
    const response = await talk(gateway.port, expects(path))
    t.strictSame(
      { statuses: response.statuses, closed: response.closed },
      { statuses: [status], closed: true },
    )
  }
  const unknown = await talk(
    gateway.port,
    expects(free.path).replace('100-continue', 'something'),
    hasWholeResponse,
  )
  t.strictSame(unknown.statuses, [417])
})

import t from 'tap'
import { startGateway } from './helpers/gateway.ts'
import { hasWholeResponse, openSocket, talk, until } from './helpers/rawHttp.ts'
import { startSeller } from './helpers/sellers.ts'

const seller = await startSeller(t, 'echo')
const gateway = await startGateway(t, { options: { headersTimeoutMs: 300, requestTimeoutMs: 600 } })
const link = await gateway.addLink({ slug: 'free', url: seller.url })
const { path } = link

/** A second request behind the bad one: a parser that reads the first differently must not let this one through. */
const next = `GET ${path}/smuggled HTTP/1.1\r\nHost: g\r\n\r\n`
const get = (target: string, more = '') => `GET ${target} HTTP/1.1\r\nHost: g\r\n${more}\r\n`
const post = (more: string, body: string) => `POST ${path} HTTP/1.1\r\nHost: g\r\n${more}\r\n${body}`

const refused: Record<string, string> = {
  'two Hosts': get(path, 'Host: h\r\n'),
  'two equal Hosts': get(path, 'Host: g\r\n'),
  'no Host': `GET ${path} HTTP/1.1\r\n\r\n`,
  'absolute form': get(`http://g${path}`),
  'absolute form of another scheme': get(`https://g${path}`),
  'authority form': get('g:80'),
  'asterisk form': 'OPTIONS * HTTP/1.1\r\nHost: g\r\n\r\n',
  'no leading slash': get(path.slice(1)),
  TRACE: `TRACE ${path} HTTP/1.1\r\nHost: g\r\n\r\n`,
  CONNECT: 'CONNECT g:443 HTTP/1.1\r\nHost: g\r\n\r\n',
  'HTTP/0.9': `GET ${path}\r\n\r\n`,
  'HTTP/0.9 by name': `GET ${path} HTTP/0.9\r\nHost: g\r\n\r\n`,
  'HTTP/1.2': `GET ${path} HTTP/1.2\r\nHost: g\r\n\r\n`,
  'HTTP/2.0': `GET ${path} HTTP/2.0\r\nHost: g\r\n\r\n`,
  'HTTP/3.0': `GET ${path} HTTP/3.0\r\nHost: g\r\n\r\n`,
  'HTTP/1.10': `GET ${path} HTTP/1.10\r\nHost: g\r\n\r\n`,
  'HTTP/1': `GET ${path} HTTP/1\r\nHost: g\r\n\r\n`,
  'http/1.1': `GET ${path} http/1.1\r\nHost: g\r\n\r\n`,
  'HTTP/1.1 and more': `GET ${path} HTTP/1.1 x\r\nHost: g\r\n\r\n`,
  'HTTPS/1.1': `GET ${path} HTTPS/1.1\r\nHost: g\r\n\r\n`,
  'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'two spaces before the target': `GET  ${path} HTTP/1.1\r\nHost: g\r\n\r\n`,
  'two spaces before the version': `GET ${path}  HTTP/1.1\r\nHost: g\r\n\r\n`,
  'a tab as separator': `GET\t${path}\tHTTP/1.1\r\nHost: g\r\n\r\n`,
  'a space before the method': ` GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`,
  'a space in the target': get(`${path}/a b`),
  'a lower-case method': `get ${path} HTTP/1.1\r\nHost: g\r\n\r\n`,
  'an unknown method': `FROBNICATE ${path} HTTP/1.1\r\nHost: g\r\n\r\n`,
  'a header without a colon': get(path, 'X-A\r\n'),
  'a header without a name': get(path, ': a\r\n'),
  'a space before the colon': get(path, 'X-A : b\r\n'),
  'a space before the first header': `GET ${path} HTTP/1.1\r\n Host: g\r\n\r\n`,
  'a NUL in a value': get(path, 'X-A: b\0c\r\n'),
  'a NUL in a name': get(path, 'X-\0A: b\r\n'),
  'a lone CR in a value': get(path, 'X-A: b\rX-B: c\r\n'),
  'bare LF between lines': `GET ${path} HTTP/1.1\nHost: g\n\n`,
  'a bare LF at the end of one header': `GET ${path} HTTP/1.1\r\nHost: g\r\nX-A: b\n\r\n`,
  'a folded header': get(path, 'X-A: b\r\n c\r\n'),
  'a folded Transfer-Encoding': post('Transfer-Encoding:\r\n chunked\r\n', '0\r\n\r\n'),
  'Transfer-Encoding gzip': post('Transfer-Encoding: gzip\r\n', 'x'),
  'Transfer-Encoding gzip, chunked': post('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n'),
  'Transfer-Encoding chunked, gzip': post('Transfer-Encoding: chunked, gzip\r\n', '0\r\n\r\n'),
  'Transfer-Encoding chunked twice': post('Transfer-Encoding: chunked, chunked\r\n', '0\r\n\r\n'),
  'Transfer-Encoding identity': post('Transfer-Encoding: identity\r\n', '0\r\n\r\n'),
  'Transfer-Encoding xchunked': post('Transfer-Encoding: xchunked\r\n', '0\r\n\r\n'),
  'Transfer-Encoding with a parameter': post('Transfer-Encoding: chunked;a=b\r\n', '0\r\n\r\n'),
  'Transfer-Encoding in quotes': post('Transfer-Encoding: "chunked"\r\n', '0\r\n\r\n'),
  'Transfer-Encoding after a vertical tab': post('Transfer-Encoding: \x0bchunked\r\n', '0\r\n\r\n'),
  'two Transfer-Encodings': post(
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n',
    '0\r\n\r\n',
  ),
  'two equal Transfer-Encodings': post(
    'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n',
    '0\r\n\r\n',
  ),
  'Transfer-Encoding before Content-Length': post(
    'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n',
    '0\r\n\r\n',
  ),
  'Content-Length before Transfer-Encoding': post(
    'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n',
    '0\r\n\r\n',
  ),
  'Transfer-Encoding in HTTP/1.0': `POST ${path} HTTP/1.0\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'two different Content-Lengths': post('Content-Length: 1\r\nContent-Length: 2\r\n', 'ab'),
  'two equal Content-Lengths': post('Content-Length: 1\r\nContent-Length: 1\r\n', 'a'),
  'a list of Content-Lengths': post('Content-Length: 1, 1\r\n', 'a'),
  'a signed Content-Length': post('Content-Length: +1\r\n', 'a'),
  'a negative Content-Length': post('Content-Length: -1\r\n', 'a'),
  'a hexadecimal Content-Length': post('Content-Length: 0x1\r\n', 'a'),
  'a fractional Content-Length': post('Content-Length: 1.0\r\n', 'a'),
  'an empty Content-Length': post('Content-Length: \r\n', 'a'),
  'a Content-Length with a space in it': post('Content-Length: 1 1\r\n', 'a'),
  'a Content-Length beyond any': post(`Content-Length: ${'9'.repeat(30)}\r\n`, 'a'),
  'a Content-Length beyond what numbers hold': post('Content-Length: 9007199254740993\r\n', 'a'),
  'more headers than anybody sends': get(path, 'a: b\r\n'.repeat(600)),
  'three spaces in the second of two requests': `${get('/api/link/demo/none')}GET   ${path} HTTP/1.1\r\nHost: g\r\n\r\n`,
  noise: '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
}

const badHosts = [
  '',
  ' ',
  'user@g',
  'user:pass@g',
  '@g',
  'g, h',
  'g,h',
  'g h',
  'g:80 h',
  '[::1',
  '::1',
  '[::1]x',
  '[]',
  '[::1%eth0]',
  '[v1.a]',
  '<script>',
  'g/',
  'g/path',
  'g?q',
  'g#f',
  'http://g',
  'g:port',
  'g:-1',
  'g:65536',
  'g:80:80',
  ':80',
  'g%',
  'g%4',
  'g%zz',
  'g\\h',
  'g"',
  'g\x80',
  'g\xe9',
  `${'a'.repeat(300)}`,
]
for (const host of badHosts) {
  refused[`Host: ${JSON.stringify(host).slice(0, 20)}`] = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`
}
refused['a bad Host before one that is none of the gateway’s links'] =
  'GET /healthz HTTP/1.1\r\nHost: a@b\r\n\r\n'
refused['a bad Host in HTTP/1.0'] = `GET ${path} HTTP/1.0\r\nHost: a@b\r\n\r\n`
refused['a bad Host of an upgrade'] = get(path, 'Connection: Upgrade\r\nUpgrade: websocket\r\n').replace(
  'Host: g',
  'Host: [::1',
)

t.test('a head that can be read in two ways is answered 400, and nothing is forwarded', async (t) => {
  for (const [name, bytes] of Object.entries(refused)) {
    const { text, statuses, closed } = await talk(gateway.port, bytes + next)
    t.equal(statuses.at(-1), 400, `${name}: refused`)
    t.match(text, /X-Request-Id: ([\w-]{36})\r\n[\s\S]*"requestId":"\1"/, `${name}: its id`)
    t.ok(statuses.length === (name.includes('second of two') ? 2 : 1), `${name}: the last answer`)
    t.ok(closed, `${name}: closed`)
  }
  t.strictSame(seller.requests, [], 'the seller was not called')
})

t.test('a head that is too large is 431', async (t) => {
  const floods = ['x-flood: aaaaaaaaaaaaaaaaaaaa\r\n'.repeat(2_000), 'a:\r\n'.repeat(2_100)]
  for (const more of [`X-A: ${'a'.repeat(40_000)}\r\n`, ...floods]) {
    const { statuses, closed } = await talk(gateway.port, get(path, more) + next)
    t.strictSame({ statuses, closed }, { statuses: [431], closed: true })
  }
  const endless = await talk(gateway.port, `GET ${path}${'a'.repeat(1_000_000)}`)
  t.strictSame(endless.statuses, [431])
  t.equal(seller.requests.length, 0)
})

t.test('a head that comes too slowly is 408', async (t) => {
  const { statuses, closed } = await talk(gateway.port, `GET ${path} HTTP/1.1\r\nHost: g\r\n`)
  t.strictSame({ statuses, closed }, { statuses: [408], closed: true })
})

t.test('a body that comes too slowly ends the call, and the seller gets no whole request', async (t) => {
  const { statuses, closed } = await talk(gateway.port, post('Content-Length: 10\r\n', 'half'))
  t.strictSame({ statuses, closed }, { statuses: [408], closed: true })
  t.equal(seller.requests.length, 0)
})

t.test('what follows a refused request is not looked at, whatever path the first one had', async (t) => {
  for (const first of [get('/other/../x'), get('//evil'), get('/api/link/demo/free/%2e%2e/x'), get('*')]) {
    const { statuses, closed } = await talk(gateway.port, first + next.repeat(3))
    t.strictSame({ statuses, closed }, { statuses: [400], closed: true })
  }
  t.equal(seller.requests.length, 0)
})

t.test(
  'a good request before a bad one is answered first, and is the last to reach the seller',
  async (t) => {
    const before = seller.requests.length
    const bad = get(`${path}/%2e%2e/x`)
    const { statuses, closed } = await talk(gateway.port, get(path) + bad + next)
    t.strictSame({ statuses, closed }, { statuses: [200, 400], closed: true })
    t.equal(seller.requests.length - before, 1)
  },
)

t.test('bytes behind a request never stand in the middle of its answer', async (t) => {
  const big = await startSeller(t, 'big')
  const download = await gateway.addLink({ slug: 'big', url: big.url })
  const socket = await openSocket(t, gateway.port)
  let text = ''
  socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')))
  socket.write(get(download.path))
  await until(() => text.includes('xxxx'), 'the answer to begin')
  socket.write('NOT HTTP\r\n\r\n')
  await new Promise((resolve) => socket.on('close', resolve))
  t.equal(text.split('HTTP/1.1').length, 2, 'one status line')
  t.notMatch(text, 'bad_request')
})

t.test('HTTP/1.0 is served, without keeping the connection', async (t) => {
  const { statuses, closed } = await talk(gateway.port, `GET ${path} HTTP/1.0\r\n\r\n`)
  t.strictSame({ statuses, closed }, { statuses: [200], closed: true })
  const waiting = 'Expect: 100-continue\r\nContent-Length: 1\r\n'
  const post = await talk(gateway.port, `POST ${path} HTTP/1.0\r\n${waiting}\r\n1`)
  t.strictSame(post.statuses, [200], 'and is told of no more than its answer (RFC 9110, section 10.1.1)')
})

t.test('pipelined good requests are answered in their order', async (t) => {
  const one = (n: number) => post(`Content-Length: 1\r\n`, String(n))
  const { text } = await talk(gateway.port, one(1) + one(2) + one(3), (all) => /3\r\n0\r\n\r\n$/.test(all))
  t.strictSame(
    [...text.matchAll(/\r\n\r\n1\r\n(\d)/g)].map((m) => m[1]),
    ['1', '2', '3'],
  )
})

t.test('an upgrade takes GET without a body and nothing else', async (t) => {
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'
  const before = seller.requests.length
  for (const bytes of [
    post(`${upgrade}Content-Length: 0\r\n`, ''),
    post(`${upgrade}Content-Length: 4\r\n`, 'body'),
    get(path, `${upgrade}Content-Length: 4\r\n`),
    get(path, `${upgrade}Transfer-Encoding: chunked\r\n`),
    get('//x', upgrade),
    get(`${path}/../x`, upgrade),
    get('http://g/x', upgrade),
    get(path, `${upgrade}Host: h\r\n`),
  ]) {
    const { statuses, closed } = await talk(gateway.port, bytes + next)
    t.strictSame({ statuses, closed }, { statuses: [400], closed: true })
  }
  t.equal(seller.requests.length, before)
})

t.test('Upgrade to anything but a WebSocket is an ordinary request', async (t) => {
  const h2c = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n'
  const { text } = await talk(gateway.port, get(path, h2c), hasWholeResponse)
  t.match(text, /^HTTP\/1\.1 200 /)
  const sent = seller.requests.at(-1)!.rawHeaders.map((name) => name.toLowerCase())
  t.notOk(sent.includes('upgrade') || sent.includes('http2-settings'))
})

t.test('a well-formed Host is taken, whatever it names', async (t) => {
  const before = seller.requests.length
  for (const host of [
    'g',
    'G.Example.',
    '127.0.0.1',
    '127.0.0.1:80',
    '[::1]',
    '[2001:db8::1]:8080',
    'a_b',
    'g:',
    'xn--nxasmq6b',
    'a%20b',
  ]) {
    const { statuses } = await talk(
      gateway.port,
      `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
      hasWholeResponse,
    )
    t.strictSame(statuses, [200], host)
  }
  t.equal(seller.requests.length - before, 10)
})

import t from 'tap'
import type { UpstreamRequest } from '../../../core/ports/egress.ts'
import { chunked, isPlain, readHead, untilClose, writeHead } from './message.ts'

const head = (...fields: string[]) => ['HTTP/1.1 200 OK', ...fields].join('\r\n')

t.test('a head is read as it came, white space around values aside', async (t) => {
  const read = readHead(
    head('Content-Type: text/plain', 'x-a:  b\t', 'X-Empty:', 'Content-Length: 12'),
    false,
  )
  t.strictSame(read.rawHeaders, [
    ...['Content-Type', 'text/plain', 'x-a', 'b', 'X-Empty', ''],
    ...['Content-Length', '12'],
  ])
  t.match(read, { status: 200, length: 12, isKept: true })
  t.equal(readHead('HTTP/1.1 404', false).status, 404, 'a reason is optional')
})

t.test('the length of a body follows RFC 9112, section 6.3', async (t) => {
  t.equal(readHead(head('Transfer-Encoding: Chunked'), false).length, chunked)
  t.equal(readHead(head(), false).length, untilClose)
  t.equal(readHead(head('Content-Length: 5'), true).length, 0, 'the answer to HEAD has none')
  for (const status of [103, 204, 304]) {
    t.equal(readHead(`HTTP/1.1 ${status} x\r\nContent-Length: 5`, false).length, 0, `${status}`)
  }
})

t.test('a connection is kept only when its next answer can be told from this one', async (t) => {
  t.equal(readHead(head(), false).isKept, false, 'the end of the connection ends the body')
  t.equal(readHead(head('Connection: Close', 'Content-Length: 0'), false).isKept, false)
  t.equal(readHead(head('Connection: x, close', 'Content-Length: 0'), false).isKept, false)
  t.equal(readHead('HTTP/1.0 200 OK\r\nContent-Length: 0', false).isKept, false)
})

t.test('what two readers could understand differently is refused', async (t) => {
  const bad = [
    '',
    'ICY 200 OK',
    'HTTP/1.1 2x0 OK',
    'HTTP/2.0 200 OK',
    'HTTP/1.1  200 OK',
    'HTTP/1.1 200 O\0K',
    'HTTP/1.0 103 Early Hints',
    'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked',
    head('no colon'),
    head(': no name'),
    head('space : before'),
    head('X-A: b', ' folded'),
    head('X-A: b\rSet-Cookie: c'),
    head('X-A: b\nSet-Cookie: c'),
    head('X-A: b\0c'),
    head('X-\xe4: b'),
    head('Content-Length: 1', 'Content-Length: 1'),
    head('Content-Length: 1', 'Transfer-Encoding: chunked'),
    head('Transfer-Encoding: chunked', 'Content-Length: 1'),
    head('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'),
    head('Transfer-Encoding: gzip, chunked'),
    ...['-1', '+1', '1, 1', '0x1', '1e3', '', '1234567890123456'].map((n) => head(`Content-Length: ${n}`)),
  ]
  for (const text of bad) t.throws(() => readHead(text, false), { code: 'EGRESS_BAD_ANSWER' }, text)
})

const request = (given: Partial<UpstreamRequest>): UpstreamRequest => ({
  path: '/',
  method: 'GET',
  headers: [],
  body: null,
  headersTimeout: 0,
  bodyTimeout: 0,
  ...given,
})
const host = 'Host: seller.test\r\n'

t.test('the length is that of the body that is sent, whatever the headers say', async (t) => {
  const headers = ['Content-Length', '7', 'X-A', 'b']
  const kept = `${host}Connection: keep-alive\r\n`
  const lines = `POST /a?b HTTP/1.1\r\n${kept}X-A: b\r\nContent-Length: `
  const post = { method: 'POST', path: '/a?b', headers }
  t.equal(writeHead(request({ ...post, body: Buffer.from('abc') }), host), `${lines}3\r\n\r\n`)
  t.equal(writeHead(request(post), host), `${lines}0\r\n\r\n`)
  t.equal(writeHead(request({}), host), `GET / HTTP/1.1\r\n${kept}\r\n`)
  t.equal(writeHead(request({ reset: true }), host), `GET / HTTP/1.1\r\n${host}Connection: close\r\n\r\n`)
})

t.test('nothing can begin another line', async (t) => {
  const bad: Partial<UpstreamRequest>[] = [
    { path: '/a b' },
    { path: '/\r\nX: y' },
    { path: 'http://other/' },
    { path: '/\x80' },
    ...['a\r\nb', 'a\nb', 'a\rb', 'a\0b', '\u0100'].map((value) => ({ headers: ['X-A', value] })),
    ...['', 'a b', 'a\r\nb', 'a:b', '\xe4'].map((name) => ({ headers: [name, 'x'] })),
  ]
  for (const one of bad) {
    t.throws(() => writeHead(request(one), host), { code: 'EGRESS_BAD_REQUEST' }, JSON.stringify(one))
  }
})

t.test('what says how the connection is used goes another way', async (t) => {
  t.ok(isPlain(request({ headers: ['Accept', '*/*'], body: Buffer.alloc(1) })))
  for (const name of ['Host', 'Expect', 'upgrade', 'Connection', 'Keep-Alive', 'TRANSFER-ENCODING']) {
    t.notOk(isPlain(request({ headers: [name, 'x'] })), name)
  }
  t.notOk(isPlain(request({ method: 'CONNECT' })))
  t.notOk(isPlain(request({ upgrade: 'websocket' })))
  t.notOk(isPlain(request({ body: process.stdin })))
})

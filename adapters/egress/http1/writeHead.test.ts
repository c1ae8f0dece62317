import t from 'tap'
import type { UpstreamRequest } from '../../../core/ports/egress.ts'
import { isPlain, writeHead } from './writeHead.ts'

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

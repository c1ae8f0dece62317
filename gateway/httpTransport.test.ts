import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { PreparedReply, type Reply } from '../core/http/replies.ts'
import { talk } from '../test/helpers/rawHttp.ts'
import { send } from './httpTransport.ts'

const headers = ['Content-Type', 'application/json', 'Content-Length', '5', 'PAYMENT-REQUIRED', 'e30=']
const prepared = new PreparedReply(402, headers, '{"\xc3"}')
const ordinary: Reply = { status: 402, headers, body: '{"\xc3"}' }

/** What a server that always sends this reply sends on one connection, and how often Node made a head meanwhile. */
async function headOf(reply: Reply, bytes: string, keepAliveTimeout: number, extra: string[] | null) {
  let made = 0
  const server = createServer({ keepAliveTimeout }, (req, res) => {
    const writeHead = res.writeHead.bind(res)
    res.writeHead = ((...args: Parameters<typeof writeHead>) => {
      made++
      return writeHead(...args)
    }) as typeof res.writeHead
    // The response to the request ahead is sent last.
    if (req.url === '/late') setTimeout(() => send(res, reply, extra, 'id-of-a-request'), 20)
    else send(res, reply, extra, 'id-of-a-request')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const count = bytes.split(' HTTP/1.').length - 1
  const { text } = await talk(
    (server.address() as AddressInfo).port,
    bytes,
    (text) => text.split('HTTP/1.1 402').length > count && !text.endsWith('\r\n'),
  )
  server.close()
  return { text: text.replaceAll(/\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/g, 'now'), made }
}

const get = (path: string, more = '', version = '1.1') =>
  `GET ${path} HTTP/${version}\r\nHost: a\r\n${more}\r\n`
const cases: readonly [
  what: string,
  bytes: string,
  keepAliveMs: number,
  extra: string[] | null,
  made: number,
][] = [
  ['one request', get('/'), 65_000, null, 0],
  [
    'several in one piece, the first of which is answered last',
    get('/late') + get('/') + get('/'),
    5_000,
    null,
    0,
  ],
  ['HEAD, and GET after it', `HEAD / HTTP/1.1\r\nHost: a\r\n\r\n${get('/')}`, 65_000, null, 0],
  ['HTTP/1.0 that stays', get('/', 'Connection: keep-alive\r\n', '1.0'), 65_000, null, 0],
  ['HTTP/1.0', get('/', '', '1.0'), 65_000, null, 1],
  ['a connection that its caller ends', get('/', 'Connection: close\r\n'), 65_000, null, 1],
  ['a server that keeps no connection', get('/'), 0, null, 1],
  ['an answer with headers of its own', get('/'), 65_000, ['X-Other', 'a'], 1],
]
for (const [what, bytes, keepAliveMs, extra, made] of cases) {
  t.test(`a reply with its head made before has the bytes that node would write: ${what}`, async (t) => {
    const [ours, nodes] = await Promise.all(
      [prepared, ordinary].map((reply) => headOf(reply, bytes, keepAliveMs, extra)),
    )
    t.equal(ours!.text, nodes!.text)
    t.match(ours!.text, /^HTTP\/1\.1 402 Payment Required\r\n/)
    t.match(ours!.text, /\r\nDate: now\r\n/)
    t.equal(ours!.made, made, 'heads that node made')
  })
}

t.test('the date is the one of the answer', async (t) => {
  for (const waitMs of [0, 1_100]) {
    await new Promise((resolve) => setTimeout(resolve, waitMs))
    const before = Math.floor(Date.now() / 1_000) * 1_000
    const server = createServer((_req, res) => send(res, prepared, null, 'id-of-a-request')).listen(
      0,
      '127.0.0.1',
    )
    await once(server, 'listening')
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    const atMs = Date.parse(response.headers.get('date')!)
    t.ok(atMs >= before && atMs <= Date.now(), response.headers.get('date')!)
    server.closeAllConnections()
    server.close()
  }
})

t.test('what somebody who traces calls has set on the response is in the head as well', async (t) => {
  const server = createServer((_req, res) => {
    res.setHeader('traceresponse', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01')
    send(res, prepared, null, 'id-of-a-request')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { headers } = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  t.match(headers.get('traceresponse'), /^00-/)
  t.equal(headers.get('payment-required'), 'e30=')
  server.closeAllConnections()
  server.close()
})

t.test('what is made of a prepared reply is an ordinary one: its head would be another’s', (t) => {
  const changed = { ...prepared, headers: [...headers, 'X-Other', 'a'] }
  t.notOk(changed instanceof PreparedReply)
  t.end()
})

import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { silentLog } from '../core/ports/log.ts'
import { startGateway } from '../test/helpers/gateway.ts'
import { openSocket, until } from '../test/helpers/rawHttp.ts'
import { AdminForwarder } from './adminForwarder.ts'

/** A request that the gateway would not make: its caller itself claims where it comes from. */
const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: g\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n'
const chunked = `${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`

const seen: { line: string; headers: IncomingMessage['headers']; body: string }[] = []
const admin = createServer(async (req, res) => {
  const pieces = await req.toArray()
  seen.push({
    line: `${req.method} ${req.url}`,
    headers: req.headers,
    body: Buffer.concat(pieces).toString(),
  })
  res.end('{}')
}).listen(0, '127.0.0.1')
await once(admin, 'listening')
t.teardown(() => {
  admin.closeAllConnections()
  admin.close()
})
const target = `http://127.0.0.1:${(admin.address() as AddressInfo).port}`
const { port } = await startGateway(t, { forwarder: new AdminForwarder(() => target, 10_000, silentLog) })

const connections = [
  ...['', 'Connection: close\r\n', 'Connection: upgrade\r\n', 'Connection: keep-alive, Upgrade\r\n'],
  ...['Connection: upgrade, transfer-encoding\r\n', 'Connection: upgrade\r\nUpgrade: other\r\n'],
  ...['Connection: x-forwarded-for, host\r\n', 'Connection: upgrade\r\nTE: trailers\r\nKeep-Alive: 5\r\n'],
]

t.test('a request that is handed over stays one, whatever it says of body and connection', async (t) => {
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
    for (const more of connections) {
      seen.length = 0
      const socket = await openSocket(t, port)
      let text = ''
      socket.on('data', (data: Buffer) => (text += data.toString('latin1')))
      const head = `${method} /first HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n`
      socket.write(`${head}${more}\r\n${chunked}`)
      await until(() => text.includes('\r\n\r\n'), `an answer to ${method} ${more}`)
      // By then everything that came with the first has been read.
      const end = await openSocket(t, port)
      end.write('GET /end HTTP/1.1\r\nHost: g\r\n\r\n')
      await until(() => seen.some(({ line }) => line === 'GET /end'))
      socket.destroy()
      end.destroy()
      const [first] = seen
      t.strictSame(
        seen.map(({ line }) => line),
        [`${method} /first`, 'GET /end'],
        `${method} ${more}`,
      )
      t.equal(first!.body, smuggled, 'with the body that it had')
      t.equal(first!.headers['x-forwarded-for'], '127.0.0.1')
      t.match(first!.headers, { connection: 'close', te: undefined, 'keep-alive': undefined })
      t.equal(first!.headers.upgrade, undefined)
    }
  }
})

t.test(
  'requests behind an answer that is not read wait for it, in order, and end with their connection',
  async (t) => {
    const body = Buffer.alloc(8_000_000, 'x')
    const requests: string[] = []
    const large = createServer((req, res) => {
      requests.push(req.url!)
      res.end(req.url === '/end' ? '{}' : body)
    }).listen(0, '127.0.0.1')
    await once(large, 'listening')
    t.teardown(() => {
      large.closeAllConnections()
      large.close()
    })
    const to = `http://127.0.0.1:${(large.address() as AddressInfo).port}`
    const gateway = await startGateway(t, { forwarder: new AdminForwarder(() => to, 60_000, silentLog) })
    const askedByNow = async () => {
      const end = await openSocket(t, gateway.port)
      end.write('GET /end HTTP/1.1\r\nHost: g\r\n\r\n')
      await until(() => requests.includes('/end'))
      end.destroy()
      return requests.splice(0).filter((url) => url !== '/end')
    }
    const paths = Array.from({ length: 4 }, (_, i) => `/large/${i}`)
    const pipelined = paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`).join('')
    const [left, reads] = [await openSocket(t, gateway.port), await openSocket(t, gateway.port)]
    for (const socket of [left, reads]) socket.pause().write(pipelined)
    await until(() => requests.length >= 2, 'both first ones')
    t.strictSame(await askedByNow(), ['/large/0', '/large/0'])
    left.destroy()
    let bytes = 0
    reads.on('data', (data: Buffer) => (bytes += data.length)).resume()
    await until(() => bytes > paths.length * body.length, 'all answers')
    t.strictSame(
      await askedByNow(),
      paths.slice(1),
      'one after the other, and none of the connection that went',
    )
  },
)

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { startGateway } from './helpers/gateway.ts'
import { openSocket, type TalkResult, talk, until } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { startSeller } from './helpers/sellers.ts'

/** Answers nothing until the test says so, and counts who waits. */
const waiting = new Set<() => void>()
let most = 0
let requestCount = 0
const slow = await sellerOf(t, (_req, res) => {
  requestCount++
  waiting.add(() => res.end('{}'))
  most = Math.max(most, waiting.size)
})
const gateway = await startGateway(t, { plugins: [{ use: 'upstream' }] })
const link = await gateway.addLink({ slug: 'slow', url: slow.url })

const requests = (n: number) => `GET ${link.path} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(n)

t.test('one connection has few calls under way, however many requests it sends at once', async (t) => {
  const socket = connect(gateway.port, '127.0.0.1')
  socket.on('error', () => {})
  t.teardown(() => socket.destroy())
  socket.resume()
  socket.write(requests(1_000))
  await until(() => requestCount > 0, 'the first of them to reach the seller')
  await sleep(500)
  t.ok(most <= 32, `${most} calls of one connection are with the seller at once`)
  for (const respond of waiting) respond()
})

t.test('what comes behind a refused request takes no memory while a call ahead is waited for', async (t) => {
  waiting.clear()
  const socket = await openSocket(t, gateway.port)
  let output = ''
  socket.on('data', (bytes: Buffer) => (output += bytes.toString('latin1')))
  const before = process.memoryUsage().heapUsed
  const block = Buffer.from(requests(2_000))
  for (let i = 0; i < 50; i++) await new Promise((resolve) => socket.write(block, resolve))
  await sleep(500)
  const grownMb = (process.memoryUsage().heapUsed - before) / 1e6
  t.ok(grownMb < 40, `100,000 requests of one connection took ${grownMb.toFixed()} MB`)
  const answerAll = setInterval(() => {
    for (const respond of waiting) respond()
  }, 10)
  await once(socket, 'close')
  clearInterval(answerAll)
  t.equal(output.split('HTTP/1.1 200').length - 1, 17, 'those ahead have their answers')
  t.equal(output.split('HTTP/1.1 400').length - 1, 1)
})

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

for (const [what, first, responses] of [
  [
    'a request that ends its connection',
    requests(1).replace('\r\n', '\r\nExpect: 100-continue\r\n'),
    [100, 200],
  ],
  [
    'the body of one',
    `POST ${link.path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}`,
    [100, 200],
  ],
  ['a refused one, behind a call', `${requests(1)}GET /../ HTTP/1.1\r\nHost: x\r\n\r\n`, [200, 400]],
] as const) {
  t.test(`what comes in one piece behind ${what} takes no memory until that is answered`, async (t) => {
    waiting.clear()
    const connections = 10
    const before = requestCount
    const sockets = await Promise.all(Array.from({ length: connections }, () => openSocket(t, gateway.port)))
    const result = sockets.map(async (socket) => {
      let text = ''
      socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')))
      await once(socket, 'close')
      return [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((found) => Number(found[1]))
    })
    collect()
    const heap = process.memoryUsage().heapUsed
    // As small as requests are, and the last one is not whole.
    const piece = Buffer.from(
      `${first}${'GET / HTTP/1.1\r\n\r\n'.repeat(3_000)}POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nx`,
    )
    for (const socket of sockets) socket.write(piece)
    await until(() => requestCount - before === connections, 'the calls to reach the seller')
    await sleep(300)
    collect()
    const grownMb = (process.memoryUsage().heapUsed - heap) / 1e6
    t.ok(grownMb < 15, `30,000 requests took ${grownMb.toFixed()} MB`)
    for (const respond of waiting) respond()
    for (const statuses of await Promise.all(result)) t.strictSame(statuses, responses)
  })
}

t.test('who leaves behind a refused request is noticed by the call ahead of it', async (t) => {
  const left = Promise.withResolvers<void>()
  const patient = await sellerOf(t, (req) => void req.socket.once('close', left.resolve))
  const { path } = await gateway.addLink({ slug: 'patient', url: patient.url })
  const socket = await openSocket(t, gateway.port)
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(20))
  await sleep(200)
  socket.write('more of it')
  await sleep(50)
  socket.destroy()
  await left.promise
  t.pass('its call to the seller ends')
})

const handshake = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`
const echo = await startSeller(t, 'websocket-echo')
const room = await gateway.addLink({ slug: 'room', url: echo.url })

/** Sends a call and something behind it at once; the seller answers once it has been seen. */
async function sendBehind(behind: string): Promise<TalkResult> {
  waiting.clear()
  const before = requestCount
  const result = talk(gateway.port, requests(1) + behind)
  await until(() => requestCount > before, 'the call to reach the seller')
  await sleep(100)
  for (const respond of waiting) respond()
  return result
}

for (const [what, path] of [
  ['a handshake that is taken', room.path],
  ['a handshake of a link that there is not', '/api/link/demo/none'],
  ['a handshake that is not for a link', '/dashboard'],
  ['a handshake with a path that is refused', '/api/link/demo/../x'],
] as const) {
  t.test(`${what} is refused behind a call, in its turn`, async (t) => {
    const { statuses, text, closed } = await sendBehind(handshake(path))
    t.strictSame(statuses, [200, 400])
    t.ok(text.includes('{}HTTP/1.1 400'), 'the call has its own answer, whole')
    t.ok(closed)
    t.equal(echo.connections.size, 0)
  })
}

t.test('a handshake behind an answer that is on its way does the same', async (t) => {
  const { statuses } = await talk(
    gateway.port,
    `GET /api/link/demo/none HTTP/1.1\r\nHost: x\r\n\r\n${handshake('/api/link/demo/none')}`,
  )
  t.strictSame(statuses, [404, 400])
})

for (const [what, bytes, responses] of [
  ['CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n', []],
  ['what is no request', 'garbage\r\n\r\n', [200]],
] as const) {
  t.test(`${what} behind a call is not answered in its place`, async (t) => {
    const { statuses, closed } = await sendBehind(bytes)
    t.strictSame(statuses, responses, 'nobody takes a refusal for the answer of the call')
    t.ok(closed)
  })
}

for (const [how, leave] of [
  ['is reset', (socket: Socket) => void socket.resetAndDestroy()],
  ['leaves HTTP', (socket: Socket) => void socket.write('CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n')],
] as const) {
  t.test(`calls that wait behind another one end when their connection ${how}`, async (t) => {
    let open = 0
    const endless = await sellerOf(t, (req, res) => {
      open++
      res.once('close', () => open--)
      // The first one never answers, and what waits behind it has begun to.
      if (!req.url!.endsWith('first')) res.write('a'.repeat(1_000))
    })
    const link = await gateway.addLink({ slug: `endless-${how.slice(0, 2)}`, url: endless.url })
    const socket = await openSocket(t, gateway.port)
    const one = (query: string) => `GET ${link.path}?${query} HTTP/1.1\r\nHost: x\r\n\r\n`
    socket.write(one('first') + one('next').repeat(16))
    await until(() => open === 17, 'the calls to reach the seller')
    leave(socket)
    await until(() => open === 0, 'all of them to end')
    t.pass()
  })
}

t.test('what leaves HTTP behind a request that ends its connection costs its caller no answer', async (t) => {
  const last = requests(1).replace('\r\n', '\r\nExpect: 100-continue\r\n')
  for (const behind of ['CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n', handshake(room.path)]) {
    waiting.clear()
    const before = requestCount
    const result = talk(gateway.port, last + behind + requests(2))
    await until(() => requestCount > before, 'the call to reach the seller')
    await sleep(100)
    for (const respond of waiting) respond()
    const { statuses, closed } = await result
    t.strictSame(statuses, [100, 200])
    t.ok(closed)
    t.equal(requestCount - before, 1)
  }
})

t.test('a handshake on a connection that has read its answers is taken', async (t) => {
  const socket = await openSocket(t, gateway.port)
  let text = ''
  socket.on('data', (piece) => (text += piece.toString('latin1')))
  for (let i = 1; i <= 3; i++) {
    socket.write('GET /api/link/demo/none HTTP/1.1\r\nHost: x\r\n\r\n')
    await until(() => text.split('"link_not_found"').length === i + 1 && text.endsWith('}'), 'an answer')
  }
  socket.write(handshake(room.path))
  await until(() => text.includes('HTTP/1.1 101 '), 'the upgrade')
})

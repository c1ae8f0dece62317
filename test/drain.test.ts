import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { defaultPlugins, startGateway } from './helpers/gateway.ts'
import { hasWholeResponse, openSocket, talk, until } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'

let sold = 0
const seller = await sellerOf(t, (_req, res) => {
  sold++
  res.end('{}')
})

async function start(drainTimeoutMs = 10_000) {
  const gateway = await startGateway(t, {
    plugins: defaultPlugins,
    settlers: [createScriptedSettler()],
    options: { drainTimeoutMs },
  })
  const free = await gateway.addLink({ slug: 'free', url: seller.url, price: '0' })
  const paid = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  return { ...gateway, paths: [free.path, paid.path, '/api/link/demo/nothing'] }
}

/** A connection, and what to send on it for an answer of so many bytes that is charged before it is written. */
async function startLarge(t: Test, bytes: number) {
  const large = await sellerOf(
    t,
    (_req, res) => void res.writeHead(200, { 'content-length': bytes }).end(Buffer.alloc(bytes)),
  )
  const { addLink, port, gateway, store } = await start()
  const { path } = await addLink({ slug: 'large', url: large.url, price: '0.10', responseMode: 'raw' })
  const socket = await openSocket(t, port)
  const payment = `PAYMENT-SIGNATURE: ${scriptedPayment('large', '100000')}`
  const isDelivered = async () => (await store.ledger.list({ states: ['delivered'], limit: 1 })).length === 1
  return { path, payment, socket, gateway, isDelivered }
}

const request = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`

/** Asks once, so that the connection is one that is kept. */
async function used(socket: Socket, path: string): Promise<Socket> {
  socket.write(request(path))
  let output = ''
  while (!hasWholeResponse(output)) output += (await once(socket, 'data'))[0]
  return socket
}

/** All that a server says until it ends the connection. */
async function readUntilEnd(socket: Socket): Promise<string> {
  let output = ''
  socket.on('data', (bytes: Buffer) => (output += bytes.toString('latin1')))
  await new Promise((resolve) => socket.once('close', resolve))
  return output
}

t.test(
  'what has arrived on a kept connection when a gateway stops is answered, and says that it was the last',
  async (t) => {
    const { paths, port, gateway } = await start()
    const asked = Array.from({ length: 24 }, (_, i) => paths[i % paths.length]!)
    const sockets = await Promise.all(asked.map(async (path) => used(await openSocket(t, port), path)))
    const responses = sockets.map(readUntilEnd)
    // In the kernel's buffer, and not read yet when the gateway is told to stop.
    for (const [i, socket] of sockets.entries()) socket.write(request(asked[i]!))
    const closed = gateway.close()
    for (const [i, response] of responses.entries()) {
      const result = await response
      t.match(result, asked[i] === paths[0] ? /^HTTP\/1.1 200 / : /^HTTP\/1.1 40[24] /)
      t.match(result, /\r\nConnection: close\r\n/i)
    }
    await closed
  },
)

t.test('so is who asks a moment later, while nobody is let in any more', async (t) => {
  const { paths, port, gateway } = await start()
  const kept = await used(await openSocket(t, port), paths[1]!)
  const response = readUntilEnd(kept)
  const closed = gateway.close()
  await t.rejects(openSocket(t, port), { code: 'ECONNREFUSED' })
  await sleep(50)
  kept.write(request(paths[1]!))
  t.match(await response, /^HTTP\/1.1 402 .*\r\nConnection: close\r\n/is)
  await closed
})

t.test(
  'the answer to a call that is under way says that it is the last, and what is sent behind it is not looked at',
  async (t) => {
    const mayAnswer = Promise.withResolvers<void>()
    let requestCount = 0
    const slow = await sellerOf(t, async (_req, res) => {
      requestCount++
      await mayAnswer.promise
      res.end('{}')
    })
    const { addLink, port, gateway } = await start()
    const { path } = await addLink({ slug: 'slow', url: slow.url, price: '0' })
    const socket = await openSocket(t, port)
    const response = readUntilEnd(socket)
    socket.write(request(path))
    await until(() => requestCount === 1)
    const closed = gateway.close()
    socket.write(request(path).repeat(3))
    await sleep(400)
    mayAnswer.resolve()
    const result = await response
    t.match(result, /^HTTP\/1.1 200 .*\r\nConnection: close\r\n/is)
    t.equal(result.split('HTTP/1.1 ').length, 2)
    t.equal(requestCount, 1)
    await closed
  },
)

t.test('what stands behind a request that ends its connection is not looked at', async (t) => {
  const { port, paths, gateway } = await start()
  const before = sold
  const expecting = `POST ${paths[0]!} HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}`
  const { text } = await talk(port, expecting + request(paths[0]!).repeat(3))
  t.match(text, /^HTTP\/1.1 100 .*HTTP\/1.1 200 .*\r\nConnection: close\r\n/is)
  t.equal(sold - before, 1)
  await gateway.close()
})

t.test(
  'who reads slowly what was answered, and paid for, before a gateway stops gets all of it',
  async (t) => {
    const bytes = 5_000_000
    const { path, payment, socket, gateway, isDelivered } = await startLarge(t, bytes)
    socket.write(`GET ${path} HTTP/1.1\r\nHost: g\r\n${payment}\r\n\r\n`)
    await until(isDelivered)
    const closed = gateway.close()
    await sleep(600)
    t.ok((await readUntilEnd(socket)).length > bytes)
    await closed
  },
)

t.test('what a caller sends behind the last answer costs it nothing of that answer', async (t) => {
  const bytes = 1_000_000
  const { path, payment, socket, gateway, isDelivered } = await startLarge(t, bytes)
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: g\r\nExpect: 100-continue\r\nContent-Length: 2\r\n${payment}\r\n\r\n{}`,
  )
  await until(isDelivered)
  await sleep(200)
  socket.write(request(path))
  await sleep(200)
  t.ok((await readUntilEnd(socket)).length > bytes)
  await gateway.close()
})

t.test('the last answer of several that were asked for in one piece says that it is the last', async (t) => {
  const mayAnswer = Promise.withResolvers<void>()
  let requestCount = 0
  const slow = await sellerOf(t, async (req, res) => {
    requestCount++
    if (req.url!.endsWith('wait')) await mayAnswer.promise
    res.end('{}')
  })
  const { addLink, port, gateway } = await start()
  const { path } = await addLink({ slug: 'slow', url: slow.url, price: '0' })
  const socket = await openSocket(t, port)
  const response = readUntilEnd(socket)
  socket.write(request(path) + request(`${path}?wait`))
  await until(() => requestCount === 2)
  await sleep(100)
  const closed = gateway.close()
  await sleep(50)
  mayAnswer.resolve()
  t.match((await response).split('HTTP/1.1 ')[2], /^200 .*\r\nConnection: close\r\n/is)
  await closed
})

t.test('nobody buys a WebSocket of a gateway that is about to cut it', async (t) => {
  const { port, paths, gateway } = await start()
  const kept = await used(await openSocket(t, port), paths[1]!)
  const response = readUntilEnd(kept)
  const closed = gateway.close()
  const upgrade =
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
  const payment = `PAYMENT-SIGNATURE: ${scriptedPayment('socket', '100000')}`
  kept.write(`GET ${paths[1]!} HTTP/1.1\r\nHost: g\r\n${upgrade}\r\n${payment}\r\n\r\n`)
  t.match(await response, /^HTTP\/1.1 503 .*NOT_READY/s)
  await closed
})

t.test(
  'a connection that left HTTP does not keep a gateway from stopping within its drain time',
  async (t) => {
    const { port, gateway } = await start(300)
    // A caller who does not end its side when the gateway does.
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    socket.on('error', () => {})
    t.teardown(() => socket.destroy())
    socket.write('CONNECT a.example:443 HTTP/1.1\r\nHost: g\r\n\r\n')
    const trickle = setInterval(() => socket.write('x'), 50)
    t.teardown(() => clearInterval(trickle))
    await once(socket, 'data')
    const ended = new Promise((resolve) => socket.once('close', resolve))
    t.ok(await Promise.race([gateway.close().then(() => true), sleep(10_000, false, { ref: false })]))
    await ended
  },
)

t.test(
  'a gateway on which nobody is connected stops at once, and idle callers hold it up for a moment only',
  async (t) => {
    const empty = await start()
    await empty.gateway.close()
    const { paths, port, gateway } = await start(60_000)
    const idle = await used(await openSocket(t, port), paths[0]!)
    const gone = once(idle, 'close')
    await gateway.close()
    await gone
    t.pass('long before the drain time')
  },
)

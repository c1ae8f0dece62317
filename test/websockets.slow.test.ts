import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { paymentStates } from '../core/domain/payment.ts'
import { silentLog } from '../core/ports/log.ts'
import { AdminForwarder } from '../gateway/adminForwarder.ts'
import { startGateway } from './helpers/gateway.ts'
import { openSocket, talk, until } from './helpers/rawHttp.ts'
import { rawSeller, sellerOf } from './helpers/sellerOf.ts'
import { startSeller } from './helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'

const settler = createScriptedSettler()
const plugins = [
  { use: 'x402' },
  { use: 'replay-guard', with: { joinTimeoutMs: 300 } },
  { use: 'upstream', with: { headersTimeoutMs: 400 } },
  { use: 'purchase-record' },
]
const gateway = await startGateway(t, { settlers: [settler], plugins })
const echo = await startSeller(t, 'websocket-echo')
const free = await gateway.addLink({ slug: 'free', url: echo.url })
const paid = await gateway.addLink({ slug: 'paid', url: echo.url, price: '0.10' })
const first = await gateway.addLink({ slug: 'first', url: echo.url, price: '0.10', settle: 'before' })
const handshake = (path: string, more = '') =>
  `GET ${path} HTTP/1.1\r\nHost: g\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${more}\r\n`
const payment = (nonce: string) => `Payment-Signature: ${scriptedPayment(nonce, '100000')}\r\n`
const open = (url: string, headers: Record<string, string> = {}) =>
  new WebSocket(url.replace('http', 'ws'), { headers })
const stateOf = async (nonce: string) =>
  (await gateway.store.ledger.list({ states: paymentStates, limit: 100 })).find((row) => row.nonce === nonce)
    ?.state

async function echoes(socket: WebSocket, message: string): Promise<string> {
  const response = once(socket, 'message')
  socket.send(message)
  return String((await response)[0])
}

t.test('a free link carries a WebSocket both ways, large messages included', async (t) => {
  const socket = open(`${free.url}/room?x=1`)
  await once(socket, 'open')
  t.equal(await echoes(socket, 'hello'), 'hello')
  const large = 'x'.repeat(5_000_000)
  t.equal(await echoes(socket, large), large)
  t.match(echo.requests.at(-1), { target: '/room?x=1' })
  socket.close(1000)
  await once(socket, 'close')
  await until(() => echo.connections.size === 0, 'the seller to be let go')
})

t.test('frames that come with the handshake reach the seller', async (t) => {
  const masked = Buffer.from([0x81, 0x82, 1, 2, 3, 4, 0x68 ^ 1, 0x69 ^ 2])
  const { text } = await talk(
    gateway.port,
    Buffer.concat([Buffer.from(handshake(free.path)), masked]),
    (all) => all.endsWith('hi'),
  )
  t.match(text, /^HTTP\/1\.1 101 /)
  t.ok(text.endsWith('\x81\x02hi'))
})

for (const [link, when] of [
  [paid, 'after'],
  [first, 'before'],
] as const) {
  t.test(`a paid link is opened by paying the handshake (settle ${when})`, async (t) => {
    const unpaid = await talk(gateway.port, handshake(link.path))
    t.strictSame(unpaid.statuses, [402])
    t.match(unpaid.text, /payment-required: /i)
    t.equal(JSON.parse(unpaid.text.split('\r\n\r\n')[1]!).x402Version, 2)

    const socket = open(link.url, { 'payment-signature': scriptedPayment(`open-${when}`, '100000') })
    const [response] = (await once(socket, 'upgrade')) as [{ headers: Record<string, string> }]
    t.match(response.headers['x-purchase-id'], /^[0-9a-f-]{36}$/)
    t.ok(response.headers['x-review-token'])
    t.match(JSON.parse(Buffer.from(response.headers['payment-response']!, 'base64').toString()), {
      success: true,
    })
    if (socket.readyState !== WebSocket.OPEN) await once(socket, 'open')
    t.equal(await echoes(socket, 'paid'), 'paid')
    t.ok(settler.transfers.includes(`open-${when}`))
    socket.close()
    await once(socket, 'close')
    await until(async () => (await stateOf(`open-${when}`)) === 'delivered')
    const again = await talk(gateway.port, handshake(link.path, payment(`open-${when}`)))
    t.strictSame(again.statuses, [409], 'the payment opened one')
  })
}

/** A seller whose answer to a handshake is below the 16 KiB that clients read, and above it with a receipt. */
async function longHandshake(t: Test) {
  const server = createServer()
  const connections = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    connections.add(socket)
    socket.once('close', () => connections.delete(socket))
  })
  server.on('upgrade', (_req, socket) => {
    const head = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Trace: ${'t'.repeat(15_900)}\r\n\r\n`
    socket.on('error', () => socket.destroy()).on('end', () => socket.destroy())
    socket.resume().write(head)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, connections }
}

const slugOf = (name: string) => `refuses-${name.replaceAll(' ', '-')}`.slice(0, 30)

t.test('a seller who refuses the handshake is not paid', async (t) => {
  const sellers = {
    plain: await startSeller(t, 'hello'),
    404: await startSeller(t, 'status-404'),
    500: await startSeller(t, 'status-500'),
    silent: await startSeller(t, 'silent'),
    interim: await startSeller(t, 'interim-flood'),
    reset: await startSeller(t, 'reset'),
    'a head that no client reads with ours': await longHandshake(t),
  }
  const before = settler.transfers.length
  for (const [name, seller] of Object.entries(sellers)) {
    const link = await gateway.addLink({ slug: slugOf(name), url: seller.url, price: '0.10' })
    const { statuses, closed, text } = await talk(
      gateway.port,
      handshake(link.path, payment(`refuses-${name}`)),
    )
    t.strictSame({ statuses, closed }, { statuses: [name === 'silent' ? 504 : 502], closed: true }, name)
    t.match(text, /You were not charged/)
    await until(async () => (await stateOf(`refuses-${name}`)) === 'rejected', 'the payment to be free')
    await until(() => seller.connections.size === 0, `${name} to be let go`)
  }
  t.equal(settler.transfers.length, before)
})

t.test('a tunnel that is not paid for after all is closed', async (t) => {
  for (const [reason, status] of [
    ['simulation_failed', 402],
    ['pending', 503],
  ] as const) {
    settler.settleWith = async () =>
      status === 402
        ? { status: 'rejected', reason, message: 'no' }
        : { status: 'pending', transaction: '0x', reason }
    const { statuses, closed } = await talk(gateway.port, handshake(paid.path, payment(`unpaid-${reason}`)))
    t.strictSame({ statuses, closed }, { statuses: [status], closed: true })
    await until(() => echo.connections.size === 0, 'the seller to be let go')
  }
  settler.settleWith = async () => undefined
})

t.test('a buyer who leaves during the handshake leaves nothing behind', async (t) => {
  const silent = await startSeller(t, 'silent')
  const link = await gateway.addLink({ slug: 'slow', url: silent.url, price: '0.10' })
  const socket = await openSocket(t, gateway.port)
  socket.write(handshake(link.path, payment('leaves')))
  await until(() => silent.requests.length === 1)
  socket.destroy()
  await until(() => silent.connections.size === 0)
  await until(async () => (await stateOf('leaves')) === 'rejected')
  t.notOk(settler.transfers.includes('leaves'))
})

/** Connections of this process, the gateway's and the test's. */
const openSockets = () =>
  process.getActiveResourcesInfo().filter((name) => name.startsWith('TCPSocket')).length

t.test('buyers who drop their handshakes take everything with them at once, however they go', async (t) => {
  const silent = await startSeller(t, 'silent')
  const own = await startGateway(t, {
    settlers: [settler],
    plugins: [{ use: 'x402' }, { use: 'replay-guard' }, { use: 'upstream' }, { use: 'purchase-record' }],
  })
  const links = [
    await own.addLink({ slug: 'free', url: silent.url }),
    await own.addLink({ slug: 'after', url: silent.url, price: '0.10' }),
    await own.addLink({ slug: 'before', url: silent.url, price: '0.10', settle: 'before' }),
  ]
  const ways: Record<string, (socket: Socket) => void> = {
    ends: (socket) => socket.end(),
    resets: (socket) => socket.resetAndDestroy(),
    'sends a frame and ends': (socket) => socket.end(Buffer.from([0x89, 0x80, 1, 2, 3, 4])),
  }
  // The sellers', and as many that wait for one of them.
  const flood = 140
  for (const [name, drop] of Object.entries(ways)) {
    const before = openSockets()
    const sockets: Socket[] = []
    for (let i = 0; i < flood; i++) {
      const socket = await openSocket(t, own.port)
      socket.write(handshake(links[i % 3]!.path, payment(`${name}-${i}`)))
      sockets.push(socket)
    }
    await until(() => silent.connections.size >= 128, 'every place to be taken')
    for (const socket of sockets) drop(socket)
    await until(() => silent.connections.size === 0, `the seller to be let go: ${name}`)
    await until(() => openSockets() <= before, `nothing to be left: ${name}`)
    const asked = silent.requests.length
    const next = await openSocket(t, own.port)
    next.write(handshake(links[0]!.path))
    await until(() => silent.requests.length > asked, 'the next one to have a place')
    next.destroy()
    await until(() => silent.connections.size === 0)
    t.pass(name)
  }
})

t.test('who sends more ahead of the answer than a handshake may wait with is cut off', async (t) => {
  const silent = await startSeller(t, 'silent')
  const own = await startGateway(t, { plugins: [{ use: 'upstream' }] })
  const link = await own.addLink({ slug: 'free', url: silent.url })
  const socket = await openSocket(t, own.port)
  const closed = new Promise((resolve) => socket.once('close', resolve))
  socket.resume().write(Buffer.concat([Buffer.from(handshake(link.path)), Buffer.alloc(200_000)]))
  await closed
  await until(() => silent.connections.size === 0)
  t.pass('and its seller is let go')
})

t.test('frames that a buyer sends while its handshake waits reach the seller, in their order', async (t) => {
  const mayAnswer = Promise.withResolvers<void>()
  const got: Buffer[] = []
  const server = createServer()
  server.on('upgrade', async (_req, socket: Socket) => {
    socket.on('error', () => {}).on('data', (piece: Buffer) => void got.push(piece))
    await mayAnswer.promise
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  const asked = once(server, 'upgrade')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const link = await gateway.addLink({ slug: 'early', url, price: '0.10' })
  const socket = await openSocket(t, gateway.port)
  socket.write(`${handshake(link.path, payment('early'))}one `)
  await asked
  socket.write('two ')
  // By the answer to another one, what came before it has been read.
  await (await fetch(`${gateway.url}/api/link/demo/none`)).text()
  mayAnswer.resolve()
  await once(socket, 'data')
  socket.write('three')
  await until(() => Buffer.concat(got).toString() === 'one two three', 'all of it')
  socket.destroy()
  t.pass('all of it')
})

t.test('when one side breaks off, the other is closed as well', async (t) => {
  const socket = open(free.url)
  await once(socket, 'open')
  for (const connection of echo.connections) connection.destroy()
  await once(socket, 'close')
  const other = open(free.url)
  await once(other, 'open')
  other.terminate()
  await until(() => echo.connections.size === 0)
  t.pass('both ways')
})

/** A gateway whose tunnels end early, with a link to a seller that answers by hand. */
async function tunnels(t: Test, options: object) {
  const sockets = new Set<Socket>()
  const server = createServer()
  server.on('upgrade', (_req, socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    // It is notified of every end, and never disconnects by itself.
    socket.resume()
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  const limits = { maxCallsPerOrigin: 1, ...options }
  const own = await startGateway(t, { plugins: [{ use: 'upstream', with: limits }] })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const link = await own.addLink({ slug: 'tunnel', url })
  const connect = async (): Promise<Socket> => {
    const socket = await openSocket(t, own.port)
    socket.write(handshake(link.path))
    const [head] = await once(socket, 'data')
    t.match(String(head), /^HTTP\/1\.1 101 /)
    return socket
  }
  /** The one place at the seller's is free once the gateway has closed the tunnel before. */
  const isFree = () =>
    until(async () => {
      const { statuses } = await talk(own.port, handshake(link.path), (text) => text.includes('\r\n\r\n'))
      return statuses[0] === 101
    }, 'the place to be given back')
  return { own, link, limits, sockets, connect, isFree }
}

t.test('an open tunnel counts as a call under way, also after a reload, until it closes', async (t) => {
  const { own, link, limits, connect, isFree } = await tunnels(t, {})
  const first = await connect()
  t.strictSame((await talk(own.port, handshake(link.path))).statuses, [503])
  // The old generation is closed although its tunnel is open.
  await own.gateway.swap(await own.build([{ use: 'upstream', with: limits }]))
  t.strictSame((await talk(own.port, handshake(link.path))).statuses, [503])
  first.destroy()
  await isFree()
})

t.test('a tunnel is closed on both sides when it is idle, old or has carried enough', async (t) => {
  for (const [name, limits] of Object.entries({
    idle: { tunnelIdleTimeoutMs: 100 },
    old: { tunnelTimeoutMs: 100 },
    full: { maxTunnelBytes: 10 },
  })) {
    const { connect, isFree } = await tunnels(t, limits)
    const buyer = await connect()
    const closed = once(buyer, 'close')
    if (name === 'full') buyer.write('eleven bytes')
    await closed
    await isFree()
    t.pass(name)
  }
})

t.test('a side that only ends, or resets, takes the other with it', async (t) => {
  for (const [name, byBuyer, bySeller] of [
    ['the buyer ends', (s: Socket) => void s.end(), () => {}],
    ['the buyer resets', (s: Socket) => void s.resetAndDestroy(), () => {}],
    ['the seller ends', () => {}, (s: Socket) => void s.end()],
    ['the seller resets', () => {}, (s: Socket) => void s.resetAndDestroy()],
  ] as const) {
    const { sockets, connect, isFree } = await tunnels(t, {})
    const buyer = await connect()
    const closed = once(buyer, 'close')
    byBuyer(buyer)
    for (const socket of sockets) bySeller(socket)
    await closed
    await isFree()
    t.pass(name)
  }
})

t.test('what a seller says in its handshake is filtered like any answer', async (t) => {
  const liar = await rawSeller(
    t,
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSet-Cookie: a=b\r\nPayment-Response: forged\r\nX-Purchase-Id: forged\r\nX-Kept: yes\r\n\r\n',
  )
  const link = await gateway.addLink({ slug: 'liar', url: liar.url, price: '0.10' })
  const { text } = await talk(gateway.port, handshake(link.path, payment('liar')), (all) =>
    all.includes('\r\n\r\n'),
  )
  t.match(text, /^HTTP\/1\.1 101 .*x-kept: yes/is)
  t.notMatch(text, /set-cookie|forged/i)
})

t.test('no link there is a 404, and a suspended one a 503, on the socket', async (t) => {
  const { statuses, closed } = await talk(gateway.port, handshake('/api/link/demo/none'))
  t.strictSame({ statuses, closed }, { statuses: [404], closed: true })
})

t.test('closing the gateway ends its tunnels within the drain time', async (t) => {
  const other = await startGateway(t, { options: { drainTimeoutMs: 300 } })
  const link = await other.addLink({ slug: 'free', url: echo.url })
  const socket = open(link.url)
  await once(socket, 'open')
  const closed = once(socket, 'close')
  await other.gateway.close()
  await closed
  t.pass('closed')
})

t.test(
  'what is no call of a link is handed over, upgrades too, with the true address of the caller',
  async (t) => {
    const seen: { url: string; headers: Record<string, unknown> }[] = []
    const admin = createServer((req, res) => {
      seen.push({ url: req.url!, headers: req.headers })
      req.resume().on('end', () => res.end('admin'))
    })
    admin.on('upgrade', (req, socket) => {
      seen.push({ url: req.url!, headers: req.headers })
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nadmin')
    })
    admin.listen(0, '127.0.0.1')
    await once(admin, 'listening')
    const address = `http://127.0.0.1:${(admin.address() as AddressInfo).port}`
    const forwarder = new AdminForwarder(() => address, 1_000, silentLog)
    const own = await startGateway(t, { forwarder })
    const tampering =
      'X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Proto: https\r\nForwarded: for=9.9.9.9\r\nX-Real-IP: 9.9.9.9\r\n'
    const plain = await talk(
      own.port,
      `GET /api/v1/links?a=1 HTTP/1.1\r\nHost: g\r\n${tampering}\r\n`,
      (all) => all.includes('admin'),
    )
    t.match(plain.text, /^HTTP\/1\.1 200 /)
    const upgraded = await talk(own.port, handshake('/live', tampering), (all) => all.endsWith('admin'))
    t.match(upgraded.text, /^HTTP\/1\.1 101 /)
    t.strictSame(
      seen.map(({ url }) => url),
      ['/api/v1/links?a=1', '/live'],
    )
    for (const { headers } of seen) {
      t.equal(headers['x-forwarded-for'], '127.0.0.1')
      t.notMatch(JSON.stringify(headers), /9\.9\.9\.9|evil/)
    }
    const body = 'x'.repeat(300_000)
    const posted = await fetch(`${own.url}/api/v1/links`, { method: 'POST', body })
    t.equal(await posted.text(), 'admin')
    admin.closeAllConnections()
    admin.close()
    const away = await fetch(`${own.url}/api/v1/links`)
    t.equal(away.status, 502)
    t.match(await away.json(), { success: false, error: { code: 'INTERNAL_ERROR' } })
    const gone = await talk(own.port, handshake('/live'))
    t.ok(gone.closed)
  },
)

t.test('an upgrade that the admin API refuses is closed, also by a caller who never closes', async (t) => {
  const admin = await sellerOf(t, (_req, res) => void res.writeHead(404).end('{}'))
  const own = await startGateway(t, { forwarder: new AdminForwarder(() => admin.url, 1_000, silentLog) })
  const before = openSockets()
  const sockets: Socket[] = []
  for (let i = 0; i < 20; i++) {
    const socket = connect({ port: own.port, host: '127.0.0.1', allowHalfOpen: true })
    sockets.push(socket.on('error', () => {}))
    socket.write(handshake('/live'))
    let text = ''
    socket.on('data', (piece: Buffer) => (text += piece))
    await until(() => text.startsWith('HTTP/1.1 404 '), 'the refusal')
  }
  // The callers' own ends stay.
  await until(() => openSockets() <= before + sockets.length, "the gateway's ends to be closed")
  for (const socket of sockets) socket.destroy()
  t.pass('closed')
})

t.test('half an answer of the admin API is cut, not ended', async (t) => {
  const half = await sellerOf(t, (_req, res) => {
    res.writeHead(200, { 'content-length': 100 })
    res.write('half', () => res.destroy())
  })
  const own = await startGateway(t, { forwarder: new AdminForwarder(() => half.url, 1_000, silentLog) })
  await t.rejects(fetch(`${own.url}/x`).then((r) => r.text()))
})

t.test(
  'settled first: who leaves while it is settled is connected when it comes back, and not charged again',
  async (t) => {
    const [begun, mayGoOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    settler.settleWith = async () => {
      begun.resolve()
      await mayGoOn.promise
      return undefined
    }
    const { length } = settler.transfers
    const asked = echo.requests.length
    const buyer = await openSocket(t, gateway.port)
    buyer.write(handshake(first.path, payment('left-early')))
    await begun.promise
    buyer.resetAndDestroy()
    // Nothing is read of it before the handshake: that it has gone shows in its next message.
    await new Promise((resolve) => setTimeout(resolve, 50))
    mayGoOn.resolve()
    settler.settleWith = async () => undefined
    await until(async () => (await stateOf('left-early')) === 'refund_due')
    t.equal(echo.requests.length, asked, 'the seller was not asked')
    const back = open(first.url, { 'payment-signature': scriptedPayment('left-early', '100000') })
    await once(back, 'open')
    t.equal(await echoes(back, 'hello'), 'hello')
    back.close()
    t.equal(settler.transfers.length, length + 1)
  },
)

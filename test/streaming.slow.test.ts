import { once } from 'node:events'
import type { Socket } from 'node:net'
import t from 'tap'
import { createEgress } from '../adapters/egress/egress.ts'
import { startGateway } from './helpers/gateway.ts'
import { get, impatientPlugins, startImpatient } from './helpers/impatient.ts'
import { pluginOf } from './helpers/plugins.ts'
import { openSocket, until } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { bigBytes, startSeller } from './helpers/sellers.ts'

/** The system's buffers of two connections, sender and receiver each; a gateway that takes all it can holds everything. */
const maxInBetween = bigBytes - 16 * 1024 * 1024

const { settler, gateway, pay } = await startImpatient(t, 'stream')

t.test('a big download flows as fast as it is read and no faster', async (t) => {
  const seller = await startSeller(t, 'big')
  for (const [slug, price] of [
    ['big', '0'],
    ['big-first', '0.10'],
  ] as const) {
    const link = await gateway.addLink({ slug, url: seller.url, price, settle: 'before' })
    const before = seller.sentBytes
    const response = await fetch(link.url, { headers: pay() })
    const reader = response.body!.getReader()
    const { value } = await reader.read()
    let bytes = value!.length
    // The seller stops by itself once everything in between is full.
    let sent = -1
    await until(async () => {
      const last = sent
      sent = seller.sentBytes - before
      await new Promise((resolve) => setTimeout(resolve, 50))
      return last === sent
    })
    t.ok(sent < maxInBetween, `${sent} bytes were taken from the seller of a reader who waits`)
    for (;;) {
      const { value, done } = await reader.read()
      if (done) break
      bytes += value.length
    }
    t.equal(bytes, bigBytes)
  }
})

t.test('a big upload flows as fast as the seller reads and no faster', async (t) => {
  let resume!: () => void
  let received = 0
  const seller = await sellerOf(t, (req, res) => {
    resume = () => {
      req.on('data', (chunk: Buffer) => (received += chunk.length))
      req.on('end', () => res.end(String(received)))
    }
  })
  const link = await gateway.addLink({ slug: 'upload', url: seller.url })
  const socket = await openSocket(t, gateway.port)
  const total = 30 * 1024 * 1024
  let written = 0
  const piece = Buffer.alloc(64 * 1024)
  const pump = () => {
    while (written < total) {
      written += piece.length
      if (!socket.write(piece)) return
    }
  }
  socket.on('drain', pump)
  socket.write(`POST ${link.path} HTTP/1.1\r\nHost: g\r\nContent-Length: ${total}\r\n\r\n`)
  pump()
  await until(() => seller.calls === 1)
  let last = -1
  await until(async () => {
    const before = last
    last = written
    await new Promise((resolve) => setTimeout(resolve, 50))
    return before === last
  })
  t.ok(written < total, `${written} of ${total} bytes were taken from the caller of a seller who waits`)
  resume()
  const [response] = (await once(socket, 'data')) as [Buffer]
  t.match(response.toString(), new RegExp(`^HTTP/1.1 200 [^]*${total}`))
  t.equal(received, total)
})

t.test('a caller who leaves frees the connection to the seller', async (t) => {
  for (const kind of ['silent', 'stalled-body', 'endless', 'sse', 'big', 'slow-headers'] as const) {
    const seller = await startSeller(t, kind)
    for (const [slug, price, settle] of [
      [`leave-${kind}`, '0', 'after'],
      [`leave-paid-${kind}`, '0.10', 'after'],
    ] as const) {
      const link = await gateway.addLink({ slug, url: seller.url, price, settle })
      const before = seller.requests.length
      const socket = await openSocket(t, gateway.port)
      socket.write(get(link.path, `payment-signature: ${pay()['payment-signature']}\r\n`))
      await until(() => seller.requests.length > before, `${slug} to be called`)
      socket.destroy()
      await until(() => seller.connections.size === 0, `${slug} to be let go`)
    }
  }
  t.equal(settler.transfers.filter((nonce) => nonce.startsWith('leave')).length, 0)
  t.pass('every connection was given back')
})

t.test('a caller who stops reading is cut, so that it holds no connection to the seller', async (t) => {
  const seller = await startSeller(t, 'big')
  const link = await gateway.addLink({ slug: 'lazy', url: seller.url })
  const socket = await openSocket(t, gateway.port)
  socket.write(get(link.path))
  await until(() => seller.requests.length === 1)
  socket.pause()
  await until(() => seller.connections.size === 0, 'the seller to be let go')
  t.ok(seller.sentBytes < maxInBetween)
})

t.test(
  'calls beyond the limit of an origin are 503 at once and cost nothing; those that wait too long as well',
  async (t) => {
    const seller = await startSeller(t, 'silent')
    const narrow = await startGateway(t, {
      settlers: [settler],
      plugins: impatientPlugins({ maxCallsPerOrigin: 3, headersTimeoutMs: 5_000, responseTimeoutMs: 5_000 }),
    })
    const free = await narrow.addLink({ slug: 'free', url: seller.url })
    const others = [
      await narrow.addLink({ slug: 'paid', url: seller.url, price: '0.10' }),
      await narrow.addLink({ slug: 'first', url: seller.url, price: '0.10', settle: 'before' }),
      free,
    ]
    const abort = new AbortController()
    const held = [1, 2, 3].map(() => fetch(free.url, { signal: abort.signal }).catch(() => undefined))
    await until(() => seller.requests.length === 3)
    const before = settler.transfers.length
    for (const { url } of others) {
      const response = await fetch(url, { headers: pay() })
      t.match(
        { status: response.status, after: response.headers.get('retry-after') },
        { status: 503, after: '1' },
      )
      t.match(await response.json(), { error: { code: 'upstream_busy', retryable: true } })
    }
    t.equal(settler.transfers.length, before)
    abort.abort()
    await Promise.all(held)
    await until(() => seller.connections.size === 0)
    const again = new AbortController()
    const room = fetch(free.url, { signal: again.signal }).catch(() => undefined)
    await until(() => seller.requests.length === 4, 'room for another call')
    again.abort()
    await room
  },
)

t.test('readers of free answers who take nothing give way to calls that wait, buyers do not', async (t) => {
  const narrow = await startGateway(t, {
    settlers: [settler],
    plugins: impatientPlugins({ headersTimeoutMs: 30_000, bodyTimeoutMs: 30_000 }),
    adapt: (ports) => {
      const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'], connectionsPerOrigin: 3 })
      t.teardown(() => egress.close())
      return { ...ports, egress }
    },
  })
  const seller = await startSeller(t, 'big')
  const { origin } = new URL(seller.url)
  const big = await narrow.addLink({ slug: 'big', url: origin })
  const first = await narrow.addLink({ slug: 'first', url: origin, price: '0.10', settle: 'before' })
  const readers: { socket: Socket; isCut: boolean }[] = []
  for (const { path } of [first, big, big]) {
    const socket = await openSocket(t, narrow.port)
    const reader = { socket, isCut: false }
    readers.push(reader)
    socket.write(get(path, `payment-signature: ${pay()['payment-signature']}\r\n`))
    await until(() => seller.requests.length === readers.length)
    socket.pause()
  }
  const response = await fetch(first.url, { headers: pay() })
  t.equal(response.status, 200, 'who waits is served')
  await response.body!.cancel()
  for (const reader of readers) {
    reader.socket.on('close', () => (reader.isCut = true))
    reader.socket.resume()
  }
  await until(() => readers[1]!.isCut, 'the one that stood still longest to be cut')
  t.strictSame(
    readers.map(({ isCut }) => isCut),
    [false, true, false],
  )
})

t.test('a free answer has a longest time and a most of bytes, a paid stream has neither', async (t) => {
  const outcomes: unknown[] = []
  const watcher = pluginOf('watcher', { log: (x) => void outcomes.push(x.upstreamOutcome) })
  const gatewayOf = (limits: object) =>
    startGateway(t, {
      settlers: [settler],
      extraPlugins: [watcher],
      plugins: [
        { use: 'watcher' },
        ...impatientPlugins({ headersTimeoutMs: 30_000, bodyTimeoutMs: 30_000, ...limits }),
      ],
    })
  const gateway = await gatewayOf({ maxFreeResponseBytes: 1_000_000 })
  const read = async (url: string, init?: RequestInit) => {
    const response = await fetch(url, { headers: pay(), ...init })
    const bytes = await response.bytes().then(
      (all) => all.length,
      () => 'cut',
    )
    return [response.status, bytes]
  }
  const stated = await sellerOf(t, (req, res) => {
    res.writeHead(req.url === '/none' ? 304 : 200, { 'content-length': 1_000_001 })
    if (req.method === 'HEAD' || req.url === '/none') return void res.end()
    res.write(Buffer.alloc(500_000))
  })
  const plain = await gateway.addLink({ slug: 'stated', url: stated.url })
  const response = await fetch(plain.url)
  t.equal(response.status, 502, 'what states to be more is one at once')
  t.match(await response.json(), { error: { code: 'upstream_error', message: /1000000 bytes/ } })
  t.strictSame(await read(plain.url, { method: 'HEAD' }), [200, 0], 'HEAD has no body that could be more')
  t.strictSame(await read(`${plain.url}/none`), [304, 0], 'nor has 304')

  const unstated = await sellerOf(t, (_req, res) => {
    for (let i = 0; i < 3; i++) res.write(Buffer.alloc(500_000))
    res.end()
  })
  const more = await gateway.addLink({ slug: 'more', url: unstated.url })
  t.strictSame(await read(more.url), [200, 'cut'], 'what comes to be more is cut')
  await until(() => unstated.connections.size === 0, 'the seller of too much to be let go')
  const first = await gateway.addLink({ slug: 'first', url: unstated.url, price: '0.10', settle: 'before' })
  t.strictSame(await read(first.url), [200, 1_500_000])

  const sse = await startSeller(t, 'sse')
  const brief = await gatewayOf({ freeResponseTimeoutMs: 300 })
  const long = await brief.addLink({ slug: 'long', url: sse.url })
  t.strictSame(await read(long.url), [200, 'cut'], 'what goes on too long is cut')
  await until(() => sse.connections.size === 0, 'the seller of an endless stream to be let go')
  t.strictSame(outcomes, Array(6).fill('answered'), 'no failure of the seller')
})

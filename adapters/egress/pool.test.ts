import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import type {
  UpstreamController,
  UpstreamHandler,
  UpstreamPool,
  UpstreamRequest,
} from '../../core/ports/egress.ts'
import { until } from '../../test/helpers/rawHttp.ts'
import { bigBytes, rawKinds, type SellerKind, startSeller } from '../../test/helpers/sellers.ts'
import { createEgress, type EgressOptions } from './egress.ts'

async function start(t: Test, kind: SellerKind, options: EgressOptions = {}) {
  const seller = await startSeller(t, kind)
  const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'], keepAliveTimeoutMs: 60_000, ...options })
  t.teardown(() => egress.close())
  return { seller, egress }
}

/** Sends one request, a GET by default, through a pool, and records what the handler receives. */
class Call implements UpstreamHandler {
  readonly done: Promise<this>
  controller: UpstreamController | undefined
  status = 0
  rawHeaders: readonly string[] = []
  bytes = 0
  error: Error | undefined
  onData: (controller: UpstreamController) => void = () => {}
  #resolve: (call: this) => void = () => {}

  constructor(pool: UpstreamPool, timeoutMs = 10_000, more: Partial<UpstreamRequest> = {}) {
    this.done = new Promise((resolve) => (this.#resolve = resolve))
    const timeouts = { headersTimeout: timeoutMs, bodyTimeout: timeoutMs }
    pool.dispatch({ path: '/', method: 'GET', headers: [], body: null, ...timeouts, ...more }, this)
  }
  onRequestStart(controller: UpstreamController) {
    this.controller = controller
  }
  onResponseStart(controller: UpstreamController, status: number) {
    this.status = status
    this.rawHeaders = controller.rawHeaders!.map(String)
  }
  onResponseData(controller: UpstreamController, chunk: Buffer) {
    this.bytes += chunk.length
    this.onData(controller)
  }
  onResponseEnd() {
    this.#resolve(this)
  }
  onResponseError(_controller: UpstreamController | null, error: Error) {
    this.error = error
    this.#resolve(this)
  }
}

const allClosed = (sockets: Iterable<Socket>) =>
  Promise.all([...sockets].map((socket) => socket.destroyed || once(socket, 'close')))

t.test('the handler is given status, raw headers and body as they came', async (t) => {
  const { seller, egress } = await start(t, 'hello')
  const pool = egress.pool(`${seller.url}/ignored/path`)
  const call = await new Call(pool).done
  t.match(call, { status: 200, bytes: '{"hello":"world"}'.length, error: undefined })
  t.equal(call.rawHeaders[call.rawHeaders.indexOf('content-type') + 1], 'application/json')
  pool.release()
})

t.test('holders of one origin share its connections, however they spell it', async (t) => {
  const { seller, egress } = await start(t, 'hello', { connectionsPerOrigin: 1 })
  const spellings = [seller.url, seller.url.toUpperCase(), seller.url.replace('127.0.0.1', '0x7f.1')]
  const pools = spellings.map((url) => egress.pool(url))
  for (const pool of pools) t.equal((await new Call(pool).done).status, 200)
  t.equal(seller.connections.size, 1)
  for (const pool of pools) pool.release()
})

t.test('who makes proxied calls is told how many there may be at once', async (t) => {
  const { seller, egress } = await start(t, 'hello', { connectionsPerOrigin: 3 })
  const pool = egress.pool(seller.url)
  t.equal(pool.connections, 3)
  pool.release()
})

t.test(
  'health checks that hang keep none of those waiting that others make at the same origin',
  async (t) => {
    const { seller, egress } = await start(t, 'silent')
    const pool = egress.pool(seller.url, 'checks')
    const hanging = Array.from({ length: 50 }, () => new Call(pool))
    await until(() => seller.connections.size === 50, 'every check to be asked')
    const one = egress.pool(seller.url, 'checks')
    const check = new Call(one, 50)
    t.equal(egress.failureOf((await check.done).error), 'EGRESS_TIMEOUT')
    t.not(check.controller, undefined, 'it was asked')
    for (const { controller } of hanging) controller!.abort(new Error('over'))
    await Promise.all(hanging.map(({ done }) => done))
    for (const reference of [pool, one]) reference.release()
  },
)

t.test('a paused answer holds the seller back, a resumed one arrives whole', async (t) => {
  const { seller, egress } = await start(t, 'big')
  const pool = egress.pool(seller.url)
  const call = new Call(pool)
  const paused = new Promise<void>((resolve) => {
    call.onData = (controller) => {
      controller.pause()
      resolve()
    }
  })
  await paused
  const [socket] = seller.connections
  // The kernel's buffers fill up, then the seller's own one, and stay full.
  while (socket!.writableNeedDrain !== true) await new Promise(setImmediate)
  t.ok(seller.sentBytes < bigBytes / 2, `${seller.sentBytes} bytes in buffers`)
  call.onData = () => {}
  call.controller!.resume()
  t.equal((await call.done).bytes, bigBytes)
  pool.release()
})

t.test('an abort while paused frees the connection at once', async (t) => {
  const { seller, egress } = await start(t, 'endless', { connectionsPerOrigin: 1 })
  const pool = egress.pool(seller.url)
  for (let i = 0; i < 3; i++) {
    const call = new Call(pool)
    const paused = new Promise<void>((resolve) => {
      call.onData = (controller) => {
        controller.pause()
        resolve()
      }
    })
    await paused
    call.controller!.abort(new Error('the buyer left'))
    t.match((await call.done).error, { message: 'the buyer left' })
  }
  t.equal(seller.requests.length, 3)
  pool.release()
})

t.test('an answer that comes before the request was sent whole ends its connection', async (t) => {
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    // It reads the head, leaves the body where it is, and would take it for the next request.
    socket.once('data', () => {
      socket.pause()
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'], keepAliveTimeoutMs: 60_000 })
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await egress.close()
  })
  const pool = egress.pool(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  // More than the buffers of two kernels take; read whole, and as a stream.
  const body = Buffer.alloc(32 * 1024 * 1024)
  const length = ['content-length', String(body.length)]
  const stream = new Readable({ read() {} })
  stream.push(body)
  for (const [what, sent] of Object.entries({ whole: body, stream })) {
    const before = sockets.length
    t.match(await new Call(pool, 10_000, { method: 'POST', headers: length, body: sent }).done, { bytes: 2 })
    t.equal(sockets.length, before + 1, what)
    t.match(await new Call(pool, 2_000).done, { bytes: 2, error: undefined }, `${what}: the next caller`)
    t.equal(sockets.length, before + 2, `${what}: on a connection of its own`)
    for (const socket of sockets) socket.destroy()
  }
  pool.release()
})

t.test('a pool that nobody refers to closes its connections after a while', async (t) => {
  const { seller, egress } = await start(t, 'hello', { idlePoolMs: 1, connectionsPerOrigin: 1 })
  const [first, second] = [egress.pool(seller.url), egress.pool(seller.url)]
  await new Call(first).done
  first.release()
  first.release()
  t.equal((await new Call(second).done).status, 200, 'a second release by the same holder counts for nothing')
  const open = [...seller.connections]
  second.release()
  await allClosed(open)
  t.equal(open.length, 1)
  const third = egress.pool(seller.url)
  t.equal((await new Call(third).done).status, 200, 'and is made anew when somebody comes')
  third.release()
})

t.test('beyond their number the longest unused pools go, those in use stay', async (t) => {
  const { seller, egress } = await start(t, 'hello', { maxPoolCount: 2, idlePoolMs: 60_000 })
  const others = await Promise.all([startSeller(t, 'hello'), startSeller(t, 'hello')])
  const held = egress.pool(seller.url)
  await new Call(held).done
  for (const other of others) {
    const pool = egress.pool(other.url)
    await new Call(pool).done
    pool.release()
  }
  await allClosed(others[0]!.connections)
  t.equal(others[1]!.connections.size, 1)
  t.equal(seller.connections.size, 1)
  held.release()
})

t.test('every slow seller runs into the pool’s limits too', async (t) => {
  const { seller, egress } = await start(t, 'silent')
  const pool = egress.pool(seller.url)
  const { error } = await new Call(pool, 50).done
  t.equal(egress.failureOf(error), 'EGRESS_TIMEOUT')
  pool.release()
})

/** These continue for as long as a client listens, and no wait between two of their bytes is long: the caller has to stop. */
const tireless = ['slow-body', 'endless']

t.test('every misbehaving seller ends in an answer or a sorted error, and the pool goes on', async (t) => {
  const tryKind = async (kind: (typeof rawKinds)[number]) => {
    const { seller, egress } = await start(t, kind, { connectionsPerOrigin: 1 })
    const pool = egress.pool(seller.url)
    for (let i = 0; i < 2; i++) {
      const call = new Call(pool, 50)
      if (tireless.includes(kind)) {
        while (seller.requests.length <= i) await new Promise(setImmediate)
        call.controller!.abort(new Error('enough'))
      }
      const { error, status } = await call.done
      t.ok(
        status === 200 || error !== undefined,
        `${kind}: ${error === undefined ? status : egress.failureOf(error)}`,
      )
      t.notMatch(call.rawHeaders.join('\n'), /set-cookie|\r|\0/i, 'no header out of a split line')
    }
    pool.release()
    await egress.close()
  }
  await Promise.all(rawKinds.map(tryKind))
})

t.test('a raw connection carries a WebSocket', async (t) => {
  const { seller, egress } = await start(t, 'websocket-echo')
  const url = seller.url.replace('http', 'ws')
  const socket = (await egress.connect(new URL(url))) as Socket
  const client = new WebSocket(url, { createConnection: () => socket })
  await once(client, 'open')
  client.send('hello')
  const [message] = await once(client, 'message')
  t.equal(String(message), 'hello')
  client.terminate()
})

t.test('a raw connection to nobody fails in words that fit a stranger', async (t) => {
  const { seller, egress } = await start(t, 'hello')
  await seller.close()
  await t.rejects(egress.connect(new URL(seller.url)), {
    code: 'EGRESS_UNREACHABLE',
    message: /^((?!ECONN).)*$/,
  })
  await t.rejects(egress.connect(new URL('ftp://127.0.0.1/')), { code: 'VALIDATION_ERROR' })
})

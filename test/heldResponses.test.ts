import { once } from 'node:events'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { READ_MS } from '../adapters/memory/responseBuffer.ts'
import { startGateway } from './helpers/gateway.ts'
import { pluginOf } from './helpers/plugins.ts'
import { openSocket, until } from './helpers/rawHttp.ts'
import { sellerOf } from './helpers/sellerOf.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'

/** More than the system takes from a writer whose reader stands still: 10 MB by Linux' own limits of both buffers. */
const LARGE_BYTES = 16 * 1_048_576
const large = Buffer.alloc(LARGE_BYTES, 'x')

const plugins = (more: object = {}) => [
  { use: 'x402' },
  { use: 'replay-guard' },
  { use: 'upstream', with: { slotTimeoutMs: 100, maxResponseBytes: LARGE_BYTES, ...more } },
  { use: 'purchase-record' },
]

/** A gateway with memory for four answers, and a seller of large ones, stated or in chunks. */
async function withSeller(t: Test, more: object = {}) {
  const settler = createScriptedSettler()
  const seller = await sellerOf(t, (req, res) => {
    if (req.url!.includes('chunks')) {
      for (let i = 0; i < 16; i++) res.write(large.subarray(0, LARGE_BYTES / 16))
      res.end()
    } else if (req.url!.includes('small')) res.end('small')
    else res.writeHead(200, { 'content-length': LARGE_BYTES }).end(large)
  })
  const own = await startGateway(t, {
    settlers: [settler],
    heldBytes: 4 * LARGE_BYTES,
    plugins: plugins(more),
  })
  const { responseBuffer } = own.ports
  let count = 0
  const call = (url: string, payment = `p-${count++}`) =>
    fetch(url, { headers: { 'payment-signature': scriptedPayment(payment, '100000') } })
  /** Asks for an answer and reads nothing of it but the head, which is behind the charge. */
  async function standStill(path: string, payment: string): Promise<Socket> {
    const socket = await openSocket(t, own.port)
    socket.write(
      `GET ${path} HTTP/1.1\r\nHost: g\r\nPayment-Signature: ${scriptedPayment(payment, '100000')}\r\n\r\n`,
    )
    await once(socket, 'readable')
    return socket
  }
  return { ...own, settler, seller, responseBuffer, call, standStill }
}

for (const shape of ['', '/chunks']) {
  t.test(
    `readers who stand still leave memory to other stores, and nobody is charged for nothing${shape}`,
    async (t) => {
      const gateway = await withSeller(t)
      const { responseBuffer: memory, settler, call, standStill } = gateway
      const slow = await gateway.addLink({ slug: 'slow', url: gateway.seller.url + shape, price: '0.10' })
      const sockets: Socket[] = []
      let requestCount = 0
      while (memory.heldBytes < 2 * LARGE_BYTES)
        sockets.push(await standStill(slow.path, `still-${requestCount++}`))
      t.equal(memory.heldBytes, 2 * LARGE_BYTES, 'half of it: this store has no more')

      const charged = settler.transfers.length
      const refused = await call(slow.url, 'refused')
      t.equal(refused.status, 503)
      t.ok(Number(refused.headers.get('retry-after')) > 0)
      t.match(await refused.json(), {
        error: { code: 'upstream_busy', retryable: true, message: /memory.*You were not charged/ },
      })
      t.equal(settler.transfers.length, charged)
      t.equal(
        (await fetch((await gateway.addLink({ slug: 'free', url: gateway.seller.url })).url)).status,
        200,
      )

      for (const socket of sockets) socket.destroy()
      await until(() => memory.heldBytes === 0, 'the memory to be given back')
      const again = await call(slow.url, 'refused')
      t.equal(again.status, 200, 'the same payment')
      t.equal((await again.arrayBuffer()).byteLength, LARGE_BYTES)
      await until(() => memory.heldBytes === 0)
      // What stood still was charged, and is kept.
      const late = await call(slow.url, 'still-0')
      t.equal((await late.arrayBuffer()).byteLength, LARGE_BYTES)
      await until(() => memory.heldBytes === 0)
      t.equal(settler.transfers.filter((nonce) => nonce === 'still-0').length, 1)
    },
  )
}

t.test(
  'a call that finds no memory while its answer comes waits for it, and is charged once it is whole',
  async (t) => {
    const gateway = await withSeller(t, { slotTimeoutMs: 20_000 })
    const { responseBuffer: memory, call, standStill, settler } = gateway
    for (const shape of ['', '/chunks']) {
      const link = await gateway.addLink({
        slug: `waits${shape.slice(1)}`,
        url: gateway.seller.url + shape,
        price: '0.10',
      })
      const still = await standStill(link.path, `still${shape}`)
      // One more of its store, which leaves a call just the memory that it has from the beginning.
      const other = memory.open(gateway.storeId)
      t.ok(other.grow(LARGE_BYTES - 100_000))
      const before = gateway.seller.calls
      const waiting = call(link.url, `waits${shape}`)
      await until(() => gateway.seller.calls > before, 'the seller to be asked')
      t.notOk(settler.transfers.includes(`waits${shape}`))
      other.release()
      const response = await waiting
      t.equal(response.status, 200)
      t.equal((await response.arrayBuffer()).byteLength, LARGE_BYTES)
      still.destroy()
      await until(() => memory.heldBytes === 0)
    }
  },
)

t.test('repeats of one payment that nobody reads leave memory to new calls', async (t) => {
  const gateway = await withSeller(t)
  const { responseBuffer: memory, call, standStill } = gateway
  const link = await gateway.addLink({ slug: 'repeated', url: gateway.seller.url, price: '0.10' })
  await (await call(link.url, 'one')).arrayBuffer()
  await until(() => memory.heldBytes === 0)
  const sockets = [await standStill(link.path, 'one'), await standStill(link.path, 'one')]
  t.equal(memory.heldBytes, 2 * LARGE_BYTES)
  t.equal(gateway.seller.calls, 1)
  const fresh = await call(link.url)
  t.equal(fresh.status, 200)
  t.equal((await fresh.arrayBuffer()).byteLength, LARGE_BYTES)
  for (const socket of sockets) socket.destroy()
  await until(() => memory.heldBytes === 0)
})

for (const [size, kept] of [
  ['small', 'small'],
  ['large', large.toString()],
] as const) {
  t.test(
    `a ${size} answer behind one that nobody reads leaves its memory to whoever waits for it`,
    async (t) => {
      const gateway = await withSeller(t, { slotTimeoutMs: 20_000 })
      const { responseBuffer: memory, call, settler } = gateway
      const unread = await gateway.addLink({ slug: 'unread', url: gateway.seller.url })
      const url = size === 'small' ? `${gateway.seller.url}/small` : gateway.seller.url
      const link = await gateway.addLink({ slug: 'paid', url, price: '0.10', responseMode: 'raw' })
      const other = memory.open(gateway.storeId)
      if (size === 'small') t.ok(other.grow(2 * LARGE_BYTES - 100_000))
      else t.ok(other.grow(LARGE_BYTES / 2))
      const socket = await openSocket(t, gateway.port)
      socket.write(
        `GET ${unread.path} HTTP/1.1\r\nHost: g\r\n\r\nGET ${link.path} HTTP/1.1\r\nHost: g\r\nPayment-Signature: ${scriptedPayment(`behind-${size}`, '100000')}\r\n\r\n`,
      )
      await until(() => settler.transfers.includes(`behind-${size}`))
      let isAnswered = false
      const waiting = call(link.url, `waits-${size}`).finally(() => (isAnswered = true))
      const { makeRoom } = memory as unknown as { makeRoom(nowMs: number): void }
      // Cuts no client off before the call waits, nor after it has what it waits for.
      await until(() => {
        makeRoom.call(memory, performance.now() + READ_MS + 1_000)
        return isAnswered
      }, 'its answer')
      const response = await waiting
      t.equal(response.status, 200)
      t.ok((await response.text()) === kept)
      other.release()
      await until(() => memory.heldBytes === 0)
      t.equal((await call(link.url, `behind-${size}`)).status, 200, 'it is kept for its buyer')
    },
  )
}

t.test('an answer that was charged first and finds no memory reaches whoever reads it', async (t) => {
  const gateway = await withSeller(t)
  const { responseBuffer: memory, call, standStill } = gateway
  const slow = await gateway.addLink({ slug: 'slow', url: gateway.seller.url, price: '0.10' })
  const first = await gateway.addLink({
    slug: 'first',
    url: gateway.seller.url,
    price: '0.10',
    settle: 'before',
  })
  const sockets = [await standStill(slow.path, 'still')]
  // One that leaves a call just the memory that it has from the beginning.
  const other = memory.open(gateway.storeId)
  t.ok(other.grow(LARGE_BYTES - 300_000))
  const response = await call(first.url)
  t.equal(response.status, 200)
  t.equal((await response.arrayBuffer()).byteLength, LARGE_BYTES)
  other.release()
  for (const socket of sockets) socket.destroy()
  await until(() => memory.heldBytes === 0)
})

t.test('whatever ends a call, its memory comes back', async (t) => {
  const settler = createScriptedSettler()
  const seller = await sellerOf(t, (req, res) => {
    if (req.url!.includes('reset')) req.socket.resetAndDestroy()
    else if (req.url!.includes('500')) res.writeHead(500).end()
    else if (req.url!.includes('half'))
      res.writeHead(200, { 'content-length': LARGE_BYTES }).write(large.subarray(0, 9))
    else res.writeHead(200, { 'content-length': LARGE_BYTES }).end(large)
  })
  let ended = 0
  const own = await startGateway(t, {
    settlers: [settler],
    heldBytes: 64 * LARGE_BYTES,
    extraPlugins: [pluginOf('counter', { log: () => void ended++ })],
    plugins: [
      { use: 'counter' },
      ...plugins({ headersTimeoutMs: 100, bodyTimeoutMs: 100, responseTimeoutMs: 200 }),
    ],
  })
  let calls = 0
  for (const settle of ['after', 'before'] as const) {
    for (const kind of ['whole', 'reset', '500', 'half']) {
      const link = await own.addLink({
        slug: `${kind}-${settle}`,
        url: `${seller.url}/${kind}`,
        price: '0.10',
        settle,
      })
      for (const leaves of [false, true]) {
        const socket = await openSocket(t, own.port)
        socket.resume()
        const payment = scriptedPayment(`${kind}-${settle}-${leaves}`, '100000')
        socket.write(`GET ${link.path} HTTP/1.1\r\nHost: g\r\nPayment-Signature: ${payment}\r\n\r\n`)
        calls++
        if (leaves) socket.destroy()
        await until(() => ended === calls)
        await until(() => own.ports.responseBuffer.heldBytes === 0, `${kind}, ${settle}, ${leaves}`)
        socket.destroy()
      }
    }
  }
  settler.settleWith = async () => ({ status: 'rejected', reason: 'no', message: 'no' })
  const link = await own.addLink({ slug: 'unpaid', url: seller.url, price: '0.10' })
  const headers = { 'payment-signature': scriptedPayment('unpaid', '100000') }
  // A busy machine can need longer for the seller's answer than it is given here; then nothing was charged.
  let status = 504
  while (status === 504) status = (await fetch(link.url, { headers })).status
  t.equal(status, 402)
  await until(() => own.ports.responseBuffer.heldBytes === 0)
})

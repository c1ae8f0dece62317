import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { WebSocketServer } from 'ws'
import { silentLog as log } from '../../../../core/ports/log.ts'
import type { Rpc, RpcCall } from '../../../../core/rpc/rpc.ts'
import { ReceiptWatch } from './receipts.ts'

const hash = (n: number) => `0x${String(n).padStart(64, '0')}`

/** A clock that the test advances, which sets the watch's timers and its monotonic time. */
function stopClock(t: Test) {
  let nowMs = 0
  const now = mock.method(performance, 'now', () => nowMs)
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => {
    now.mock.restore()
    mock.timers.reset()
  })
  return {
    get nowMs() {
      return nowMs
    },
    async run(ms: number) {
      for (const endMs = nowMs + ms; nowMs < endMs; ) {
        nowMs += 5
        mock.timers.tick(5)
        for (let i = 0; i < 3; i++) await new Promise<void>((resolve) => setImmediate(resolve))
      }
    },
  }
}

/** A chain with a block every `blockMs`, seen through a node that responds after `latencyMs`. */
function slowChain(clock: { readonly nowMs: number }, blockMs: number, latencyMs: number) {
  const sentAtMs = new Map<string, number>()
  let requests = 0
  let atOnce = 0
  let maxAtOnce = 0
  const respond = ({ params }: RpcCall) => {
    const sent = sentAtMs.get(params[0] as string)
    const block = sent === undefined ? Number.POSITIVE_INFINITY : Math.floor(sent / blockMs) + 1
    if (clock.nowMs < block * blockMs) return null
    return { transactionHash: params[0], blockNumber: `0x${block.toString(16)}`, status: '0x1', logs: [] }
  }
  const rpc = {
    async batch(calls: readonly RpcCall[]) {
      requests++
      maxAtOnce = Math.max(maxAtOnce, ++atOnce)
      await new Promise((resolve) => setTimeout(resolve, latencyMs / 2))
      const responses = calls.map((call) => ({ ok: true, result: respond(call) }) as const)
      await new Promise((resolve) => setTimeout(resolve, latencyMs / 2))
      atOnce--
      return responses
    },
  } as unknown as Rpc
  return {
    rpc,
    get requests() {
      return requests
    },
    get maxAtOnce() {
      return maxAtOnce
    },
    send: (of: string) => void sentAtMs.set(of, clock.nowMs),
    /** When the receipt of this transaction became available. */
    minedAtMs: (of: string) => (Math.floor(sentAtMs.get(of)! / blockMs) + 1) * blockMs,
  }
}

for (const latencyMs of [0, 40, 100]) {
  t.test(`blocks of 2 s, a node ${latencyMs} ms away: few looks, and none comes late`, async (t) => {
    const clock = stopClock(t)
    const chain = slowChain(clock, 2_000, latencyMs)
    const watch = new ReceiptWatch({
      rpc: chain.rpc,
      firstPollMs: 20,
      pollMs: 1_000,
      confirmations: 1,
      log,
    })
    let worstMs = 0
    let before = 0
    const payments = 30
    // From the first few it learns this chain's times. Then they come one after the other, at all times between two blocks.
    for (let n = 0; n < payments + 5; n++) {
      if (n === 5) {
        before = chain.requests
        worstMs = 0
      }
      chain.send(hash(n))
      let foundAtMs: number | undefined
      void watch.wait(hash(n), 20_000).then(() => (foundAtMs = clock.nowMs))
      while (foundAtMs === undefined) await clock.run(5)
      worstMs = Math.max(worstMs, foundAtMs - chain.minedAtMs(hash(n)))
      await clock.run((n * 370) % 1_990)
    }
    const polls = (chain.requests - before) / payments
    t.ok(polls <= 6, `${polls} looks a payment`)
    t.ok(worstMs <= 1_000 + 2 * latencyMs, `found ${worstMs} ms after its block at most`)
    watch.close()
  })

  t.test(`fifty at once on such a chain, ${latencyMs} ms away, share their looks`, async (t) => {
    const clock = stopClock(t)
    const chain = slowChain(clock, 2_000, latencyMs)
    const watch = new ReceiptWatch({
      rpc: chain.rpc,
      firstPollMs: 20,
      pollMs: 1_000,
      confirmations: 1,
      log,
    })
    let found = 0
    for (let n = 0; n < 50; n++) {
      chain.send(hash(n))
      void watch.wait(hash(n), 20_000).then((receipt) => (found += receipt === undefined ? 0 : 1))
      await clock.run(50)
    }
    await clock.run(4_000)
    t.equal(found, 50)
    t.ok(chain.requests <= 150, `${chain.requests} requests for fifty payments`)
    t.ok(chain.maxAtOnce <= 2)
    const before = chain.requests
    await clock.run(10_000)
    t.equal(chain.requests, before, 'none afterwards')
    watch.close()
  })
}

/** A node of chain 1 whose WebSocket tells of blocks when the test says. */
async function startHeads(t: Test, chainId = 1) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  t.teardown(() => {
    for (const peer of server.clients) peer.terminate()
    server.close()
  })
  let subscribed = 0
  const waiting: (() => void)[] = []
  server.on('connection', (peer) => {
    peer.on('message', (data) => {
      const { id, method } = JSON.parse(String(data))
      if (method === 'eth_chainId')
        return peer.send(JSON.stringify({ id, result: `0x${chainId.toString(16)}` }))
      peer.send(JSON.stringify({ id, result: '0xabc' }))
      subscribed++
      for (const resolve of waiting.splice(0)) resolve()
    })
  })
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    server,
    get subscribed() {
      return subscribed
    },
    whenSubscribed: () =>
      subscribed > 0 ? Promise.resolve() : new Promise<void>((resolve) => waiting.push(resolve)),
    tell(times = 1) {
      const params = { subscription: '0xabc', result: {} }
      for (const peer of server.clients)
        for (let i = 0; i < times; i++) peer.send(JSON.stringify({ method: 'eth_subscription', params }))
    },
  }
}

/** A node without any receipt until the test has it. */
function emptyNode() {
  const mined = new Set<string>()
  let requests = 0
  const looked: (() => void)[] = []
  const rpc = {
    async batch(calls: readonly RpcCall[]) {
      requests++
      const responses = calls.map(({ params: [of] }) => ({
        ok: true,
        result: mined.has(of as string)
          ? { transactionHash: of, blockNumber: '0x1', status: '0x1', logs: [] }
          : null,
      }))
      for (const resolve of looked.splice(0)) resolve()
      return responses
    },
  } as unknown as Rpc
  return {
    rpc,
    mined,
    get requests() {
      return requests
    },
    nextPoll: () => new Promise<void>((resolve) => looked.push(resolve)),
  }
}

/** A watch with a node that has no receipts, and a WebSocket that announces blocks. `headsOf` makes them another chain's. */
async function watchHeads(t: Test, options: { pollMs: number; headsOf?: number; log?: typeof log }) {
  const { headsOf, ...rest } = options
  const heads = await startHeads(t, headsOf)
  const node = emptyNode()
  const ws = { url: heads.url, chainId: 1 }
  const watch = new ReceiptWatch({
    rpc: node.rpc,
    firstPollMs: 20,
    confirmations: 1,
    ws,
    log,
    ...rest,
  })
  t.teardown(() => watch.close())
  return { heads, node, watch }
}

t.test('a block that is told of before the node has its receipts costs no second', async (t) => {
  // Were the next look `pollMs` away, the wait would end first.
  const { heads, node, watch } = await watchHeads(t, { pollMs: 60_000 })
  const found = watch.wait(hash(1), 20_000, 0)
  await heads.whenSubscribed()
  await node.nextPoll()
  heads.tell()
  await node.nextPoll()
  node.mined.add(hash(1))
  t.match(await found, { transactionHash: hash(1) })
})

t.test('a node that floods with blocks is not asked more often for it', async (t) => {
  const { heads, node, watch } = await watchHeads(t, { pollMs: 1_000 })
  const startedMs = performance.now()
  const waited = watch.wait(hash(1), 1_000)
  await heads.whenSubscribed()
  while (performance.now() - startedMs < 900) {
    heads.tell(50)
    await new Promise<void>((resolve) => setImmediate(resolve))
  }
  await waited
  const most = (performance.now() - startedMs) / 20 + 2
  t.ok(node.requests <= most, `${node.requests} looks, at most one in 20 ms`)
})

t.test('a WebSocket of another chain is told of, and says nothing about when to look', async (t) => {
  const lines: string[] = []
  const recordingLog = { ...log, warn: (_: object, words: string) => void lines.push(words) }
  const { heads, node, watch } = await watchHeads(t, {
    pollMs: 40,
    headsOf: 10,
    log: recordingLog as typeof log,
  })
  const waited = watch.wait(hash(1), 20_000)
  while (lines.length === 0) await node.nextPoll()
  t.match(lines, [/wsUrl.*another chain/])
  t.equal(heads.subscribed, 0)
  node.mined.add(hash(1))
  t.match(await waited, { transactionHash: hash(1) })
})

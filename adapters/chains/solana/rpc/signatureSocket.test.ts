import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { type WebSocket as Peer, WebSocketServer } from 'ws'
import { silentLog } from '../../../../core/ports/log.ts'
import { createSignatureSocket } from './signatureSocket.ts'

/** A WebSocket node under the test's hand. */
async function startNode() {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  const requests: { peer: Peer; id: number; method: string; params: unknown[] }[] = []
  const arrivals: (() => void)[] = []
  server.on('connection', (peer) =>
    peer.on('message', (data) => {
      requests.push({ peer, ...JSON.parse(String(data)) })
      for (const arrived of arrivals.splice(0)) arrived()
    }),
  )
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async whenAsked(count: number) {
      while (requests.length < count) await new Promise<void>((resolve) => arrivals.push(resolve))
    },
    close() {
      for (const peer of server.clients) peer.terminate()
      server.close()
    },
  }
}

async function open(test: { teardown(close: () => void): void }) {
  const node = await startNode()
  const results = new Map<string, unknown>()
  const received: (() => void)[] = []
  const socket = createSignatureSocket({
    url: node.url,
    commitment: 'confirmed',
    log: silentLog,
    onResult(signature, err) {
      results.set(signature, err)
      for (const next of received.splice(0)) next()
    },
  })
  test.teardown(() => {
    socket.close()
    node.close()
  })
  const whenReceived = () => new Promise<void>((resolve) => received.push(resolve))
  const notify = (peer: Peer, subscription: number, value: unknown) =>
    peer.send(
      JSON.stringify({ method: 'signatureNotification', params: { subscription, result: { value } } }),
    )
  return { node, socket, results, whenReceived, notify }
}

t.test('a subscription that is told of after its wait was over is given back to the node', async (t) => {
  const { node, socket } = await open(t)
  socket.watch('one')
  await node.whenAsked(1)
  const { peer, id } = node.requests[0]!
  socket.unwatch('one')
  peer.send(JSON.stringify({ id, result: 71 }))
  await node.whenAsked(2)
  t.match(node.requests[1], { method: 'signatureUnsubscribe', params: [71] })
})

t.test('each signature gets its own result, and noise from the node gets nobody one', async (t) => {
  const { node, socket, results, whenReceived, notify } = await open(t)
  socket.watch('one')
  socket.watch('two')
  await node.whenAsked(2)
  t.match(node.requests[0], { method: 'signatureSubscribe', params: ['one', { commitment: 'confirmed' }] })
  const { peer } = node.requests[0]!
  for (const { id, params } of node.requests)
    peer.send(JSON.stringify({ id, result: params[0] === 'one' ? 71 : 72 }))
  for (const noise of ['not json', 'null', '7', '{}', '{"id":"x"}', '{"params":{}}']) peer.send(noise)
  notify(peer, 99, { err: null })
  notify(peer, 72, 'receivedSignature')
  const first = whenReceived()
  notify(peer, 72, { err: { InstructionError: [2, { Custom: 1 }] } })
  await first
  t.same([...results], [['two', { InstructionError: [2, { Custom: 1 }] }]])
  const second = whenReceived()
  notify(peer, 71, { err: null })
  await second
  t.equal(results.get('one'), null)
})

t.test('a signature that nobody waits for any more is unsubscribed', async (t) => {
  const { node, socket } = await open(t)
  socket.watch('one')
  await node.whenAsked(1)
  const { peer, id } = node.requests[0]!
  peer.send(JSON.stringify({ id, result: 71 }))
  socket.watch('two')
  await node.whenAsked(2)
  // The response to the second subscription proves that the response to the first was read.
  peer.send(JSON.stringify({ id: node.requests[1]!.id, result: 72 }))
  peer.ping()
  await once(peer, 'pong')
  socket.unwatch('one')
  await node.whenAsked(3)
  t.match(node.requests[2], { method: 'signatureUnsubscribe', params: [71] })
})

t.test('after a lost connection it opens again and asks for whoever still waits', async (t) => {
  const { node, socket, results, whenReceived, notify } = await open(t)
  socket.watch('one')
  await node.whenAsked(1)
  node.requests[0]!.peer.terminate()
  await node.whenAsked(2)
  const { peer, id, params } = node.requests[1]!
  t.equal(params[0], 'one')
  const received = whenReceived()
  peer.send(JSON.stringify({ id, result: 5 }))
  notify(peer, 5, { err: null })
  await received
  t.equal(results.get('one'), null)
})

t.test(
  'a doubted connection is given up, and none is relied on until one has told of something',
  async (t) => {
    const { node, socket, results, whenReceived, notify } = await open(t)
    socket.watch('one')
    await node.whenAsked(1)
    t.equal(socket.isOpen, true)
    const gone = once(node.requests[0]!.peer, 'close')
    socket.doubt()
    t.equal(socket.isOpen, false)
    await gone
    await node.whenAsked(2)
    t.equal(node.requests[1]!.params[0], 'one', 'whoever waits is asked for again')
    t.equal(socket.isOpen, false)
    const { peer, id } = node.requests[1]!
    const received = whenReceived()
    peer.send(JSON.stringify({ id, result: 5 }))
    notify(peer, 5, { err: null })
    await received
    t.equal(results.get('one'), null)
    t.equal(socket.isOpen, true)
  },
)

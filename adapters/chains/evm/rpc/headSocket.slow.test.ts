import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import t from 'tap'
import { type WebSocket as Peer, WebSocketServer } from 'ws'
import { silentLog as log } from '../../../../core/ports/log.ts'
import { network, seller, startSettler, usdc } from '../../../../test/helpers/chains/evm/settler.ts'
import { createEvmSettler } from '../settler.ts'
import { createHeadSocket } from './headSocket.ts'

/** The settler's chain, and a subscription. */
const answerTo = (request: string) => {
  const { id, method } = JSON.parse(request)
  return JSON.stringify({ id, result: method === 'eth_chainId' ? '0x14a34' : '0x1' })
}

t.test('with a WebSocket, blocks say when to look; the clock is not waited for', async (t) => {
  const { chain, rpc, another, pay, terms } = await startSettler(t)
  const wsUrl = chain.rpcUrl.replace('http:', 'ws:')
  const settler = another({ wsUrl, firstPollMs: 20, pollMs: 60_000, receiptTimeoutMs: 20_000 })
  await chain.setAutomine(false)
  for (let n = 1; n <= 3; n++) {
    const { payment, identity } = await pay()
    rpc.resetCounters()
    const settling = settler.settle(payment, terms, identity, async () => true)
    await rpc.whenCalled('eth_getTransactionReceipt')
    await chain.mine()
    t.match(await settling, { status: 'settled' })
    t.ok(rpc.calls('eth_getTransactionReceipt') <= 4, `${rpc.calls('eth_getTransactionReceipt')} looks`)
  }
  t.equal(await chain.balanceUsdc(seller as `0x${string}`), 30_000n)
})

t.test(
  'a WebSocket that breaks, or says nothing, delays nothing; one connection at a time, none after',
  async (t) => {
    const { chain, rpc, another, pay, terms } = await startSettler(t)
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
    await once(server, 'listening')
    t.teardown(() => server.close())
    const peers: Peer[] = []
    let most = 0
    server.on('connection', (peer) => {
      peers.push(peer)
      most = Math.max(most, server.clients.size)
      // The first three connections: one is closed at once, one sends garbage, one never announces a block.
      if (peers.length === 1) peer.terminate()
      else if (peers.length === 2) peer.send('<html>')
      else peer.on('message', (data) => peer.send(answerTo(String(data))))
    })
    const { port } = server.address() as AddressInfo
    const settler = another({ wsUrl: `ws://127.0.0.1:${port}` })
    // Each is found by asking, at the second look or later.
    await chain.setAutomine(false)
    const settleOne = async () => {
      const { payment, identity } = await pay()
      rpc.resetCounters()
      const settling = settler.settle(payment, terms, identity, async () => true)
      await rpc.whenCalled('eth_getTransactionReceipt', 2)
      await chain.mine()
      t.match(await settling, { status: 'settled' })
    }
    while (peers.length < 2) await settleOne()
    peers[1]!.terminate()
    while (peers.length < 3 || peers[2]!.readyState === peers[2]!.OPEN) await settleOne()
    t.pass('the one that told of nothing was given up')
    t.equal(most, 1)
    await settler.close()
    while (server.clients.size > 0) await once([...server.clients][0]!, 'close')
    t.equal(server.clients.size, 0)
  },
)

t.test('a URL that no WebSocket can be made for is refused at the start, not at a payment', async (t) => {
  const privateKey = `0x${'11'.repeat(32)}`
  for (const wsUrl of ['ws://127.0.0.1:1/#key', 'http://127.0.0.1:1', 'ws:', 'ws://a b']) {
    const options = {
      network,
      rpcUrls: ['http://127.0.0.1:1'],
      wsUrl,
      privateKeys: [privateKey],
      assets: [usdc],
    } as const
    t.throws(() => createEvmSettler(options), { code: 'VALIDATION_ERROR', message: /wsUrl/ }, wsUrl)
  }
})

/** RFC 6455, section 4.2.2. */
const acceptOf = (head: string) =>
  createHash('sha1')
    .update(`${/sec-websocket-key: (\S+)/i.exec(head)![1]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64')

t.test('a connection that has died without a word is not kept waiting for one', async (t) => {
  const peers: Socket[] = []
  const frame = (text: string) => Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)])
  // It sends its messages, and from then on it reads nothing, not even a closing handshake.
  const server = createServer((peer) => {
    peers.push(peer)
    peer.on('error', () => {})
    peer.once('data', (head) => {
      const accepted = `Sec-WebSocket-Accept: ${acceptOf(String(head))}`
      peer.write(`HTTP/1.1 101 \r\nUpgrade: websocket\r\nConnection: Upgrade\r\n${accepted}\r\n\r\n`)
      peer.write(Buffer.concat([frame('{"id":1,"result":"0x1"}'), frame('{"id":2,"result":"0xab"}')]))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const subscribed = Promise.withResolvers<void>()
  const heads = createHeadSocket({
    url: `ws://127.0.0.1:${port}`,
    chainId: 1,
    log,
    onHead: () => subscribed.resolve(),
  })
  heads.need()
  await subscribed.promise
  const ended = once(peers[0]!, 'close')
  heads.doubt()
  heads.close()
  await ended
  t.equal(peers.length, 1)
})

import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { type WebSocket as Peer, WebSocketServer } from 'ws'
import { newBuyer, present } from './helpers/buyers.ts'
import { startChains } from './helpers/chains.ts'
import { eventually } from './helpers/eventually.ts'
import { type Product, startProduct } from './helpers/product.ts'

const chains = await startChains(t)
const [evm] = chains.both
// A node that does not wait for the receipt itself.
evm.rpc.add('eth_sendRawTransactionSync', { kind: 'error', code: -32601, message: 'Method not found' })

/** A node's WebSocket whose every connection is the test's. */
async function startSocket(t: Test, onPeer: (peer: Peer) => void) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  t.teardown(() => {
    for (const peer of server.clients) peer.terminate()
    server.close()
  })
  let connections = 0
  server.on('connection', (peer) => {
    connections++
    onPeer(peer)
  })
  const { port } = server.address() as AddressInfo
  return { wsUrl: `ws://127.0.0.1:${port}`, server, connections: () => connections }
}

const wrong = async (product: Product) => (await product.doctor()).filter(({ ok }) => !ok)
const polls = () => evm.rpc.calls('eth_getTransactionReceipt')

t.test('with wsUrl, a buyer is answered when a block is told of; the clock is not waited for', async (t) => {
  const isMined = Promise.withResolvers<void>()
  const { wsUrl, server } = await startSocket(t, (peer) =>
    peer.on('message', async (data) => {
      const { id, method } = JSON.parse(String(data))
      if (method === 'eth_subscribe') await isMined.promise
      peer.send(JSON.stringify({ id, result: method === 'eth_chainId' ? '0x14a34' : '0x1' }))
    }),
  )
  // By the clock the first look would come when the call has long been given up.
  const clock = { firstPollMs: 60_000, pollMs: 60_000, settleTimeoutMs: 30_000 }
  const product = await startProduct(t, { evm: { wsUrl, ...clock } }, chains)
  const target = `${await product.addLink('told')}?n=1`
  const payment = await (await newBuyer(chains, evm)).sign(target)
  evm.rpc.resetCounters()
  const bought = present(target, payment)
  await eventually(async () => (await evm.transfersTo(product.payTo(evm)))[0])
  t.equal(polls(), 0)
  isMined.resolve()
  t.match(await bought, { status: 200, receipt: { success: true } })
  t.equal(polls(), 1)
  t.strictSame(await wrong(product), [])
  await product.tollgate.close()
  while (server.clients.size > 0) await once([...server.clients][0]!, 'close')
  t.equal(server.clients.size, 0, 'the connection ends with the gateway')
})

t.test('a WebSocket that closes at once, each time, costs no sale and few connections', async (t) => {
  const { wsUrl, connections } = await startSocket(t, (peer) => peer.close())
  const product = await startProduct(t, { evm: { wsUrl } }, chains)
  const url = await product.addLink('closing')
  const buyer = await newBuyer(chains, evm)
  for (let n = 1; n <= 10; n++) {
    const target = `${url}?n=${n}`
    t.match(await present(target, await buyer.sign(target)), { status: 200 })
  }
  t.equal((await evm.transfersTo(product.payTo(evm))).length, 10)
  t.ok(connections() < 10, `${connections()} connections for ten sales`)
  t.strictSame(await wrong(product), [])
})

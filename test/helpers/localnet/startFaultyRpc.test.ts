import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { createJsonRpcClient } from '../../../localnet/jsonRpcClient.ts'
import { startFaultyRpc } from './startFaultyRpc.ts'

/** A node that answers every call with how many calls it has had. */
async function start(t: Test) {
  const node = { calls: [] as string[] }
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const { id, method } = JSON.parse(body)
    node.calls.push(method)
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: node.calls.length }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const rpc = await startFaultyRpc(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  t.teardown(async () => {
    await rpc.close()
    server.close()
    server.closeAllConnections()
  })
  return { node, rpc, call: createJsonRpcClient(rpc.url) }
}

t.test('without rules every call goes through and is counted', async (t) => {
  const { rpc, call } = await start(t)
  t.equal(await call('a'), 1)
  t.equal(await call('b'), 2)
  t.equal(await call('a'), 3)
  t.same([rpc.calls('a'), rpc.calls('b'), rpc.calls('c'), rpc.calls()], [2, 1, 0, 3])
  rpc.resetCounters()
  t.equal(rpc.calls(), 0)
})

t.test('a dropped answer means that the node acted and the client does not know', async (t) => {
  const { node, rpc, call } = await start(t)
  rpc.add('send', { kind: 'drop-answer' }, 1)
  await t.rejects(call('send'))
  t.same(node.calls, ['send'])
  t.equal(rpc.forwarded('send'), 1)
  t.equal(await call('send'), 2, 'the rule is used up')
})

t.test('a refused call never reaches the node, nor do an overload and an error', async (t) => {
  const { node, rpc, call } = await start(t)
  const lift = rpc.add('send', { kind: 'refuse' })
  await t.rejects(call('send'))
  lift()
  rpc.add('send', { kind: 'http-status', status: 429, retryAfterSeconds: 2 }, 1)
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'send' })
  const response = await fetch(rpc.url, { method: 'POST', body })
  t.equal(response.status, 429)
  t.equal(response.headers.get('retry-after'), '2')
  rpc.add('*', { kind: 'error', code: -32005, message: 'node is behind' }, 1)
  await t.rejects(call('send'), { message: /busy \(code -32005\)/ })
  t.same(node.calls, [])
  t.equal(rpc.calls('send'), 3)
  t.equal(rpc.forwarded(), 0)
})

t.test('an answer can be replaced, altered, or stay what it was once', async (t) => {
  const { rpc, call } = await start(t)
  rpc.add('eth_chainId', { kind: 'result', result: '0x1' })
  t.equal(await call('eth_chainId'), '0x1')
  rpc.add('head', { kind: 'result', result: (real: unknown) => (real as number) - 100 })
  t.equal(await call('head'), -99)
  rpc.clear()
  rpc.add('head', { kind: 'stale' })
  t.equal(await call('head'), 2)
  await call('other')
  t.equal(await call('head'), 2)
  rpc.clear()
  t.equal(await call('head'), 4)
})

t.test('a held call waits until its rule is lifted', async (t) => {
  const { node, rpc, call } = await start(t)
  const lift = rpc.add('send', { kind: 'hold' })
  const response = call('send')
  await rpc.whenCalled('send')
  t.equal(await call('other'), 1, 'others pass')
  t.same(node.calls, ['other'])
  lift()
  t.equal(await response, 2)
  rpc.add('send', { kind: 'delay', ms: 3_600_000 })
  const delayed = call('send')
  await rpc.whenCalled('send', 2)
  rpc.clear()
  t.equal(await delayed, 3)
})

t.test('a batch keeps its order, and a broken connection breaks all of it', async (t) => {
  const { rpc } = await start(t)
  rpc.add('b', { kind: 'error', code: 1, message: 'no' }, 1)
  const batch = JSON.stringify(['a', 'b', 'c'].map((method, id) => ({ jsonrpc: '2.0', id, method })))
  const responses = await (await fetch(rpc.url, { method: 'POST', body: batch })).json()
  t.match(responses, [{ id: 0 }, { id: 1, error: { message: 'no' } }, { id: 2 }])
  rpc.add('b', { kind: 'refuse' }, 1)
  await t.rejects(fetch(rpc.url, { method: 'POST', body: batch }))
})

t.test('a node that is gone is a broken connection', async (t) => {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  const rpc = await startFaultyRpc(`http://127.0.0.1:${port}`)
  t.teardown(rpc.close)
  await t.rejects(createJsonRpcClient(rpc.url)('eth_chainId'))
  t.equal(rpc.calls('eth_chainId'), 1)
})

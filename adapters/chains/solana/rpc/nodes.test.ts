import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { createSolanaRpc } from './nodes.ts'

const genesis = 'EtWTRABZaYq6iMfeYKouRu166VU2xqa1'

/** A node that responds with these bytes from the second request on. */
async function answering(
  test: { teardown(close: () => void): void },
  body: string | Buffer,
  status = 200,
): Promise<string> {
  const server = createServer((request, response) => {
    let asked = ''
    request.on('data', (chunk) => {
      asked += chunk
    })
    request.on('end', () => {
      const isGenesis = asked.includes('getGenesisHash')
      response.writeHead(isGenesis ? 200 : status)
      response.end(
        isGenesis ? JSON.stringify({ jsonrpc: '2.0', id: 1, result: `${genesis}wcaWoxPkrZBG` }) : body,
      )
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  test.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/secret-key?token=secret-token`
}

const unreachable = { name: 'RpcUnreachable' }

t.test('answers that are none, too long or redirected count as no answer', async (t) => {
  for (const [body, status] of [
    ['', 200],
    ['not json', 200],
    ['null', 200],
    ['[]', 200],
    ['{"jsonrpc":"2.0","id":1}', 200],
    [Buffer.alloc(4_100_000, 32), 200],
    ['', 302],
    ['{"result":1}', 500],
    ['{"result":1}', 429],
  ] as const) {
    const url = await answering(t, body, status)
    const rpc = createSolanaRpc({ urls: [url], genesis, timeoutMs: 5_000 })
    await t.rejects(rpc.call('getSlot'), unreachable, `${status} ${body.toString().slice(0, 20)}`)
  }
})

t.test('an error of the node is passed on, with its code, and is not asked elsewhere', async (t) => {
  const body = JSON.stringify({
    error: { code: -32002, message: 'Transaction simulation failed', data: { err: 'X' } },
  })
  const first = await answering(t, body)
  const second = await answering(t, '{"result":7}')
  const rpc = createSolanaRpc({ urls: [first, second], genesis, timeoutMs: 5_000 })
  await t.rejects(rpc.call('sendTransaction'), {
    name: 'RpcRefused',
    code: -32002,
    data: { err: 'X' },
  })
})

t.test('a URL, which may hold a key, is in no message', async (t) => {
  for (const url of [await answering(t, 'x'), 'http://127.0.0.1:9/secret-key']) {
    const rpc = createSolanaRpc({ urls: [url], genesis, timeoutMs: 5_000 })
    const error = await rpc.call('getSlot').catch((caught: Error) => caught)
    t.match(error, unreachable)
    t.notMatch(String((error as Error).stack), /secret/)
  }
})

t.test('a silent node is given up after the limit', async (t) => {
  const server = createServer(() => {})
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  await t.rejects(createSolanaRpc({ urls: [url], genesis, timeoutMs: 30 }).call('getSlot'), unreachable)
})

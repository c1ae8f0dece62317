import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import t from 'tap'
import { RpcRefused, RpcUnreachable } from './post.ts'
import { requestByFetch } from './requestByFetch.ts'
import { createRpc, servedChain } from './rpc.ts'

interface Call {
  id: number
  method: string
}
type Say = (call: Call) => unknown

/** A node that responds with `{result}` or `{error}` as the test says; `raw` handles the whole request. */
async function startNode(t: Test, say: Say, raw?: (body: unknown, response: ServerResponse) => boolean) {
  const seen: string[] = []
  const server = createServer(async (request: IncomingMessage, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const body = JSON.parse(text) as Call | Call[]
    seen.push(...[body].flat().map(({ method }) => method))
    if (raw?.(body, response)) return
    const respond = (call: Call) => ({ jsonrpc: '2.0', id: call.id, ...(say(call) as object) })
    response.end(JSON.stringify(Array.isArray(body) ? body.map(respond).toReversed() : respond(body)))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/secret-key`, seen, server }
}

const honest: Say = ({ method }) => ({ result: method === 'eth_chainId' ? '0x1' : `${method} result` })
const chain = servedChain('eip155:1')
const sendRequest = requestByFetch(fetch)
const client = (...urls: string[]) =>
  createRpc({ urls, chain, isChainIdBatched: true, sendRequest, timeoutMs: 500 })

t.test('answers come back in the order of the calls, however the node orders them', async (t) => {
  const node = await startNode(t, honest)
  const rpc = client(node.url)
  const responses = await rpc.batch(['a', 'b', 'c'].map((method) => ({ method, params: [] })))
  t.same(
    responses,
    ['a result', 'b result', 'c result'].map((result) => ({ ok: true, result })),
  )
  t.same(node.seen, ['eth_chainId', 'a', 'b', 'c'], 'the chain is asked along with the first calls')
  await rpc.call('d')
  t.equal(node.seen.filter((method) => method === 'eth_chainId').length, 1)
})

t.test('a node’s refusal is an answer; the next node is not asked', async (t) => {
  const first = await startNode(t, ({ method }) =>
    method === 'eth_chainId'
      ? { result: '0x1' }
      : { error: { code: 3, message: 'execution reverted', data: '0x08' } },
  )
  const second = await startNode(t, honest)
  const rpc = client(first.url, second.url)
  const error = await rpc.call('eth_call').catch((error: unknown) => error)
  t.ok(error instanceof RpcRefused && error.code === 3 && error.data === '0x08')
  t.equal(second.seen.length, 0)
})

t.test('the next node takes over from one that is away, busy, broken or on another chain', async (t) => {
  const status = (code: number) => (_: unknown, response: ServerResponse) => {
    response.writeHead(code).end('{}')
    return true
  }
  const text = (body: string) => (_: unknown, response: ServerResponse) => {
    response.end(body)
    return true
  }
  const bad = {
    'too many requests': await startNode(t, honest, status(429)),
    'a gateway’s fault': await startNode(t, honest, status(502)),
    'not JSON': await startNode(t, honest, text('<html>')),
    'no JSON-RPC': await startNode(t, honest, text('{"x":1}')),
    'an empty list': await startNode(t, honest, text('[]')),
    silence: await startNode(t, honest, () => true),
    'a cut connection': await startNode(t, honest, (_, response) => Boolean(response.destroy())),
    'another chain': await startNode(t, ({ method }) => ({
      result: method === 'eth_chainId' ? '0x2' : 'lie',
    })),
    'too many, in JSON': await startNode(t, () => ({ error: { code: -32005, message: 'limit exceeded' } })),
  }
  for (const [what, node] of Object.entries(bad)) {
    const good = await startNode(t, honest)
    const rpc = client(node.url, good.url)
    t.equal(await rpc.call('m'), 'm result', what)
    t.equal(await rpc.call('n'), 'n result')
    t.notOk(node.seen.includes('n'), `${what}: the good node is asked first from then on`)
    const error = await client(node.url)
      .call('m')
      .catch((error: unknown) => error)
    t.ok(error instanceof RpcUnreachable, what)
    t.notMatch(String(error), /secret-key/, 'the path of the URL is a secret')
  }
})

t.test('a node without batches is asked call by call', async (t) => {
  const node = await startNode(t, honest, (body, response) => {
    if (Array.isArray(body)) {
      response.end(
        JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32600, message: 'no batches' } }),
      )
    }
    return Array.isArray(body)
  })
  const rpc = client(node.url)
  const calls = ['a', 'b'].map((method) => ({ method, params: [] }))
  t.match(await rpc.batch(calls), [{ result: 'a result' }, { result: 'b result' }])
  const before = node.seen.length
  await rpc.batch(calls)
  t.equal(node.seen.length, before + 2, 'the batch is not tried again')
})

t.test(
  'nothing is sent for no calls, and what a node answers to one call is never asked in parts',
  async (t) => {
    const odd = { jsonrpc: '2.0', id: null, error: { code: -32600, message: 'Invalid request' } }
    const node = await startNode(t, honest, (_, response) => Boolean(response.end(JSON.stringify(odd))))
    const rpc = client(node.url)
    t.same(await rpc.batch([]), [])
    t.equal(node.seen.length, 0)
    await rpc.batch([{ method: 'a', params: [] }]).catch(() => undefined)
    const bound = node.seen.length
    t.ok(bound <= 4, `${bound} calls for one`)
    await rpc.batch([]).catch(() => undefined)
    t.equal(node.seen.length, bound)
  },
)

t.test('a node that is too busy for a batch is not asked call by call', async (t) => {
  const busy = { jsonrpc: '2.0', id: null, error: { code: -32005, message: 'limit exceeded' } }
  let isBusy = true
  const node = await startNode(
    t,
    honest,
    (_, response) => isBusy && Boolean(response.end(JSON.stringify(busy))),
  )
  const rpc = client(node.url)
  const calls = ['a', 'b', 'c'].map((method) => ({ method, params: [] }))
  t.ok((await rpc.batch(calls).catch((error: unknown) => error)) instanceof RpcUnreachable)
  t.equal(node.seen.length, 4, 'the one batch')
  isBusy = false
  t.match(await rpc.batch(calls), [{ ok: true }, { ok: true }, { ok: true }])
})

t.test('a node without batches is asked a few calls at a time', async (t) => {
  let open = 0
  let most = 0
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const body = JSON.parse(text) as Call | Call[]
    if (Array.isArray(body)) return response.end('{"error":{"code":-32600,"message":"no batches"}}')
    most = Math.max(most, ++open)
    await new Promise((resolve) => setImmediate(resolve))
    open--
    return response.end(
      JSON.stringify({
        jsonrpc: '2.0',
        id: body.id,
        result: body.method === 'eth_chainId' ? '0x1' : body.method,
      }),
    )
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close().closeAllConnections())
  const rpc = client(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const methods = Array.from({ length: 120 }, (_, n) => `m${n}`)
  const responses = await rpc.batch(methods.map((method) => ({ method, params: [] })))
  t.same(
    responses.map((response) => response.ok && response.result),
    methods,
    'in order',
  )
  t.ok(most <= 8, `${most} at once`)
})

t.test('an answer may be kept back for a time that was measured, which is no whole number', async (t) => {
  const node = await startNode(t, honest)
  t.equal(await client(node.url).callWithin(123.4567, 'held'), 'held result')
})

for (const [what, responses] of Object.entries({
  'an empty list': [],
  'one error for all of them': [{ id: null, error: { code: -32600, message: 'batch too large' } }],
  'the first only': [{ id: 2, error: { code: -32600, message: 'batch too large' } }],
})) {
  t.test(`a node that answers a batch with ${what} is asked one by one`, async (t) => {
    const node = await startNode(t, honest, (body, response) => {
      if (!Array.isArray(body)) return false
      response.end(
        JSON.stringify(
          responses.map((response) => ({ ...response, ...(response.id && { id: body[0].id }) })),
        ),
      )
      return true
    })
    const rpc = client(node.url)
    const calls = ['a', 'b'].map((method) => ({ method, params: [] }))
    t.match(await rpc.batch(calls), [{ result: 'a result' }, { result: 'b result' }])
    const before = node.seen.length
    await rpc.batch(calls)
    t.equal(node.seen.length - before, 2, 'that is remembered')
  })
}

t.test('a batch that a busy node answers in part is not asked again one by one', async (t) => {
  const busy = { id: 1, error: { code: -32005, message: 'limit exceeded' } }
  const node = await startNode(t, honest, (body, response) => {
    if (Array.isArray(body)) response.end(JSON.stringify([{ ...busy, id: body[0].id }]))
    return Array.isArray(body)
  })
  await t.rejects(client(node.url).batch([{ method: 'a', params: [] }]), /busy/)
  t.same(node.seen, ['eth_chainId', 'a'])
})

t.test('the preferred node is asked again when it is well, and no call waits for it to be', async (t) => {
  let nowMs = 0
  let isWell = false
  const first = await startNode(t, honest, (_, response) => {
    if (!isWell) response.writeHead(503).end()
    return !isWell
  })
  const second = await startNode(t, honest)
  const clock = { now: () => nowMs }
  const rpc = createRpc({
    urls: [first.url, second.url],
    chain,
    isChainIdBatched: true,
    sendRequest,
    timeoutMs: 500,
    clock,
  })
  await rpc.call('a')
  t.same(first.seen, ['eth_chainId', 'a'])
  await rpc.call('b')
  t.equal(first.seen.length, 2, 'not at once')

  const asked = () => first.seen.filter((method) => method === 'eth_chainId').length
  nowMs += 61_000
  await Promise.all([rpc.call('c'), rpc.call('c')])
  while (asked() < 2) await rpc.call('d')
  t.equal(asked(), 2, 'by one request of its own')
  await rpc.call('e')
  t.notOk(first.seen.includes('c') || first.seen.includes('d') || first.seen.includes('e'), 'it is not well')

  isWell = true
  nowMs += 61_000
  while (!first.seen.includes('f')) await rpc.call('f')
  const before = second.seen.length
  await rpc.call('g')
  t.equal(second.seen.length, before)
  t.ok(first.seen.includes('g'))
})

t.test(
  'of calls that have nothing to do with each other, one bad answer spoils none of the others',
  async (t) => {
    const odd: Say = ({ method }) => {
      if (method === 'refused') return { error: { code: -32602, message: 'invalid params' } }
      if (method === 'busy') return { error: { code: -32005, message: 'limit exceeded' } }
      return method === 'garbage' ? { nothing: true } : honest({ id: 0, method })
    }
    const calls = ['a', 'refused', 'busy', 'garbage', 'b'].map((method) => ({ method, params: [] }))
    const wanted = [
      { ok: true, result: 'a result' },
      { ok: false, error: RpcRefused },
      { ok: false, error: RpcUnreachable },
      { ok: false, error: RpcUnreachable },
      { ok: true, result: 'b result' },
    ]
    const node = await startNode(t, odd)
    t.match(await client(node.url).many(calls), wanted)
    const single = await startNode(t, odd, (body, response) => {
      if (Array.isArray(body)) response.writeHead(413).end('<html>too large</html>')
      return Array.isArray(body)
    })
    t.match(await client(single.url).many(calls), wanted, 'nor where calls go one by one')
  },
)

t.test('a thousand calls are twenty requests, and a node that is away answers none of them', async (t) => {
  let requests = 0
  let isUnavailable = false
  const node = await startNode(t, honest, (_, response) => {
    requests++
    return isUnavailable && Boolean(response.destroy())
  })
  const rpc = client(node.url)
  const calls = Array.from({ length: 1_000 }, (_, n) => ({ method: `m${n}`, params: [] }))
  const responses = await rpc.many(calls)
  t.same(
    responses.map((response) => response.ok && response.result),
    calls.map(({ method }) => `${method} result`),
  )
  t.equal(requests, 20)
  isUnavailable = true
  t.match(await rpc.many(calls.slice(0, 2)), [{ error: RpcUnreachable }, { error: RpcUnreachable }])
  t.same(await rpc.many([]), [])
})

t.test(
  'a batch whose answer is too long is asked for in halves; one call’s too long answer is its own',
  async (t) => {
    const long = 'x'.repeat(3_000)
    const node = await startNode(t, (call) => {
      if (call.method === 'longest') return { result: long.repeat(3) }
      return call.method === 'eth_chainId' ? { result: '0x1' } : { result: long }
    })
    const options = { urls: [node.url], chain, isChainIdBatched: true, sendRequest, timeoutMs: 5_000 }
    const rpc = createRpc({ ...options, maxResponseBytes: 4_000 })
    await rpc.call('short')
    const calls = ['a', 'b', 'longest', 'c'].map((method) => ({ method, params: [] }))
    const responses = await rpc.many(calls)
    t.same(
      responses.map(({ ok }) => ok),
      [true, true, false, true],
    )
  },
)

t.test(
  'what a node’s URL holds is in no message: neither path nor query nor name and password',
  async (t) => {
    const away = '127.0.0.1:9/secret-path?key=secret-query'
    const notJson = await startNode(t, honest, (_, response) => Boolean(response.end('secret-body')))
    for (const url of [
      `http://secret-user:secret-password@${away}`,
      `http://${away}`,
      'secret url',
      notJson.url,
    ]) {
      const error = await client(url)
        .call('m')
        .catch((error: unknown) => error as Error)
      t.ok(error instanceof RpcUnreachable)
      t.notMatch(String((error as Error).stack), /secret/)
    }
  },
)

t.test('an answer that holds an error is a refusal, whatever result stands beside it', async (t) => {
  const error = { code: -32000, message: 'x'.repeat(5_000) }
  const node = await startNode(t, (call) =>
    call.method === 'eth_chainId' ? { result: '0x1', error: null } : { result: null, error },
  )
  const refusal = await client(node.url)
    .call('m')
    .catch((error: unknown) => error as Error)
  t.ok(refusal instanceof RpcRefused)
  t.ok((refusal as Error).message.length <= 300, 'and its words are cut')
})

t.test('a redirect is not followed', async (t) => {
  const other = await startNode(t, honest)
  const node = await startNode(t, honest, (_, response) =>
    Boolean(response.writeHead(307, { location: other.url }).end()),
  )
  await t.rejects(client(node.url).call('m'), RpcUnreachable)
  t.same(other.seen, [])
})

t.test(
  'where the chain is asked for before the calls, calls that come at once wait for one question',
  async (t) => {
    const node = await startNode(t, honest)
    const before = createRpc({
      urls: [node.url],
      chain,
      sendRequest,
      timeoutMs: 500,
    })
    await Promise.all(['a', 'b'].map((method) => before.call(method)))
    t.same(node.seen.toSorted(), ['a', 'b', 'eth_chainId'])
    t.equal(node.seen[0], 'eth_chainId')
    const other = createRpc({
      urls: [node.url],
      chain: { ...chain, expected: '2' },
      sendRequest,
      timeoutMs: 500,
    })
    await t.rejects(other.call('c'), /serves chain 1, expected 2/)
    t.notOk(node.seen.includes('c'))
  },
)

t.test('a call goes out twice only where calls may', async (t) => {
  for (const isRepeatable of [false, true]) {
    const node = await startNode(t, honest, (_, response) => Boolean(response.destroy()))
    await t.rejects(createRpc({ urls: [node.url], sendRequest, timeoutMs: 500, isRepeatable }).call('m'))
    t.equal(node.seen.length, isRepeatable ? 2 : 1)
  }
})

t.test('the caller’s signal ends a call, and no other node is asked', async (t) => {
  const silent = await startNode(t, honest, () => true)
  const other = await startNode(t, honest)
  const rpc = createRpc({ urls: [silent.url, other.url], sendRequest, timeoutMs: 5_000 })
  await t.rejects(rpc.callWithin(AbortSignal.timeout(20), 'm'), RpcUnreachable)
  t.same(other.seen, [])
})

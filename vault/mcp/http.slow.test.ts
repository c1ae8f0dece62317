import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { LATEST_PROTOCOL_VERSION, SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/sdk/types.js'
import t from 'tap'
import { initialize, messagesOf, type RunningMcp, startMcp } from '../../test/helpers/vault/mcp/startMcp.ts'
import { until } from '../../test/helpers/vault/mcp/until.ts'

const list = { jsonrpc: '2.0', id: 2, method: 'tools/list', params: {} }
const call = (name: string, args: object, id: string | number = 3) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: args },
})

/** The id of a new MCP session. */
async function begin(mcp: RunningMcp, token: string | undefined): Promise<string> {
  const response = await mcp.send({ token, body: initialize() })
  await response.text()
  return response.headers.get('mcp-session-id')!
}

t.test('the steps of the document: initialize with 2024-11-05, then the list of tools', async (t) => {
  const mcp = await startMcp(t)
  const { token } = await mcp.vault.agent('a', [])
  const first = await mcp.send({ token, body: initialize('2024-11-05') })
  t.equal(first.status, 200)
  const session = first.headers.get('mcp-session-id')!
  t.match(session, /^[\x21-\x7e]{16,}$/)
  const [greeting] = await messagesOf(first)
  t.match(greeting, {
    jsonrpc: '2.0',
    id: 1,
    result: {
      protocolVersion: '2024-11-05',
      capabilities: { tools: {} },
      serverInfo: { name: 'tollgate-vault' },
      instructions: /vault_list_scopes/,
    },
  })
  const second = await mcp.send({ token, session, body: list })
  t.equal(second.status, 200)
  const [{ result }] = await messagesOf(second)
  t.equal(result.tools.length, 14)
  t.equal(first.headers.get('x-content-type-options'), 'nosniff')
  t.ok(first.headers.get('x-request-id'))
})

t.test('the whole answer with the tools has less than 12 KB, and no arguments may be null', async (t) => {
  const mcp = await startMcp(t)
  const { token } = await mcp.vault.agent('a', ['identity.name'])
  const session = await begin(mcp, token)
  const [listed] = await messagesOf(await mcp.send({ token, session, body: list }))
  t.equal(listed.result.tools.length, 14)
  t.ok(Buffer.byteLength(JSON.stringify(listed)) <= 12_000)
  const ask = async (params: object) =>
    (await messagesOf(await mcp.send({ token, session, body: { ...list, method: 'tools/call', params } })))[0]
  const name = 'vault_list_scopes'
  const { result } = await ask({ name })
  t.match(result.structuredContent.scopes, [{ scope: 'identity.name' }])
  t.strictSame((await ask({ name, arguments: null })).result, result)
  t.match(await ask({ name, arguments: [] }), { error: {} })
})

t.test('every version that the SDK speaks is spoken, and another one gets the newest', async (t) => {
  const mcp = await startMcp(t)
  const { token } = await mcp.vault.agent('a', [])
  for (const version of [...SUPPORTED_PROTOCOL_VERSIONS, '1999-01-01']) {
    const [{ result }] = await messagesOf(await mcp.send({ token, body: initialize(version) }))
    t.equal(result.protocolVersion, version === '1999-01-01' ? LATEST_PROTOCOL_VERSION : version)
  }
})

t.test('a session ends by DELETE, and is then as unknown as one that never was', async (t) => {
  const mcp = await startMcp(t)
  const { token } = await mcp.vault.agent('a', [])
  const session = await begin(mcp, token)
  const noted = await mcp.send({
    token,
    session,
    body: { jsonrpc: '2.0', method: 'notifications/initialized' },
  })
  t.equal(noted.status, 202)
  t.equal((await mcp.send({ token, session, method: 'DELETE' })).status, 200)
  t.equal(mcp.mount.sessionCount, 0)
  for (const unknown of [session, 'none']) {
    for (const method of ['POST', 'GET', 'DELETE']) {
      const body = method === 'POST' ? list : undefined
      const response = await mcp.send({ token, session: unknown, method, body })
      t.equal(response.status, 404, method)
      t.match(await response.json(), { jsonrpc: '2.0', error: { code: -32001 }, id: null })
    }
  }
  for (const method of ['POST', 'GET', 'DELETE']) {
    const response = await mcp.send({ token, method, body: method === 'POST' ? list : undefined })
    t.match(
      [response.status, ((await response.json()) as { error: { message: string } }).error.message],
      [400, /mcp-session-id/],
      method,
    )
  }
  const put = await mcp.send({ token, method: 'PUT', session, body: list })
  t.match([put.status, put.headers.get('allow')], [405, 'POST, GET, DELETE'])
  t.equal((await mcp.send({ token, session: await begin(mcp, token), body: initialize() })).status, 400)
})

t.test('only agents come in: nobody without a token, and never the owner', async (t) => {
  const mcp = await startMcp(t)
  const { vault } = mcp
  const { token: owner } = (await vault.asOwner('POST', '/v1/vault/owner/sessions', {})).body
  for (const token of [undefined, owner, `vat_${'A'.repeat(43)}`, 'x']) {
    const response = await mcp.send({ token, body: initialize() })
    t.equal(response.status, 401)
    t.notOk(response.headers.has('mcp-session-id'))
  }
  t.match((await mcp.send({ token: owner, body: initialize() })).headers.get('www-authenticate'), 'Bearer')
  const onSocket = await vault.asOwner('POST', '/mcp', initialize())
  t.match([onSocket.status, onSocket.body.error.data.code], [401, 'UNAUTHORIZED'])
  t.equal(mcp.mount.sessionCount, 0)
})

t.test('a client that takes a 401 for OAuth shows what the vault has to say', async (t) => {
  const { url } = await startMcp(t)
  let opened = false
  const authProvider = {
    redirectUrl: 'http://127.0.0.1:1/callback',
    clientMetadata: { redirect_uris: ['http://127.0.0.1:1/callback'] },
    clientInformation: () => undefined,
    saveClientInformation() {},
    tokens: () => undefined,
    saveTokens() {},
    redirectToAuthorization: () => void (opened = true),
    saveCodeVerifier() {},
    codeVerifier: () => '',
  }
  const connect = (options: object) =>
    new Client({ name: 'test', version: '1.0.0' }).connect(
      new StreamableHTTPClientTransport(url, options) as Transport,
    )
  await t.rejects(connect({ authProvider }), { message: /no OAuth.*Authorization: Bearer vat_/ })
  t.notOk(opened, 'no page is opened')
  await t.rejects(connect({}), { message: /Expected an agent's token: Authorization: Bearer vat_/ })
})

t.test('without a token the tokenless agent counts, where the owner chose that', async (t) => {
  const mcp = await startMcp(t, { tokenlessAgent: 'a' })
  const before = await mcp.send({ body: initialize() })
  t.equal(before.status, 401, 'there is no such agent yet')
  await mcp.vault.agent('a', ['wallet.base'])
  const session = await begin(mcp, undefined)
  const [{ result }] = await messagesOf(
    await mcp.send({ session, body: call('vault_get_address', { chain: 'base' }) }),
  )
  t.match(result.structuredContent, { chain: 'base' })
})

t.test('a session is its agent’s alone: to another one it does not exist', async (t) => {
  const mcp = await startMcp(t)
  const { token } = await mcp.vault.agent('a', ['wallet.base'])
  const other = await mcp.vault.agent('b', ['wallet.base'])
  const session = await begin(mcp, token)
  for (const method of ['POST', 'GET', 'DELETE']) {
    const body = method === 'POST' ? call('vault_list_scopes', {}) : undefined
    t.equal((await mcp.send({ token: other.token, session, method, body })).status, 404, method)
  }
  t.equal((await mcp.send({ token, session, body: list })).status, 200)
})

t.test('a page of another origin, and a name that was pointed here, get nothing', async (t) => {
  const mcp = await startMcp(t)
  const { vault } = mcp
  const agent = await vault.agent('a', [])
  const { port } = mcp.url
  const accept = { accept: 'application/json, text/event-stream' }
  for (const headers of [
    { origin: 'https://evil.example' },
    { origin: `http://127.0.0.1:${Number(port) + 1}` },
    { origin: `http://localhost:${port}` },
    { origin: 'null' },
    { host: 'evil.example' },
    { host: `evil.example:${port}` },
    { host: `evil.example:${port}`, origin: `http://evil.example:${port}` },
    { 'sec-fetch-site': 'cross-site' },
  ]) {
    const response = await agent.call('POST', '/mcp', initialize(), { ...accept, ...headers })
    t.match([response.status, response.body.error.code], [403, 'ORIGIN_FORBIDDEN'], JSON.stringify(headers))
    t.notOk(response.headers['mcp-session-id'])
  }
  t.equal((await mcp.send({ token: agent.token, method: 'OPTIONS' })).status, 405)
  const own = await mcp.send({
    token: agent.token,
    body: initialize(),
    headers: { origin: mcp.url.origin },
  })
  t.equal(own.status, 200, 'the vault’s own address is no foreign origin')
  t.notOk([...own.headers.keys()].some((name) => name.startsWith('access-control')))
})

t.test('what is no message gets an error of the protocol, and opens no session', async (t) => {
  const mcp = await startMcp(t)
  const { token } = await mcp.vault.agent('a', [])
  const session = await begin(mcp, token)
  const big = JSON.stringify(call('vault_write', { scope: 'custom.a', value: 'x'.repeat(262_144) }))
  const deep = `${'{"a":'.repeat(40)}1${'}'.repeat(40)}`
  for (const [body, status, code] of [
    ['{', 400, -32700],
    ['', 400, -32700],
    ['{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', 400, -32700],
    [deep, 400, -32700],
    [big, 413, -32700],
    ['[]', 202, undefined],
    ['null', 400, -32700],
    ['"x"', 400, -32700],
    ['{"id":1}', 400, -32700],
    ['{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32700],
    [JSON.stringify(Array.from({ length: 101 }, (_, id) => ({ ...list, id }))), 400, -32600],
  ] as const) {
    const response = await mcp.send({
      token,
      session,
      body,
      headers: { 'content-type': 'application/json' },
    })
    t.equal(response.status, status, body.slice(0, 50))
    if (code === undefined) continue
    const [{ error, jsonrpc }] = await messagesOf(response)
    t.match([jsonrpc, error.code], ['2.0', code], body.slice(0, 50))
    t.notMatch(error.message, /\.ts:\d|\bat .*\(/)
  }
  const typed = await mcp.send({ token, session, body: list, headers: { 'content-type': 'text/plain' } })
  t.equal(typed.status, 415)
  const picky = await mcp.send({ token, session, body: list, headers: { accept: 'application/json' } })
  t.equal(picky.status, 406)
  const versioned = { 'mcp-protocol-version': '1999-01-01' }
  t.equal((await mcp.send({ token, session, body: list, headers: versioned })).status, 400)
  t.equal(mcp.mount.sessionCount, 1)
  for (const body of [
    list,
    { ...initialize(), params: {} },
    { ...initialize(), id: undefined },
    [initialize()],
  ])
    t.equal((await mcp.send({ token, body })).status, 400)
  t.equal(
    (await mcp.send({ token, body: initialize(), headers: { accept: 'application/json' } })).status,
    406,
  )
  t.equal(mcp.mount.sessionCount, 1)
  const [unknown] = await messagesOf(
    await mcp.send({ token, session, body: { ...list, method: 'vault/unlock' } }),
  )
  t.match(unknown, { id: 2, error: { code: -32601 } })
})

t.test('a body without a stated length ends at the bound, too', async (t) => {
  const mcp = await startMcp(t)
  const { token } = await mcp.vault.agent('a', [])
  const piece = new Uint8Array(65_536).fill(0x20)
  let pieces = 0
  const body = new ReadableStream({
    pull: (controller) => (pieces++ < 8 ? controller.enqueue(piece) : controller.close()),
  })
  // The response may come before the whole body was sent, and then the connection ends.
  const response = await fetch(mcp.url, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body,
    duplex: 'half',
  } as RequestInit).catch(() => undefined)
  if (response !== undefined) t.equal(response.status, 413)
  t.equal(mcp.mount.sessionCount, 0)
})

t.test('a batch is answered to its end, and an id counts once at a time', async (t) => {
  const mcp = await startMcp(t)
  const { token } = await mcp.vault.agent('a', ['wallet.base'])
  const session = await begin(mcp, token)
  const body = [call('vault_get_address', { chain: 'base' }, 'x'), call('vault_list_scopes', {}, 'y'), list]
  const responses = await messagesOf(await mcp.send({ token, session, body }))
  t.strictSame(responses.map(({ id }) => id).sort(), [2, 'x', 'y'])
  const twice = await mcp.send({ token, session, body: [list, list] })
  t.equal(twice.status, 400)
  const many = await Promise.all(
    Array.from({ length: 30 }, async (_, id) => {
      const [{ result }] = await messagesOf(
        await mcp.send({ token, session, body: call('vault_get_address', { chain: 'base' }, id) }),
      )
      return result.structuredContent.chain
    }),
  )
  t.strictSame(new Set(many), new Set(['base']))
})

t.test('what calls no tool is counted too, and calls are not held up by it', async (t) => {
  const { vault, send } = await startMcp(t)
  const [{ token }, other] = await Promise.all([vault.agent('a', []), vault.agent('b', [])])
  const session = (await send({ token, body: initialize('2024-11-05') })).headers.get('mcp-session-id')!
  const pings = (turn: number) =>
    Array.from({ length: 100 }, (_, i) => ({ jsonrpc: '2.0', id: `${turn} ${i}`, method: 'ping' }))
  for (let turn = 0; turn < 5; turn++) {
    const response = await send({ token, session, body: pings(turn) })
    t.equal((await messagesOf(response)).length, 100)
  }
  const refused = await send({ token, session, body: pings(5) })
  t.equal(refused.status, 429)
  await refused.text()
  const params = { name: 'vault_list_scopes', arguments: {} }
  const called = await send({
    token,
    session,
    body: { jsonrpc: '2.0', id: 'c', method: 'tools/call', params },
  })
  t.match(await messagesOf(called), [{ id: 'c', result: { structuredContent: { scopes: { length: 0 } } } }])
  t.equal((await send({ token: other.token, body: initialize() })).status, 200)
})

t.test('an agent has so many sessions; the one unused for longest makes room', async (t) => {
  const mcp = await startMcp(t)
  const { token } = await mcp.vault.agent('a', [])
  const others = await begin(mcp, (await mcp.vault.agent('b', [])).token)
  t.ok(others)
  const ids: string[] = []
  for (let i = 0; i < 32; i++) {
    ids.push(await begin(mcp, token))
    mcp.clock.advance(1_000)
  }
  await (await mcp.send({ token, session: ids[0], body: list })).text()
  const next = await begin(mcp, token)
  t.equal((await mcp.send({ token, session: ids[1], body: list })).status, 404)
  for (const kept of [ids[0], ids[2], next])
    t.equal((await mcp.send({ token, session: kept, body: list })).status, 200)
  t.equal(mcp.mount.sessionCount, 33)

  // Referenced, because an unreferenced stream is closed when its memory is reclaimed.
  const streams: Response[] = []
  t.teardown(() => Promise.all(streams.map(({ body }) => body?.cancel())))
  for (const session of [ids[0], ...ids.slice(2), next]) {
    const stream = await mcp.send({ token, session, method: 'GET' })
    t.equal(stream.status, 200)
    streams.push(stream)
  }
  const refused = await mcp.send({ token, body: initialize() })
  t.match([refused.status, refused.headers.get('retry-after')], [429, '30'])
})

t.test(
  'a session that nobody uses ends; one with an open stream is used, until the client vanishes',
  async (t) => {
    const mcp = await startMcp(t)
    const { token } = await mcp.vault.agent('a', [])
    const unused = await begin(mcp, token)
    const listening = await begin(mcp, token)
    const client = new AbortController()
    const stream = await mcp.send({ token, session: listening, method: 'GET', signal: client.signal })
    t.match(stream.headers.get('content-type'), /^text\/event-stream/)
    const second = await mcp.send({ token, session: listening, method: 'GET' })
    t.equal(second.status, 409, 'one stream a session')
    mcp.clock.advance(30 * 60_000)
    t.equal((await mcp.send({ token, session: unused, body: list })).status, 404)
    t.equal(mcp.mount.sessionCount, 1)
    client.abort()
    t.ok(stream.body, 'it was open until then')
    await until(async () => {
      mcp.clock.advance(30 * 60_000)
      await mcp.send({ token, session: 'none', body: list })
      return mcp.mount.sessionCount === 0
    })
  },
)

t.test('what an agent had open closes when it is revoked, and when it gets a new token', async (t) => {
  const mcp = await startMcp(t)
  for (const end of ['rotate', 'revoke'] as const) {
    const agent = await mcp.vault.agent(end, ['wallet.base'])
    const kept = await mcp.vault.agent(`not ${end}`, ['wallet.base'])
    const session = await begin(mcp, agent.token)
    const others = await begin(mcp, kept.token)
    const stream = await mcp.send({ token: agent.token, session, method: 'GET' })
    await mcp.vault.api.agents[end](agent.id, mcp.vault.owner)
    t.equal(await stream.text(), '', 'the stream ended')
    t.equal((await mcp.send({ token: agent.token, session, body: list })).status, 401)
    t.equal((await mcp.send({ token: kept.token, session: others, body: list })).status, 200)
  }
})

t.test('grants count as they are now, not as they were when the session began', async (t) => {
  const mcp = await startMcp(t)
  const agent = await mcp.vault.agent('a', [])
  const { call } = await mcp.connect(agent)
  t.match((await call('vault_get_address', { chain: 'base' })).structuredContent.error, {
    code: 'SCOPE_DENIED',
  })
  await mcp.vault.api.agents.update('a', { scopes: ['wallet.base'] }, mcp.vault.owner)
  t.match((await call('vault_get_address', { chain: 'base' })).structuredContent, { chain: 'base' })
})

t.test('closing ends every session and every stream', async (t) => {
  const mcp = await startMcp(t)
  const { token } = await mcp.vault.agent('a', [])
  const session = await begin(mcp, token)
  const stream = await mcp.send({ token, session, method: 'GET' })
  await mcp.mount.close()
  t.equal(await stream.text(), '')
  t.equal(mcp.mount.sessionCount, 0)
})

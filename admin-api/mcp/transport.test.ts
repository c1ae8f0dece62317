import t, { type Test } from 'tap'
import { connectMcp } from '../../test/helpers/admin-api/mcp/connectMcp.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { until } from '../../test/helpers/rawHttp.ts'

const rpc = (method: string, params: object = {}, id: unknown = 1) => ({ jsonrpc: '2.0', id, method, params })
const initialize = (protocolVersion: string) =>
  rpc('initialize', { protocolVersion, capabilities: {}, clientInfo: { name: 'test', version: '1' } })

async function start(t: Test, overrides: Parameters<typeof startAdmin>[1] = {}) {
  const f = await startAdmin(t, overrides)
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  const base = `http://127.0.0.1:${port}`
  async function send(body: unknown, more: Record<string, string> = {}, method = 'POST') {
    const response = await fetch(`${base}/mcp`, {
      method,
      headers: {
        accept: 'application/json, text/event-stream',
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...more,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    const { headers, status } = response
    const isStream = headers.get('content-type')?.startsWith('text/event-stream')
    // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
    const messages: any[] = isStream
      ? text.split('\n').flatMap((line) => (line.startsWith('data: ') ? JSON.parse(line.slice(6)) : []))
      : text === ''
        ? []
        : [JSON.parse(text)]
    return { status, headers, text, messages }
  }
  return { ...f, base, send }
}

t.test('clients of the oldest and of the newest version find the tools and call them', async (t) => {
  const { send } = await start(t)
  for (const version of ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25']) {
    const begun = await send(initialize(version))
    t.match(begun.messages, [
      { id: 1, result: { protocolVersion: version, serverInfo: { title: 'Tollgate' } } },
    ])
    const headers = {
      'mcp-session-id': begun.headers.get('mcp-session-id')!,
      'mcp-protocol-version': version,
    }
    t.match(headers['mcp-session-id'], /^[\w-]{36}$/)
    t.equal((await send({ jsonrpc: '2.0', method: 'notifications/initialized' }, headers)).status, 202)
    t.equal((await send(rpc('tools/list'), headers)).messages[0].result.tools.length, 10, version)
    const called = await send(rpc('tools/call', { name: 'search_links', arguments: {} }, 'a'), headers)
    t.match(called.messages, [{ id: 'a', result: { structuredContent: { results: { length: 0 } } } }])
  }
  t.match((await send(initialize('1999-01-01'))).messages, [{ result: { protocolVersion: '2025-11-25' } }])
  t.equal((await send(rpc('ping'), { 'mcp-protocol-version': '1999-01-01' })).status, 400)
})

t.test('nothing has to be remembered between two requests', async (t) => {
  const { send } = await start(t)
  t.match((await send(rpc('tools/list'))).messages, [{ result: {} }], 'without a session')
  t.match((await send(rpc('ping'), { 'mcp-session-id': 'from another process' })).messages, [{ result: {} }])
  const batch = [
    rpc('ping', {}, 1),
    rpc('ping', {}, '1'),
    { jsonrpc: '2.0', method: 'notifications/initialized' },
  ]
  t.strictSame(new Set((await send(batch)).messages.map(({ id }) => id)), new Set([1, '1']))
})

t.test('what is no message is refused in the protocol’s own form', async (t) => {
  const { send, f } = await start(t).then((f) => ({ ...f, f }))
  const refused = async (body: unknown, status: number, more = {}, method = 'POST') => {
    const response = await send(body, more, method)
    t.equal(response.status, status, JSON.stringify(body)?.slice(0, 60))
    return response
  }
  const bad = [
    null,
    1,
    'x',
    '"x"',
    '{',
    '[]',
    '[1]',
    '[[]]',
    '{"__proto__":{}}',
    `${'['.repeat(100)}${']'.repeat(100)}`,
  ]
  for (const body of [...bad, [rpc('ping'), rpc('ping')], Array(21).fill({ jsonrpc: '2.0', method: 'x' })])
    t.match((await refused(body, 400)).messages, [
      { jsonrpc: '2.0', id: null, error: { code: Number, message: String } },
    ])
  await refused('', 400)
  await refused(`{"a":"${'x'.repeat(1_100_000)}"}`, 413)
  await refused('a=b', 415, { 'content-type': 'application/x-www-form-urlencoded' })
  await refused(rpc('ping'), 406, { accept: 'text/html' })
  for (const method of ['GET', 'DELETE', 'PUT']) {
    const { headers } = await refused(undefined, 405, { accept: 'text/event-stream' }, method)
    t.equal(headers.get('allow'), 'POST')
  }
  t.strictSame(f.logged, [])
})

t.test('pages of other origins reach nothing', async (t) => {
  const { send } = await start(t)
  for (const origin of [
    'https://evil.example',
    'null',
    'http://127.0.0.1.evil.example',
    'http://localhost.evil.example',
    '',
  ]) {
    const { status, headers } = await send(rpc('ping'), { origin })
    t.equal(status, 403, origin)
    t.equal(headers.get('access-control-allow-origin'), null)
  }
  for (const origin of ['https://pay.example', 'http://localhost:3000', 'http://127.0.0.1:1'])
    t.equal((await send(rpc('ping'), { origin })).status, 200, origin)
})

t.test('messages are counted by the address that sends them, each of a batch', async (t) => {
  const { send } = await start(t, { limits: { mcpPerMinute: 3 } })
  const batch = [rpc('ping', {}, 1), rpc('ping', {}, 2)]
  t.equal((await send(batch)).status, 200)
  t.equal((await send(rpc('ping'))).status, 200)
  const refused = await send(rpc('ping'))
  t.equal(refused.status, 429)
  t.equal(refused.headers.get('retry-after'), '60')
  t.match(refused.messages, [{ error: { data: { code: 'RATE_LIMIT_EXCEEDED', retryable: true } } }])
})

t.test('a call ends when its client cancels it, and when its client goes away', async (t) => {
  const signals: AbortSignal[] = []
  const linkCalls = {
    call: ({ signal }: { signal: AbortSignal }) => {
      signals.push(signal)
      return new Promise<undefined>((resolve) => signal.addEventListener('abort', () => resolve(undefined)))
    },
  }
  const { base, send } = await start(t, { linkCalls })
  const { call } = await connectMcp(t, base)
  const cancel = new AbortController()
  const cancelled = call('call_link', { link: 'a/b' }, undefined, { signal: cancel.signal })
  await until(() => signals.length === 1)
  const other = call('call_link', { link: 'a/b' }, undefined, { signal: AbortSignal.timeout(60_000) })
  other.catch(() => {})
  await until(() => signals.length === 2)
  const spoofed = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 2 } }
  for (const session of ['x', 'undefined', ''])
    await send(spoofed, session === '' ? {} : { 'mcp-session-id': session })
  t.notOk(signals[0]!.aborted, 'nobody else’s word counts')
  cancel.abort()
  await t.rejects(cancelled)
  await until(() => signals[0]!.aborted)
  t.notOk(signals[1]!.aborted, 'nor does it end another call')

  const page = new AbortController()
  const request = fetch(`${base}/mcp`, {
    method: 'POST',
    headers: { accept: 'application/json, text/event-stream', 'content-type': 'application/json' },
    body: JSON.stringify(rpc('tools/call', { name: 'call_link', arguments: { link: 'a/b' } })),
    signal: page.signal,
  })
  await until(() => signals.length === 3)
  page.abort()
  await t.rejects(request.then((response) => response.text()))
  await until(() => signals[2]!.aborted)
})

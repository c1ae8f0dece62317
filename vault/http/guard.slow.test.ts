import { statSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import fc from 'fast-check'
import t from 'tap'
import { startVault } from '../../test/helpers/vault/startVault.ts'

const write = { scope: 'custom.note', value: 'changed' }

t.test('a page of another site, or of a name that was pointed here, gets nothing done', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('a', ['auto:write:custom.note', 'read:custom.note'])
  const { port } = new URL(vault.url)
  for (const headers of [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: vault.url },
    { origin: '' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'same-origin' },
    { referer: 'https://evil.example/' },
    { host: 'evil.example' },
    { host: `evil.example:${port}` },
    { host: `localhost.evil.example:${port}` },
    { host: `127.0.0.1.nip.io:${port}` },
    { host: '127.0.0.1' },
    { host: `127.1:${port}` },
    { host: `0.0.0.0:${port}` },
    { host: `localhost.:${port}` },
    { host: `user@localhost:${port}` },
  ]) {
    for (const call of [
      agent.call('POST', '/v1/vault/write', write, headers),
      vault.call('POST', '/v1/vault/unlock', { password: 'correct horse battery staple' }, headers),
      agent.call('GET', '/v1/capabilities', undefined, headers),
    ]) {
      const { status, body, headers: answered } = await call
      t.match([status, body.error.code], [403, 'ORIGIN_FORBIDDEN'], JSON.stringify(headers))
      t.notOk(Object.keys(answered).some((name) => name.startsWith('access-control')))
    }
  }
  t.match((await agent.call('POST', '/v1/vault/read', { scope: 'custom.note' })).body.error, {
    code: 'NOT_FOUND',
  })
  for (const host of [`localhost:${port}`, `LOCALHOST:${port}`, `[::1]:${port}`])
    t.equal((await agent.call('GET', '/v1/capabilities', undefined, { host })).status, 200, host)
})

t.test('a preflight is answered like any other request, without a word of CORS', async (t) => {
  const vault = await startVault(t)
  for (const headers of [{}, { origin: 'https://evil.example', 'access-control-request-method': 'POST' }]) {
    const response = await vault.call('OPTIONS', '/v1/vault/read', undefined, headers)
    t.ok(response.status >= 400)
    t.notOk(Object.keys(response.headers).some((name) => name.startsWith('access-control')))
  }
})

t.test('forms and texts that a page may send without asking are refused', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('a', ['auto:write:custom.note'])
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', ''])
    t.match(
      (await agent.call('POST', '/v1/vault/write', write, { 'content-type': type })).body.error.code,
      'UNSUPPORTED_MEDIA_TYPE',
    )
})

t.test('bodies are bounded in length, depth and meaning', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('a', ['auto:write:custom.note'])
  const send = async (body: string) => (await agent.call('POST', '/v1/vault/write', body)).body.error.code
  t.equal(
    await send(JSON.stringify({ scope: 'custom.note', value: 'x'.repeat(262_144) })),
    'PAYLOAD_TOO_LARGE',
  )
  t.equal(await send(`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`), 'VALIDATION_ERROR')
  t.equal(await send('{"scope":"custom.note","scope":"custom.note","value":"a"}'), 'VALIDATION_ERROR')
  for (const body of [
    '[]',
    '1',
    '"x"',
    'null',
    '{',
    '',
    '{"scope":"custom.note","value":"a","__proto__":{}}',
  ])
    t.equal(await send(body), 'VALIDATION_ERROR', body)
})

t.test('a body without a stated length ends at the bound, too', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('a', [])
  const { port } = new URL(vault.url)
  const status = await new Promise((resolve, reject) => {
    const req = request({
      host: '127.0.0.1',
      port,
      method: 'POST',
      path: '/v1/vault/write',
      headers: { authorization: `Bearer ${agent.token}`, 'content-type': 'application/json' },
    })
    req.on('response', (res) => {
      res.resume()
      resolve(res.statusCode)
      req.destroy()
    })
    req.on('error', reject)
    const piece = Buffer.alloc(65_536, 0x20)
    for (let i = 0; i < 5; i++) req.write(piece)
  })
  t.equal(status, 413)
})

t.test('two Host headers are not one', async (t) => {
  const vault = await startVault(t)
  const { port } = new URL(vault.url)
  const text = await new Promise<string>((resolve) => {
    const socket = connect(Number(port), '127.0.0.1')
    let got = ''
    socket.on('data', (chunk) => (got += chunk))
    socket.on('close', () => resolve(got))
    socket.write(
      `GET /v1/capabilities HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nHost: evil.example\r\nConnection: close\r\n\r\n`,
    )
  })
  t.match(text, /^HTTP\/1\.1 40[03] /)
})

t.test(
  'every answer has a request id: the one that was sent when it is plain, else one of our own',
  async (t) => {
    const vault = await startVault(t)
    const sent = await vault.call('GET', '/v1/capabilities', undefined, { 'x-request-id': 'abc-1' })
    t.equal(sent.headers['x-request-id'], 'abc-1')
    const strange = await vault.call('GET', '/nowhere', undefined, { 'x-request-id': 'a b<script>' })
    t.match(strange.headers['x-request-id'], /^[0-9a-f-]{36}$/)
  },
)

t.test("the owner's socket is the owner's alone", async (t) => {
  const vault = await startVault(t)
  t.equal(statSync(vault.socketPath).mode & 0o777, 0o600)
  t.equal((await vault.asOwner('GET', '/v1/vault/agents')).status, 200)
})

t.test('who says who it is wrongly is nobody', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('a', ['identity.name'])
  const changed = `${agent.token.slice(0, -2)}${agent.token.endsWith('AA') ? 'BB' : 'AA'}`
  for (const authorization of [
    `Bearer ${changed}`,
    `Basic ${agent.token}`,
    agent.token,
    `Bearer ${agent.token} x`,
    'Bearer',
    '',
    `Bearer vow_${'A'.repeat(43)}`,
  ])
    t.match(
      (await vault.call('GET', '/v1/vault/scopes', undefined, { authorization })).status,
      401,
      authorization,
    )
  t.equal((await vault.call('GET', '/v1/vault/scopes')).status, 401)
  await vault.api.agents.revoke('a', vault.owner)
  t.equal((await agent.call('GET', '/v1/vault/scopes')).status, 401)
})

t.test('what says how to ask is open, to GET and HEAD, before anybody unlocked the vault too', async (t) => {
  const vault = await startVault(t)
  const { call } = await vault.agent('a', [])
  await vault.asOwner('POST', '/v1/vault/lock', {})
  t.equal((await vault.call('GET', '/v1/vault/status')).status, 401)
  for (const path of ['/health', '/v1/capabilities']) {
    const { status, body, headers } = await vault.call('GET', path)
    t.equal(status, 200, path)
    t.match(body, path === '/health' ? { status: 'ok' } : { name: 'tollgate-vault', mode: 'local' })
    const head = await vault.call('HEAD', path)
    t.strictSame([head.status, head.body], [200, null])
    t.equal(head.headers['content-length'], headers['content-length'])
    t.equal((await call('GET', path)).status, 200)
    t.equal((await vault.call('GET', path, undefined, { host: 'evil.example' })).status, 403)
    const other = await vault.call('POST', path, {})
    t.strictSame([other.status, other.headers['allow']], [405, 'GET, HEAD'])
  }
})

t.test('an owner session counts for the page until it ends, and agents never are the owner', async (t) => {
  const vault = await startVault(t)
  const { token } = (await vault.asOwner('POST', '/v1/vault/owner/sessions', {})).body
  const headers = { authorization: `Bearer ${token}` }
  t.equal((await vault.call('GET', '/v1/vault/agents', undefined, headers)).status, 200)
  const nested = await vault.call('POST', '/v1/vault/owner/sessions', {}, headers)
  t.equal(nested.body.error.code, 'OWNER_REQUIRED', 'only the socket makes sessions')
  vault.api.sessions.end(token)
  t.equal((await vault.call('GET', '/v1/vault/agents', undefined, headers)).status, 401)
  const agent = await vault.agent('a', ['custom.*'])
  for (const [method, path] of [
    ['GET', '/v1/vault/agents'],
    ['POST', '/v1/vault/agents'],
    ['GET', '/v1/vault/policies'],
    ['PUT', '/v1/vault/policies/default'],
    ['GET', '/v1/vault/pairings'],
    ['GET', '/v1/vault/activity/verify'],
    ['POST', '/v1/vault/owner/sessions'],
  ] as const) {
    const body = method === 'GET' ? undefined : { name: 'x', scopes: [], assets: [] }
    t.equal((await agent.call(method, path, body)).status, 403, path)
  }
})

t.test('any text in any field is answered in the shape of an error or a result', async (t) => {
  const vault = await startVault(t)
  const agent = await vault.agent('a', ['custom.*', 'auto:write:custom.*', 'identity.name', 'wallet.base'])
  const paths = [
    'read',
    'write',
    'delete',
    'sign',
    'sign-message',
    'sign-typed-data',
    'sign-payment',
    'preview',
    'call',
  ]
  const value = fc.jsonValue({ maxDepth: 3, stringUnit: 'binary' })
  const names = fc.constantFrom(
    'scope',
    'value',
    'chain',
    'amount',
    'currency',
    'unsigned_tx',
    'message',
    'typed_data',
    'payment_required',
    'max_amount',
    'url',
    'method',
    'headers',
    'body',
    'agent_name',
    'purpose',
    'recipient',
  )
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...paths), fc.dictionary(names, value), async (path, body) => {
      const text = JSON.stringify(body)
      const response = await agent.call('POST', `/v1/vault/${path}`, text, { prefer: 'wait=0' })
      if (response.status < 400) return true
      const { code, message, retryable } = response.body.error
      return (
        response.status < 500 &&
        /^[A-Z_]+$/.test(code) &&
        typeof message === 'string' &&
        typeof retryable === 'boolean'
      )
    }),
    { numRuns: 300 },
  )
})

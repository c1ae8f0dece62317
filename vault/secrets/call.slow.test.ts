import t from 'tap'
import { echo, scope, secret, start } from '../../test/helpers/vault/secretCalls.ts'
import { password, startVault } from '../../test/helpers/vault/startVault.ts'

t.test(
  'a call under an Idempotency-Key is made once: at the same time, later, and where its answer was too large to keep',
  async (t) => {
    let long = 0
    const { vault, agent, origin, seen } = await start(t, (_req, res) =>
      res.end('x'.repeat(long) + seen.length),
    )
    const keyed = (key: string, path = '/v1/items', headers = {}) =>
      agent.call(
        'POST',
        '/v1/vault/call',
        { scope, method: 'POST', url: `${origin}${path}`, body: 'buy' },
        { 'idempotency-key': key, ...headers },
      )
    const together = await Promise.all(Array.from({ length: 5 }, () => keyed('one')))
    for (const { status, body } of [...together, await keyed('one')]) t.match([status, body.body], [200, '1'])
    t.equal(seen.length, 1)
    t.match(await keyed('one', '/v1/items/2'), {
      status: 409,
      body: { error: { code: 'IDEMPOTENCY_CONFLICT' } },
    })
    t.equal((await keyed('two')).status, 200)

    long = 100_000
    t.equal((await keyed('large')).body.body.length, 100_001)
    t.match(await keyed('large'), { body: { error: { code: 'REQUEST_ID_USED' } } }, 'too large to be kept')
    t.equal(seen.length, 3)

    for (const [method, path] of [
      ['POST', 'agents'],
      ['POST', 'owner/sessions'],
      ['PUT', 'policies/caller'],
    ] as const) {
      const { token } = (await vault.asOwner('POST', '/v1/vault/owner/sessions', {})).body
      const refused = await vault.call(
        method,
        `/v1/vault/${path}`,
        {},
        {
          authorization: `Bearer ${token}`,
          'idempotency-key': 'k',
        },
      )
      t.match(refused, { status: 400, body: { error: { message: /Expected no Idempotency-Key/ } } })
    }
  },
)

t.test(
  'a secret that no header can carry is refused when it is put, with what is wrong with it',
  async (t) => {
    const { vault } = await start(t, (_req, res) => res.end('ok'))
    const put = (value: string, settings: object = {}, scope = 'credentials.api.new') =>
      vault.asOwner('POST', '/v1/vault/write', { scope, value, settings })
    for (const [value, lines] of [
      ['line one\nline two', /a line break as character 9 of 17/],
      ['S3cr3t\r\n', /a line break as character 7 of 8/],
      ['S3cr3t\0', /a control character \(0x00\) as character 7/],
      ['S3cr3t\x7f', /a control character \(0x7f\)/],
      ['S3cr3t\u0085', /a control character \(0x85\)/],
      ['pässwörd', /a character outside of ASCII as character 2 of 8/],
      ['S3cr3t\u{1f600}', /a character outside of ASCII as character 7 of 7/],
      [' S3cr3t', /begins or ends with a space/],
    ] as const) {
      for (const settings of [{}, { inject: { kind: 'header', name: 'x-api-key' } }]) {
        const { status, body } = await put(value, settings)
        t.match([status, body.error.code], [400, 'VALIDATION_ERROR'], JSON.stringify(value))
        t.match(body.error.message, lines)
        t.notMatch(body.error.message, /S3cr3t|line one|ssw/)
      }
    }
    t.match(await put('x', {}, 'credentials.api.new'), { status: 200, body: { created: true, version: 1 } })

    const inQuery = { inject: { kind: 'query', name: 'key' } }
    t.match(await put('pässwörd\n', inQuery), { status: 200 }, 'a query carries everything')
    t.match(
      await put('line one\nline two', {}, 'credentials.api.new'),
      { status: 200 },
      'as it was put before',
    )
    t.match(await put('user:pässwörd', { inject: { kind: 'basic' } }), { status: 200 }, 'base64 carries it')
    t.match(await put('a\nb', { inject: { kind: 'basic' } }), { status: 400 }, 'RFC 7617, section 2')
    t.match(await vault.asOwner('POST', '/v1/vault/write', { scope: 'custom.note', value: 'ä\nb' }), {
      status: 200,
    })
  },
)

t.test('the API gets the credential, the agent does not, in no spelling of it', async (t) => {
  const { call, seen } = await start(t, echo)
  const { status, body } = await call('/v1/items')
  t.equal(status, 200)
  t.equal(seen[0]?.headers.authorization, `Bearer ${secret}`)
  t.strictSame(Object.keys(body).sort(), ['body', 'body_encoding', 'headers', 'status'])
  const text = JSON.stringify(body)
  for (const spelling of [
    secret,
    JSON.stringify(secret).slice(1, -1),
    Buffer.from(secret).toString('base64').slice(0, -4),
    Buffer.from(secret).toString('base64url').slice(0, -4),
    encodeURIComponent(secret),
    Buffer.from(secret).toString('hex'),
    Buffer.from(secret.slice(2, -2)).toString('base64').slice(0, -4),
  ])
    t.notOk(text.includes(spelling), spelling.slice(0, 8))
  t.match(JSON.parse(body.body), {
    token: '[secret]',
    base64: /^\[secret\]/,
    escaped: '[secret]',
    hex: '[secret]',
  })
})

t.test('a call that may have been made is not said to be safe to repeat, unless it only reads', async (t) => {
  const { vault, call, seen, origin } = await start(t, (req, res) => {
    if (req.url === '/open/long') return void res.end(Buffer.alloc(1_048_577))
    if (req.url === '/open/broken') return void res.destroy()
    res.writeHead(200, { 'content-encoding': 'gzip' })
    res.end('x')
  })
  const nowhere = 'http://127.0.0.1:1'
  const rule = { methods: ['GET', 'POST'], paths: ['/**'] }
  await vault.asOwner('POST', '/v1/vault/write', {
    scope,
    value: secret,
    settings: { rules: [origin, nowhere].map((origin) => ({ origin, ...rule })) },
  })
  for (const path of ['/open/long', '/open/broken', '/open/gzip']) {
    t.match(await call(path), { status: 502, body: { error: { code: 'UPSTREAM_ERROR', retryable: true } } })
    t.match(
      await call(path, { method: 'POST', body: 'buy' }),
      {
        status: 504,
        body: { error: { code: 'OUTCOME_UNKNOWN', retryable: false, message: /may have been performed/ } },
      },
      path,
    )
  }
  t.equal(seen.filter(({ method }) => method === 'POST').length, 3)
  t.match(
    await call('', { method: 'POST', url: `${nowhere}/` }),
    { status: 502, body: { error: { code: 'UPSTREAM_ERROR', retryable: true } } },
    'nothing listens there, so nothing was sent',
  )
})

t.test('a call stands in the log before it leaves, also where the vault is locked meanwhile', async (t) => {
  let arrived = (_answer: () => void) => {}
  const { vault, call, seen } = await start(t, (req, res) => arrived(() => res.end(req.url)))
  const lockedMeanwhile = async (asked: () => ReturnType<typeof call>, isLost = false) => {
    const there = new Promise<() => void>((resolve) => {
      arrived = resolve
    })
    const response = asked()
    const finish = await there
    t.match(await vault.asOwner('GET', '/v1/vault/activity?action=CALL&limit=1'), {
      body: { events: [{ agent: 'caller', status: /APPROVED/ }] },
    })
    await vault.asOwner('POST', '/v1/vault/lock', {})
    if (isLost) seen.at(-1)!.socket.destroy()
    else finish()
    const answered = await response
    await vault.asOwner('POST', '/v1/vault/unlock', { password })
    return answered
  }
  t.match(await lockedMeanwhile(() => call('/v1/items')), { status: 200, body: { body: '/v1/items' } })
  t.match(await lockedMeanwhile(() => call('/open/lost'), true), { status: 502 })
  t.equal(seen.length, 2, 'each was made once')
  const { body } = await vault.asOwner('GET', '/v1/vault/activity?action=CALL')
  t.strictSame(
    body.events.map(({ status }: { status: string }) => status),
    ['AUTO_APPROVED', 'AUTO_APPROVED'],
  )
  t.match((await vault.asOwner('GET', '/v1/vault/activity/verify')).body, { ok: true })
})

t.test('using a credential is not reading it', async (t) => {
  const { agent, vault } = await start(t, echo)
  const read = await agent.call('POST', '/v1/vault/read', { scope, agent_name: 'x' })
  t.equal(read.body.error.code, 'SCOPE_DENIED')
  const reader = await vault.agent('reader', [`read:${scope}`])
  const pendingApproval = await reader.call(
    'POST',
    '/v1/vault/read',
    { scope, agent_name: 'x' },
    { prefer: 'wait=0' },
  )
  t.equal(pendingApproval.status, 202, 'and reading it is asked for, every time')
  const auto = await vault.asOwner('POST', '/v1/vault/agents', {
    name: 'auto',
    scopes: [`auto:read:${scope}`],
  })
  t.equal(auto.body.error.code, 'VALIDATION_ERROR')
  const other = await vault.agent('other', ['credentials.api.gitlab'])
  const body = { scope, method: 'GET', url: 'https://api.github.com/', agent_name: 'x' }
  t.equal((await other.call('POST', '/v1/vault/call', body)).body.error.code, 'SCOPE_DENIED')
})

t.test('the other ways to put a credential in', async (t) => {
  const { call, seen } = await start(t, (_req, res) => res.end('{}'), {
    inject: { kind: 'query', name: 'key' },
  })
  t.equal((await call('/v1/items?a=1')).status, 200)
  t.equal(new URL(seen[0]!.url!, 'http://x').searchParams.get('key'), secret)
  t.equal((await call('/v1/items?key=mine')).body.error.code, 'VALIDATION_ERROR')
})

t.test('the owner is told when a credential would travel unencrypted', async (t) => {
  const vault = await startVault(t)
  const rules = (origin: string) => ({ rules: [{ origin, methods: ['GET'], paths: ['/**'] }] })
  const put = async (origin: string) =>
    (await vault.asOwner('POST', '/v1/vault/write', { scope, value: 'abcdefgh', settings: rules(origin) }))
      .body
  t.strictSame(Object.keys(await put('https://api.example.com')), ['scope', 'created', 'version'])
  t.notOk('warnings' in (await put('http://127.0.0.1:8080')))
  t.match((await put('http://api.example.com')).warnings, [/http:\/\/api\.example\.com unencrypted/])
  const agent = await vault.agent('careful', [`ask:${scope}`])
  const body = { scope, method: 'GET', url: 'http://api.example.com/x' }
  const pendingApproval = await agent.call('POST', '/v1/vault/call', body, { prefer: 'wait=0' })
  t.match(vault.api.approvals.get(pendingApproval.body.approval_id, vault.owner).warnings, [/unencrypted/])
})

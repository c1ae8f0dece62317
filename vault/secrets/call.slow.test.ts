import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import t from 'tap'
import { createEgress } from '../../adapters/egress/egress.ts'
import { password, startVault } from '../../test/helpers/vault/startVault.ts'
import { isAllowedCall, readCallUrl } from './callTarget.ts'
import { createMask } from './maskSecret.ts'

const secret = 'ghp_S3cr3t/with+signs=and"quotes'
const scope = 'credentials.api.github'

type Handler = (req: IncomingMessage, res: ServerResponse) => void

async function start(t: Parameters<typeof startVault>[0], handler: Handler, settings: object = {}) {
  const seen: IncomingMessage[] = []
  const server = createServer((req, res) => {
    seen.push(req)
    handler(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const ways: ReturnType<typeof createEgress>[] = []
  t.teardown(() => Promise.all(ways.map((way) => way.close())))
  const vault = await startVault(t, {
    egress: (ranges) => {
      const way = createEgress({ allowPrivateCidrs: ranges })
      ways.push(way)
      return way
    },
  })
  const agent = await vault.agent('caller', [scope])
  await vault.asOwner('POST', '/v1/vault/write', {
    scope,
    value: secret,
    settings: {
      rules: [{ origin, methods: ['GET', 'POST'], paths: ['/v1/items', '/v1/items/*', '/open/**'] }],
      allow_private: ['127.0.0.1/32'],
      ...settings,
    },
  })
  const call = (path: string, more: object = {}) =>
    agent.call('POST', '/v1/vault/call', {
      scope,
      method: 'GET',
      url: `${origin}${path}`,
      agent_name: 'x',
      ...more,
    })
  return { vault, agent, call, origin, seen }
}

const echo: Handler = (req, res) => {
  const token = String(req.headers.authorization).replace('Bearer ', '')
  const base64 = Buffer.from(token).toString('base64')
  res.setHeader('x-request-id', token.replaceAll(/[^ -~]/g, ''))
  res.end(
    JSON.stringify({
      token,
      base64,
      url: Buffer.from(token).toString('base64url'),
      inside: Buffer.from(`user:${token}:x`).toString('base64'),
      escaped: encodeURIComponent(token),
      hex: Buffer.from(token).toString('hex'),
    }),
  )
}

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

t.test('only what a rule allows is called, and the credential goes nowhere else', async (t) => {
  const { call, seen, origin } = await start(t, echo)
  for (const [path, more] of [
    ['/v1/items2', {}],
    ['/v1/items/7/8', {}],
    ['/v1', {}],
    ['/', {}],
    ['/v1/items', { method: 'DELETE' }],
    ['/open', {}],
    ['', { url: 'https://evil.example/v1/items' }],
    ['', { url: `${origin.replace('127.0.0.1', 'localhost')}/v1/items` }],
    ['', { url: `${origin.replace(/:\d+$/, '')}/v1/items` }],
  ] as const) {
    const { status, body } = await call(path, more)
    t.match([status, body.error.code], [403, 'SCOPE_DENIED'], path)
  }
  for (const [path, more] of [
    ['/v1/items/%2e%2e', {}],
    ['/v1/items/..%2fadmin', {}],
    ['/open/../admin', {}],
    ['/open//admin', {}],
    ['/v1/items#x', {}],
    ['', { url: `${origin.replace('//', '//user:pw@')}/v1/items` }],
    ['', { url: 'file:///etc/passwd' }],
    ['/v1/items', { headers: { Authorization: 'Bearer mine' } }],
    ['/v1/items', { headers: { Host: 'evil.example' } }],
    ['/v1/items', { headers: { 'X-Forwarded-For': '1.1.1.1' } }],
    ['/v1/items', { headers: { 'x-a': 'a\r\nb: c' } }],
    ['/v1/items', { headers: { 'x-a': '1', 'X-A': '2' } }],
    ['/v1/items', { headers: { 'x-a': '1', x_a: '2' } }],
    ...[
      ...[
        'Range',
        'If-Range',
        'Content-Encoding',
        'Accept-Charset',
        'Client-IP',
        'True-Client-Ip',
        'X-Real-IP',
      ],
      ...[
        'X-HTTP-Method-Override',
        'X-HTTP-Method',
        'X-Method-Override',
        'x_http_method_override',
        'X-Method',
      ],
      ...[
        'X-Original-URL',
        'X-Rewrite-URL',
        'X_Rewrite_URL',
        'X-Original-Host',
        'X-Host',
        'X-Forwarded',
        'Forwarded',
      ],
      ...['X-Forwarded-Prefix', 'X-Envoy-Original-Path', 'Sec-Fetch-Site', 'Authorization.', 'Proxy'],
    ].map((name) => ['/v1/items', { headers: { [name]: 'x' } }] as const),
    ['/v1/items/7;admin', {}],
    ['/v1/items;x=1', {}],
    ['/open/..;/admin', {}],
    ['/open/a%3b/b', {}],
    ['/open/a%252fb', {}],
    ['/open/%2E%2E/admin', {}],
    ['/open/a%5Cb', {}],
    ['/open/a%3Fb', {}],
    ['/open/%c0%ae%c0%ae/b', {}],
    ['/open/%EF%BC%8E%EF%BC%8E/b', {}],
    ['/open/a%EF%BC%8Fb', {}],
    ['/open/./a', {}],
    ['/open/a/', { url: `${origin}/open/a//` }],
    ['/v1/items?_method=DELETE', {}],
    ['/v1/items?a=1;_method=DELETE', {}],
    ['/v1/items?%5Fmethod=DELETE', {}],
    ['/v1/items?_METHOD[]=DELETE', {}],
    ['/v1/items?x-http-method-override=DELETE', {}],
    ['/v1/items', { method: 'POST', body: { _method: 'DELETE' } }],
    ['/v1/items', { method: 'POST', body: '{"\\u005fmethod":"DELETE"}' }],
    ['/v1/items', { method: 'POST', body: '{"_method" : "DELETE",}' }],
    ['/v1/items', { method: 'POST', body: 'a=1&_method=DELETE' }],
    ['/v1/items', { method: 'POST', body: 'a=1&%5fmethod=DELETE' }],
    ['/v1/items', { method: 'POST', body: 'content-disposition: form-data; name="_method"\r\n\r\nDELETE' }],
  ] as const) {
    const { status, body } = await call(path, more)
    t.match([status, body.error?.code], [400, 'VALIDATION_ERROR'], path + JSON.stringify(more))
  }
  t.equal(seen.length, 0)
  t.equal((await call('/open/a/b')).status, 200)
  t.equal((await call('/v1/items/7?q=1')).status, 200)
  t.equal((await call('/v1/items', { method: 'POST', body: { a: 1, payment_method: 'x' } })).status, 200)
  t.equal((await call('/v1/items?method=x', { headers: { 'x-a-b': '1', accept: '*/*' } })).status, 200)
  t.equal((await call('/open/caf%C3%A9')).status, 200)
  t.equal(seen.length, 5)
})

t.test('private addresses are called by an explicit rule only', async (t) => {
  const { call, seen } = await start(t, echo, { allow_private: [] })
  const { status, body } = await call('/v1/items')
  t.match([status, body.error.code], [403, 'SCOPE_DENIED'])
  t.equal(seen.length, 0)
})

t.test('a redirect is told, never followed', async (t) => {
  const { call, seen } = await start(t, (_req, res) => {
    res.writeHead(302, { location: 'https://evil.example/' })
    res.end()
  })
  t.match((await call('/v1/items')).body, { status: 302, headers: { location: 'https://evil.example/' } })
  t.equal(seen.length, 1)
})

t.test('an answer that could hide the credential is not given out', async (t) => {
  const { call } = await start(t, (req, res) => {
    if (req.url === '/open/long') return void res.end(Buffer.alloc(1_048_577))
    res.writeHead(200, { 'content-encoding': 'gzip' })
    res.end('x')
  })
  for (const path of ['/v1/items', '/open/long'])
    t.equal((await call(path)).body.error.code, 'UPSTREAM_ERROR')
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

const quotedPrintable = (text: string): string =>
  [...Buffer.from(text)]
    .map((b) =>
      b < 0x20 || b > 0x7e || b === 0x3d
        ? `=${b.toString(16).toUpperCase().padStart(2, '0')}`
        : String.fromCharCode(b),
    )
    .join('')
    .replaceAll(/[^=]{30}(?=[^=]{3})/g, '$&=\n')

const entities: Readonly<Record<string, string>> = {
  _: 'lowbar',
  '"': 'quot',
  '\\': 'bsol',
  '/': 'sol',
  '=': 'equals',
  '&': 'amp',
  '+': 'plus',
  ':': 'colon',
  '.': 'period',
  '%': 'percnt',
  '\n': 'NewLine',
}

t.test('every usual spelling of a secret is masked, also where it is escaped in part or twice', async (t) => {
  const text = 'ghp_S3cr3t/with+signs=and"quotes&<é>\\n\n end'
  const html = (c: string) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c] ?? c
  const each = (of: (c: string) => string) => [...text].map(of).join('')
  const hex = Buffer.from(text).toString('hex')
  const base64 = (before: string, after = '') => Buffer.from(before + text + after).toString('base64')
  const code = (c: string) => c.codePointAt(0)!
  const spellings: Readonly<Record<string, string | Buffer>> = {
    'as it is': text,
    JSON: JSON.stringify(text),
    'JSON in JSON': JSON.stringify(JSON.stringify(text)),
    'JSON with slashes escaped': JSON.stringify(text).replaceAll('/', '\\/'),
    'JSON in ASCII': each((c) => `\\u${code(c).toString(16).padStart(4, '0')}`),
    'JSON escaped in part': each((c) =>
      c === '/' || c === 'é'
        ? `\\u00${code(c).toString(16).padStart(2, '0')}`
        : JSON.stringify(c).slice(1, -1),
    ),
    HTML: each(html),
    'HTML twice': each((c) => html(c).replace('&', '&amp;')),
    'HTML by number': each((c) => `&#${code(c)};`),
    'HTML by hex number': each((c) => `&#x${code(c).toString(16)};`),
    percent: encodeURIComponent(text),
    'percent in part': encodeURI(text),
    'percent twice': encodeURIComponent(encodeURIComponent(text)),
    'percent, all of it': [...Buffer.from(text)]
      .map((b) => `%${b.toString(16).toUpperCase().padStart(2, '0')}`)
      .join(''),
    form: new URLSearchParams({ text }).toString(),
    hex,
    'hex in capitals': hex.toUpperCase(),
    'hex with colons': hex.match(/../g)!.join(':'),
    'hex in C': hex
      .match(/../g)!
      .map((b) => `\\x${b}`)
      .join(''),
    'a list of numbers': JSON.stringify(Buffer.from(text)),
    'a list of numbers, printed': JSON.stringify([...Buffer.from(text)], null, 1),
    'a list of numbers, printed deep': JSON.stringify({ a: { b: { c: [...Buffer.from(text)] } } }, null, 4),
    'a list of hex': JSON.stringify(
      { a: [...Buffer.from(text)].map((b) => `0x${b.toString(16).padStart(2, '0')}`) },
      null,
      4,
    ),
    'octal escapes': [...Buffer.from(text)].map((b) => `\\${b.toString(8).padStart(3, '0')}`).join(''),
    'quoted-printable': [...Buffer.from(text)]
      .map((b, i) => `${i % 9 === 8 ? '=\r\n' : ''}=${b.toString(16).toUpperCase().padStart(2, '0')}`)
      .join(''),
    'quoted-printable, as little as it can be': quotedPrintable(text),
    'HTML, by every name': [...text].map((c) => (entities[c] ? `&${entities[c]};` : c)).join(''),
    base64: base64(''),
    'base64, one further': base64('a', 'b'),
    'base64, two further': base64('ab', ':x'),
    base64url: Buffer.from(`ab${text}`).toString('base64url'),
    'base64 in lines': base64('user:').replaceAll(/.{20}/g, '$&\r\n'),
    'base64 in lines, as JSON': JSON.stringify(base64('user:').replaceAll(/.{20}/g, '$&\n')),
    'base64 in a URL': encodeURIComponent(base64('a')),
    'base64 in JSON': base64('a').replaceAll('/', '\\/'),
    'UTF-16': Buffer.from(text, 'utf16le'),
    'UTF-16, the other way': Buffer.from(text, 'utf16le').swap16(),
    reversed: [...text].reverse().join(''),
    Markdown: text.replaceAll(/[\\_+<>]/g, '\\$&'),
    'a shell, quoted by backslashes': text.replaceAll(/[^0-9A-Za-zé\n]/g, '\\$&'),
    'CSV, quotes doubled': text.replaceAll('"', '""'),
    'base64 in lines, indented': base64('user:').replaceAll(/.{20}/g, '$&\n        '),
  }
  const mask = createMask([text])
  for (const [name, spelling] of Object.entries(spellings)) {
    const bytes = Buffer.concat([
      Buffer.from('before '),
      Buffer.from(spelling as string),
      Buffer.from(' after'),
    ])
    const masked = await mask(bytes.toString('latin1'))
    t.match(masked, /before .{0,90}\[secret\].{0,60} after/s, name)
    t.equal(masked.split('[secret]').length, 2, name)
  }
  const key = 'k3y+of/32=bits'
  t.equal(
    await createMask([key])('NN2XS43PMYXTGMR5MJUXI4Y k3y+of/32=bit s'),
    'NN2XS43PMYXTGMR5MJUXI4Y k3y+of/32=bit s',
  )
})

t.test('a long credential, such as a signed token, is masked as a short one is', async (t) => {
  const long = Buffer.from(Array.from({ length: 6_000 }, (_, i) => (i * i * 7 + i) % 251)).toString('base64')
  const { vault, call } = await start(t, (req, res) => {
    const { authorization = '' } = req.headers
    const token = authorization.replace('Bearer ', '')
    const hex = Buffer.from(token).toString('hex')
    res.end(JSON.stringify([authorization, encodeURIComponent(token), hex, btoa(`user:${token}`)]))
  })
  await vault.asOwner('POST', '/v1/vault/write', { scope, value: long })
  const { status, body } = await call('/v1/items')
  t.equal(status, 200)
  t.match(JSON.parse(body.body), ['Bearer [secret]', '[secret]', '[secret]', /^dXNlcj.?.?\[secret\].{0,4}$/])
})

t.test('a text made to keep the mask busy does not, and the vault goes on meanwhile', async (t) => {
  // Each would take hours if a repetition in the patterns had no upper limit.
  const mask = createMask(['ghp_S3cr3t/with "quotes"&\\\\ and\nlines'])
  const pieces = [
    '\\',
    '&amp;',
    '%25',
    '&#0',
    '000',
    ' ',
    '\\u',
    'ghp_S3cr3t/with ',
    '\r\n',
    '67 68 70 ',
    '1,\n',
  ]
  const nul = 'g\0\0\0h\0\0\0p\0\0\0_\0\0\0S\0\0\0'
  for (const piece of [...pieces, nul, '103,104,112,95,', 'Z2hwX1MzY3Iz']) {
    // Only this process's time: other load on the machine does not count.
    let last = process.cpuUsage()
    let longestMs = 0
    const look = () => {
      const { user, system } = process.cpuUsage(last)
      longestMs = Math.max(longestMs, (user + system) / 1_000)
      last = process.cpuUsage()
    }
    const ticks = setInterval(look, 1)
    const masked = await mask(piece.repeat(Math.floor(1_048_576 / piece.length)))
    look()
    clearInterval(ticks)
    t.notMatch(masked, /secret\]/)
    t.ok(longestMs < 250, `${JSON.stringify(piece)}: nothing else ran for ${Math.round(longestMs)} ms`)
  }
})

t.test('nothing of a secret stands in the head of an answer, in one header or in two', async (t) => {
  const { call } = await start(t, (_req, res) => {
    res.setHeader('content-type', 'text/plain')
    res.setHeader('x-github-a', 'ghp_S3cr3t/with')
    res.setHeader('x-github-b', '+signs=and"quotes')
    res.setHeader(`x-github-${Buffer.from(secret).toString('hex')}`, '1')
    res.setHeader('x-ratelimit-left', '5')
    res.statusMessage = secret.replaceAll(/[^ -~]/g, '')
    res.end('ok')
  })
  const { body } = await call('/v1/items')
  t.strictSame(body, {
    status: 200,
    headers: { 'content-type': 'text/plain' },
    body: 'ok',
    body_encoding: 'utf8',
  })
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

t.test('a mask leaves nothing of a secret, wherever it stands in base64', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.string({ minLength: 8, maxLength: 40 }),
      fc.string({ unit: 'binary', maxLength: 12 }),
      fc.string({ maxLength: 12 }),
      async (text, before, after) => {
        const bytes = Buffer.concat([Buffer.from(before), Buffer.from(text), Buffer.from(after)])
        const masked = await createMask([text])(bytes.toString('base64'))
        // At most the two letters at each end, which other bytes share, may remain.
        return (
          masked.includes('[secret]') &&
          !(await createMask([text])(masked.replaceAll('[secret]', ''))).includes('[secret]')
        )
      },
    ),
  )
})

t.test('what a rule allows is decided by whole segments', async () => {
  const segment = fc.stringMatching(/^[a-z0-9._~-]{1,8}$/).filter((text) => text !== '.' && text !== '..')
  fc.assert(
    fc.property(
      fc.array(segment, { minLength: 1, maxLength: 5 }),
      fc.array(segment, { maxLength: 4 }),
      (rule, more) => {
        const path = `/${rule.join('/')}`
        const url = readCallUrl(`https://api.example.com${path}${more.map((part) => `/${part}`).join('')}`)
        const of = (pattern: string) =>
          isAllowedCall(
            [{ origin: 'https://api.example.com', methods: ['GET'], paths: [pattern] }],
            'GET',
            url,
          )
        return (
          of(path) === (more.length === 0) &&
          of(`${path}/*`) === (more.length === 1) &&
          of(`${path}/**`) === more.length > 0
        )
      },
    ),
  )
})

import fc from 'fast-check'
import t from 'tap'
import { echo, start } from '../../test/helpers/vault/secretCalls.ts'
import { isAllowedCall, readCallUrl } from './callTarget.ts'

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

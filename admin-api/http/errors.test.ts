import { connect } from 'node:net'
import t from 'tap'
import { createChanges } from '../../adapters/memory/changes.ts'
import { codes } from '../../core/errors/codes.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

t.test(
  'an unknown address is 404, a known one with another method 405 with Allow, both in the envelope',
  async (t) => {
    const f = await startAdmin(t)
    for (const [method, path] of [
      ['GET', '/nope/nope'],
      ['POST', '/nope'],
      ['DELETE', '/'.repeat(20)],
      ['GET', '/api/v1/nope'],
      ['GET', '/API/V1/PROFILE'],
      ['GET', '/api/v1/links/x/y/z'],
      ['OPTIONS', '/nope'],
    ] as const) {
      const { status, body, headers } = await f.call(method, path)
      t.equal(status, 404, `${method} ${path}`)
      t.same(Object.keys(body), ['success', 'error'])
      t.same(Object.keys(body.error), ['code', 'message', 'requestId', 'retryable'])
      t.equal(body.error.code, 'NOT_FOUND')
      t.equal(headers['x-request-id'], body.error.requestId)
    }
    for (const [method, path, allow] of [
      ['DELETE', '/api/agent/auth/nonce', 'POST'],
      ['GET', '/api/agent/signup', 'POST'],
      ['PUT', '/api/v1/profile', 'GET, HEAD, PATCH'],
      ['POST', '/api/v1/links/abc', 'DELETE, GET, HEAD, PATCH'],
      ['GET', '/api/v1/links/abc/re-enable', 'POST'],
      ['POST', '/healthz', 'GET, HEAD'],
      ['POST', '/', 'GET, HEAD'],
      ['DELETE', '/docs', 'GET, HEAD'],
    ] as const) {
      const { status, body, headers } = await f.call(method, path, { body: '{broken' })
      t.equal(status, 405, `${method} ${path}`)
      t.equal(body.error.code, 'METHOD_NOT_ALLOWED')
      t.equal(headers['allow'], allow)
    }
    t.equal((await f.call('GET', '/api/agent/auth/nonce/')).status, 405, 'a slash at the end is forgiven')
  },
)

t.test('bodies that cannot be read are 400, 413 or 415, never more', async (t) => {
  const f = await startAdmin(t)
  const post = (body: string, type = 'application/json') =>
    f.call('POST', '/api/agent/auth/nonce', { body, headers: { 'content-type': type } })
  const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`
  const malformed = [
    '{',
    '{"a":}',
    'nonsense',
    '{"address":"x","chain":"base"',
    "{'a':1}",
    '{"__proto__":{"a":1}}',
    '{"constructor":{"prototype":{"a":1}}}',
    '{"address":"\\ud800","chain":"base"}',
    '{"address":"a\\u0000b","chain":"base"}',
    '{"a\\u0000":1}',
    deep(65),
    deep(500_000),
    '"text"',
    'null',
    '[]',
    '1e999',
  ]
  for (const body of malformed) {
    const response = await post(body)
    t.equal(response.status, 400, body.slice(0, 40))
    t.equal(response.body.error.code, 'VALIDATION_ERROR')
  }
  t.match((await post(deep(65))).body.error.message, /64 levels/)
  t.notMatch((await post(deep(64))).body.error.message, /64 levels/)
  const large = await post(JSON.stringify({ address: 'x'.repeat(1_100_000), chain: 'base' }))
  t.equal(large.status, 413)
  t.equal(large.body.error.code, 'PAYLOAD_TOO_LARGE')
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'nonsense',
    'a/b/c',
  ]) {
    const response = await post('a=b', type)
    t.equal(response.status, 415, type)
    t.equal(response.body.error.code, 'UNSUPPORTED_MEDIA_TYPE')
  }
  for (const type of ['application/json; charset=utf-8', 'APPLICATION/JSON', 'application/problem+json']) {
    t.equal((await post('{}', type)).body.error.details[0].code, 'required', type)
  }
})

t.test('a body in any coding is 415 and says which codings are read', async (t) => {
  const f = await startAdmin(t)
  const post = (coding: string, body: string) =>
    f.call('POST', '/api/agent/auth/nonce', {
      ...(body !== '' && { body }),
      headers: { 'content-type': 'application/json', 'content-encoding': coding },
    })
  for (const coding of ['gzip', 'br', 'x-own', 'gzip, identity', 'aws-chunked']) {
    const { status, body, headers } = await post(coding, '{}')
    t.equal(status, 415, coding)
    t.equal(body.error.code, 'UNSUPPORTED_MEDIA_TYPE')
    t.match(body.error.message, /Content-Encoding/)
    t.equal(headers['accept-encoding'], 'identity')
  }
  for (const coding of ['identity', 'Identity', '']) {
    t.equal((await post(coding, '{}')).body.error.details[0].code, 'required', coding)
  }
  t.equal((await post('gzip', '')).status, 400, 'where there is no body there is nothing to read')
})

t.test('a Content-Type without a body is no body, on every method', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  for (const type of ['application/json', 'text/plain']) {
    const headers = { 'content-type': type }
    t.equal((await f.call('GET', '/api/v1/profile', { key, headers })).status, 200)
    const id = '00000000-0000-4000-8000-000000000000'
    t.equal((await f.call('DELETE', `/api/v1/links/${id}`, { key, headers })).status, 404)
    t.equal((await f.call('POST', `/api/v1/links/${id}/re-enable`, { key, headers })).status, 404)
  }
})

t.test('what was not thrown on purpose is a plain 500 whose id is in the log', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  f.db.links.page = async () => {
    throw new Error('password=hunter2')
  }
  const { status, body, text } = await f.call('GET', '/api/v1/links', { key })
  t.equal(status, 500)
  t.equal(body.error.code, 'INTERNAL_ERROR')
  t.notMatch(text, /hunter2/)
  t.match(f.logged.at(-1), { requestId: body.error.requestId, err: Error })
})

t.test('what was saved is answered as saved, even when a cache could not be told', async (t) => {
  const changes = createChanges()
  changes.subscribe(() => {
    throw new Error('a cache is broken')
  })
  const f = await startAdmin(t, { changes })
  const { key } = await f.store()
  const changed = await f.call('PATCH', '/api/v1/profile', { key, body: { bio: 'new' } })
  t.equal(changed.status, 200)
  t.match(f.logged.at(-1), { err: Error, change: { kind: 'store' } })
})

t.test("a store that does not answer is 503 under the marketplace's own code", async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  f.db.links.page = async () => {
    throw new TollgateError('store_unavailable')
  }
  const { status, body } = await f.call('GET', '/api/v1/links', { key })
  t.equal(status, 503)
  t.equal(body.error.code, 'STORE_UNAVAILABLE')
  t.equal(body.error.retryable, true)
})

t.test(
  'every code of the marketplace is answered with its status, its code and whether to retry',
  async (t) => {
    const f = await startAdmin(t)
    const { key } = await f.store()
    for (const [code, entry] of Object.entries(codes)) {
      if (code !== code.toUpperCase()) continue
      f.db.purchases.page = async () => {
        throw new TollgateError(code as 'CONFLICT', 'words', { retryAfterSeconds: 7 })
      }
      const response = await f.admin.inject({
        url: '/api/v1/purchases',
        headers: { authorization: `Bearer ${key}` },
      })
      t.equal(response.statusCode, entry.status, code)
      const { requestId, ...error } = response.json().error
      t.match(requestId, /^[\w-]{8,64}$/)
      t.same(error, { code, message: 'words', retryable: entry.retryable })
      t.equal(response.headers['retry-after'], '7')
    }
  },
)

t.test("the gateway's request id is kept when it has the form of one", async (t) => {
  const f = await startAdmin(t)
  const idFor = async (given: string) =>
    (await f.call('GET', '/healthz', { headers: { 'x-request-id': given } })).headers['x-request-id']
  t.equal(await idFor('abc-123_DEF'), 'abc-123_DEF')
  for (const bad of ['short', 'x'.repeat(65), 'with space', '<script>', '']) t.not(await idFor(bad), bad)
})

t.test('answers carry the usual protections and do not name the software', async (t) => {
  const f = await startAdmin(t)
  for (const path of ['/', '/healthz', '/openapi.json', '/api/v1/profile', '/nope']) {
    const { headers } = await f.call('GET', path)
    t.equal(headers['x-powered-by'], undefined)
    t.equal(headers['server'], undefined)
    t.equal(headers['x-content-type-options'], 'nosniff')
    t.match(headers['content-security-policy'], /default-src 'none'/)
    t.match(headers['strict-transport-security'], /^max-age=\d+$/)
    t.ok(headers['x-request-id'])
  }
})

t.test('other origins may read what is public, and only that', async (t) => {
  const f = await startAdmin(t)
  const { username } = await f.store()
  const origin = { origin: 'https://other.example' }
  const allowed = async (path: string) =>
    (await f.call('GET', path, { headers: origin })).headers['access-control-allow-origin']
  t.equal(await allowed(`/api/store/${username}`), '*')
  t.equal(await allowed('/openapi.json'), '*')
  t.equal(await allowed('/api/v1/profile'), undefined)
  const preflight = (path: string) =>
    f.call('OPTIONS', path, { headers: { ...origin, 'access-control-request-method': 'GET' } })
  t.equal((await preflight(`/api/store/${username}`)).status, 204)
  t.equal((await preflight('/api/v1/profile')).headers['access-control-allow-origin'], undefined)
  const bare = await f.call('OPTIONS', `/api/store/${username}`, { headers: origin })
  t.same([bare.status, bare.text], [204, ''], 'not a text that no client can parse')
})

t.test('a body that is not UTF-8 is refused, and not kept with its letters lost', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const patch = async (payload: Buffer, type = 'application/json') => {
    const headers = { 'content-type': type, authorization: `Bearer ${key}` }
    const { statusCode, body } = await f.admin.inject({
      method: 'PATCH',
      url: '/api/v1/profile',
      headers,
      payload,
    })
    return { status: statusCode, ...JSON.parse(body) }
  }
  const latin = Buffer.from('{"bio":"M\u00fcnchen"}', 'latin1')
  for (const type of ['application/json', 'application/json; charset=iso-8859-1']) {
    t.match(await patch(latin, type), { status: 400, error: { code: 'VALIDATION_ERROR', message: /UTF-8/ } })
  }
  t.match(await patch(Buffer.from('\ufeff{"bio":"München"}')), { status: 200, data: { bio: 'München' } })
})

t.test('paths and bytes that are not well-formed get an answer in the envelope', async (t) => {
  const f = await startAdmin(t)
  for (const path of ['/%', '/api/store/%zz', '/api/v1/links/%E0%A4%A', `/api/store/${'x'.repeat(3_000)}`]) {
    const { status, body } = await f.call('GET', path)
    t.ok(status === 400 || status === 404, `${path.slice(0, 30)} ${status}`)
    t.equal(body.success, false)
  }
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  const response = await new Promise<string>((resolve, reject) => {
    let text = ''
    const socket = connect(port, '127.0.0.1', () => socket.write('NOT HTTP\r\n\r\n'))
    socket.on('data', (chunk) => (text += chunk))
    socket.on('end', () => resolve(text))
    socket.on('error', reject)
  })
  t.match(response, /^HTTP\/1\.1 400 /)
  t.match(JSON.parse(response.split('\r\n\r\n')[1]!), { success: false, error: { code: 'VALIDATION_ERROR' } })
})

t.test('Strict-Transport-Security speaks for subdomains where the operator says so only', async (t) => {
  const f = await startAdmin(t, { options: { hstsIncludeSubDomains: true } })
  const { headers } = await f.call('GET', '/docs')
  t.match(headers['strict-transport-security'], /^max-age=\d+; includeSubDomains$/)
})

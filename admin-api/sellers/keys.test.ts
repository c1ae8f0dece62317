import { once } from 'node:events'
import { connect } from 'node:net'
import fc from 'fast-check'
import type { Test } from 'tap'
import t from 'tap'
import { samePage, signInBrowser } from '../../test/helpers/admin-api/browser.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { apiKeyFrom, createApiKey, isApiKeyForm, prefixOf } from './apiKey.ts'

t.test('a new key has the documented form and passes its own checksum', async (t) => {
  const keys = Array.from({ length: 500 }, createApiKey)
  t.equal(new Set(keys).size, keys.length)
  t.ok(keys.every((key) => /^tg_live_[0-9A-Za-z]{38}$/.test(key) && isApiKeyForm(key)))
  t.equal(prefixOf(keys[0]!), keys[0]!.slice(0, 12))
})

t.test('the same bytes give the same key, others another', async () => {
  const bytes = fc.uint8Array({ minLength: 32, maxLength: 32 })
  fc.assert(
    fc.property(bytes, bytes, (a, b) => {
      const isSame = Buffer.compare(a, b) === 0
      return (
        isApiKeyForm(apiKeyFrom(a)) &&
        apiKeyFrom(Buffer.from(a)) === apiKeyFrom(a) &&
        (apiKeyFrom(a) === apiKeyFrom(b)) === isSame
      )
    }),
  )
})

t.test('one wrong character, anywhere, is noticed without a look-up', async () => {
  const key = apiKeyFrom(Buffer.alloc(32, 7))
  fc.assert(
    fc.property(fc.nat(key.length - 1), fc.constantFrom(...'0aZ_- '), (at, character) => {
      const changed = key.slice(0, at) + character + key.slice(at + 1)
      return isApiKeyForm(changed) === (changed === key)
    }),
    { numRuns: 1_000 },
  )
})

t.test('nothing else has the form of a key', async () => {
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => !isApiKeyForm(text)))
})

const unknownId = '00000000-0000-4000-8000-000000000000'

t.test('a key is shown once, listed without its secret, and works', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const created = await f.call('POST', '/api/agent/keys', { key, body: { name: 'CI' } })
  t.equal(created.status, 201)
  t.same(Object.keys(created.body.data).sort(), ['apiKey', 'id', 'keyPrefix', 'name'])
  const { id, apiKey } = created.body.data
  t.equal((await f.call('GET', '/api/v1/profile', { key: apiKey })).status, 200)

  // `lastUsedAt` is written in the background, and an awaited write comes after it.
  await f.db.health()
  const list = await f.call('GET', '/api/agent/keys', { key })
  t.same(Object.keys(list.body.data), ['keys'])
  t.equal(list.body.data.keys.length, 2)
  for (const record of list.body.data.keys) {
    t.same(Object.keys(record).sort(), ['createdAt', 'id', 'isActive', 'keyPrefix', 'lastUsedAt', 'name'])
  }
  t.notOk(list.text.includes(apiKey))
  const record = list.body.data.keys.find((k: { id: string }) => k.id === id)
  t.equal(record.name, 'CI')
  t.equal(record.isActive, true)
  t.equal(record.lastUsedAt, new Date(f.clock.nowMs).toISOString())
})

t.test('the name may be left out, with or without a body', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  t.equal((await f.call('POST', '/api/agent/keys', { key })).status, 201)
  t.equal((await f.call('POST', '/api/agent/keys', { key, body: {} })).status, 201)
  const empty = { key, headers: { 'content-type': 'application/json' } }
  t.equal((await f.call('POST', '/api/agent/keys', empty)).status, 201)
  t.equal((await f.call('POST', '/api/agent/keys', { key, body: { name: 'x'.repeat(64) } })).status, 201)
  const long = await f.call('POST', '/api/agent/keys', { key, body: { name: 'x'.repeat(65) } })
  t.equal(long.body.error.code, 'VALIDATION_ERROR')
})

t.test('of twenty keys asked for at once, the store gets as many as fit', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const responses = await Promise.all(
    Array.from({ length: 20 }, () => f.call('POST', '/api/agent/keys', { key })),
  )
  t.equal(responses.filter((a) => a.status === 201).length, 4, 'one was there from the sign-up')
  for (const { status, body } of responses.filter((a) => a.status !== 201)) {
    t.equal(status, 409)
    t.equal(body.error.code, 'LIMIT_REACHED')
  }
})

t.test('a revoked key stops at once, even while it is being looked up, and revoking repeats', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const { id, apiKey } = (await f.call('POST', '/api/agent/keys', { key })).body.data
  t.equal((await f.call('GET', '/api/v1/profile', { key: apiKey })).status, 200, 'now it is in the cache')

  const [revoked] = await Promise.all([
    f.call('DELETE', `/api/agent/keys/${id}`, { key }),
    ...Array.from({ length: 20 }, () => f.call('GET', '/api/v1/profile', { key: apiKey })),
  ])
  t.same(revoked!.body, {
    success: true,
    data: { id, revoked: true, isActive: false, revokedAt: new Date(f.clock.nowMs).toISOString() },
  })
  const after = await f.call('GET', '/api/v1/profile', { key: apiKey })
  t.equal(after.status, 401)
  t.equal(after.body.error.code, 'UNAUTHORIZED')

  f.clock.nowMs += 5_000
  t.same((await f.call('DELETE', `/api/agent/keys/${id}`, { key })).body, revoked!.body)
})

t.test("another store's key, an unknown one and no id at all are the same 404", async (t) => {
  const f = await startAdmin(t)
  const [mine, other] = [await f.store(), await f.store()]
  const { keys } = (await f.call('GET', '/api/agent/keys', { key: other.key })).body.data
  for (const id of [keys[0].id, unknownId, 'abc', '%00', '..%2f..']) {
    const { status, body } = await f.call('DELETE', `/api/agent/keys/${id}`, { key: mine.key })
    t.equal(status, 404, id)
    t.equal(body.error.code, 'NOT_FOUND')
    if (id === unknownId || id === 'abc')
      t.equal(body.error.message, 'Your store has no API key with this id.')
  }
  t.equal((await f.call('GET', '/api/v1/profile', { key: other.key })).status, 200)
})

t.test(
  'every route of a store refuses a request without a key, with a wrong one, with a broken one',
  async (t) => {
    const f = await startAdmin(t)
    const { key } = await f.store()
    const routes = [
      ['GET', '/api/agent/keys'],
      ['POST', '/api/agent/keys'],
      ['DELETE', `/api/agent/keys/${unknownId}`],
      ['GET', '/api/v1/profile'],
      ['PATCH', '/api/v1/profile'],
      ['GET', '/api/v1/links'],
      ['POST', '/api/v1/links'],
      ['GET', `/api/v1/links/${unknownId}`],
      ['PATCH', `/api/v1/links/${unknownId}`],
      ['DELETE', `/api/v1/links/${unknownId}`],
      ['POST', `/api/v1/links/${unknownId}/re-enable`],
      ['POST', `/api/v1/links/${unknownId}/test`],
      ['GET', `/api/v1/links/${unknownId}/health`],
      ['GET', '/api/v1/purchases'],
      ['GET', `/api/v1/purchases/${unknownId}`],
      ['GET', '/api/v1/stats'],
    ] as const
    const wrong: Record<string, string>[] = [
      {},
      { authorization: '' },
      { authorization: 'Bearer' },
      { authorization: `Basic ${key}` },
      { authorization: key },
      { authorization: `Bearer ${key}x` },
      { authorization: `Bearer ${createApiKey()}` },
      { authorization: `Bearer ${'x'.repeat(5_000)}` },
      { 'x-api-key': key },
    ]
    for (const [method, path] of routes) {
      for (const headers of wrong) {
        // The body is wrong as well, but an unauthorized client is told nothing about it.
        const response = await f.call(method, path, {
          headers,
          ...(method === 'GET' ? {} : { body: { nonsense: true } }),
        })
        t.equal(response.status, 401, `${method} ${path} ${JSON.stringify(headers).slice(0, 60)}`)
        t.equal(response.body.error.code, 'UNAUTHORIZED')
        t.equal(response.headers['www-authenticate'], 'Bearer')
        t.equal(response.headers['cache-control'], 'no-store')
      }
    }
  },
)

t.test('a key that fails its checksum is refused before the store is asked', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  let lookUps = 0
  const { byHash } = f.db.keys
  f.db.keys.byHash = (hash) => {
    lookUps++
    return byHash(hash)
  }
  const last = key.at(-1) === '0' ? '1' : '0'
  await f.call('GET', '/api/v1/profile', { key: key.slice(0, -1) + last })
  t.equal(lookUps, 0)
  await f.call('GET', '/api/v1/profile', { key: createApiKey() })
  t.equal(lookUps, 1)
})

/** A store, and a client that asks for a key and disconnects before it receives the key. */
async function leaving(t: Test) {
  const f = await startAdmin(t, { limits: { newKeysPerHour: 3 } })
  const { key } = await f.store()
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  const url = (path: string) => `http://127.0.0.1:${port}${path}`
  const { add } = f.db.keys
  const ask = (body: object, by = key) => f.call('POST', '/api/agent/keys', { key: by, body })
  /** @returns what lets the server finish its answer */
  const leave = async (body: object) => {
    const gone = new AbortController()
    const unblock = Promise.withResolvers<void>()
    f.db.keys.add = async (...one) => {
      await add(...one)
      gone.abort()
      await unblock.promise
    }
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const request = { method: 'POST', headers, body: JSON.stringify(body), signal: gone.signal }
    await t.rejects(fetch(url('/api/agent/keys'), request))
    f.db.keys.add = add
    // By its time the server has read the end of the connection before.
    await (await fetch(url('/healthz'))).text()
    return unblock.resolve
  }
  const ids = async (): Promise<string[]> => {
    const { keys } = (await f.call('GET', '/api/agent/keys', { key })).body.data
    return keys.filter((k: { isActive: boolean }) => k.isActive).map((k: { id: string }) => k.id)
  }
  return { f, key, ask, leave, ids }
}

t.test(
  'a client that was gone before the answer gets the key that was made, also while it is made',
  async (t) => {
    const { f, ask, leave, ids } = await leaving(t)
    for (const isStillAtWork of [true, false]) {
      const name = `CI ${isStillAtWork}`
      const unblock = await leave({ name })
      if (!isStillAtWork) unblock()
      const again = ask({ name })
      unblock()
      const { status, body } = await again
      t.equal(status, 201)
      t.equal((await f.call('GET', '/api/v1/profile', { key: body.data.apiKey })).status, 200)
      t.ok((await ids()).includes(body.data.id))
    }
    t.equal((await ids()).length, 3, 'one of the sign-up, one of each name')
  },
)

t.test('a key is told once: who heard the answer and asks again gets another', async (t) => {
  const { ask, leave, ids } = await leaving(t)
  ;(await leave({ name: 'CI' }))()
  const [first, second] = [await ask({ name: 'CI' }), await ask({ name: 'CI' })]
  t.not(second.body.data.apiKey, first.body.data.apiKey)
  t.equal((await ids()).length, 3)
})

t.test(
  'what nobody heard is told to the same key for the same words within a minute, while it works',
  async (t) => {
    const { f, key, ask, leave, ids } = await leaving(t)
    ;(await leave({ name: 'one' }))()
    const other: string = (await ask({ name: 'other' })).body.data.apiKey
    const [mine, theirs] = [await ids(), await ask({ name: 'one' }, other)]
    t.notOk(mine.includes(theirs.body.data.id), 'not to another key of the store')
    t.equal((await ask({ name: 'one' })).body.data.name, 'one')
    t.equal((await ids()).length, 4)

    const { keys } = (await f.call('GET', '/api/agent/keys', { key })).body.data
    const removable = keys.filter((k: { name: string }) => k.name === 'one' || k.name === 'other')
    for (const { id } of removable) await f.call('DELETE', `/api/agent/keys/${id}`, { key })
    f.clock.nowMs += 3_600_000
    ;(await leave({ name: 'late' }))()
    f.clock.nowMs += 60_000
    t.equal((await ask({ name: 'late' })).status, 201)
    t.equal((await ids()).length, 3, 'after a minute it is another request')
    ;(await leave({ name: 'revoked' }))()
    const revoked = (await f.call('GET', '/api/agent/keys', { key })).body.data.keys
    const { id } = revoked.find((k: { name: string }) => k.name === 'revoked')
    await f.call('DELETE', `/api/agent/keys/${id}`, { key })
    t.equal((await ask({ name: 'revoked' })).status, 429, 'made anew, and counted')
  },
)

t.test('a key that another process has revoked changes nothing here, and makes no key', async (t) => {
  const first = await startAdmin(t)
  const second = await startAdmin(t, { ...first.db, sealer: first.sealer })
  const { key } = await first.store()
  const response = await first.call('POST', '/api/v1/payments', { key, body: { amount: '1', title: 'x' } })
  for (const [method, path, body] of [
    ['POST', '/api/agent/keys', undefined],
    ['PATCH', '/api/v1/profile', { bio: 'moved' }],
    ['POST', `/api/v1/payments/${response.body.data.id}/cancel`, undefined],
  ] as const) {
    const leaked = (await first.call('POST', '/api/agent/keys', { key })).body.data
    t.equal((await second.call('GET', '/api/v1/profile', { key: leaked.apiKey })).status, 200, 'it is kept')
    await first.call('DELETE', `/api/agent/keys/${leaked.id}`, { key })
    const { status } = await second.call(method, path, { key: leaked.apiKey, body })
    t.equal(status, 401, `${method} ${path}`)
    t.equal(
      (await second.call('GET', '/api/v1/profile', { key: leaked.apiKey })).status,
      401,
      'nor does it read',
    )
  }
  const { keys } = (await first.call('GET', '/api/agent/keys', { key })).body.data
  t.equal(keys.filter((one: { isActive: boolean }) => one.isActive).length, 1)
})

t.test('a request whose body ends after its key was revoked makes no key', async (t) => {
  const f = await startAdmin(t)
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  const { key } = await f.store()
  const leaked = (await f.call('POST', '/api/agent/keys', { key })).body.data
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const head = ['POST /api/agent/keys HTTP/1.1', 'Host: a', `Authorization: Bearer ${leaked.apiKey}`]
  socket.write(`${[...head, 'Content-Type: application/json', 'Content-Length: 2'].join('\r\n')}\r\n\r\n{`)
  await new Promise((resolve) => setTimeout(resolve, 100))
  await f.call('DELETE', `/api/agent/keys/${leaked.id}`, { key })
  socket.write('}')
  const [response] = await once(socket, 'data')
  socket.destroy()
  t.match(String(response), /^HTTP\/1\.1 401 /)
  const { keys } = (await f.call('GET', '/api/agent/keys', { key })).body.data
  t.equal(keys.filter((one: { isActive: boolean }) => one.isActive).length, 1)
})

t.test('a browser that signed out while it sent changes nothing', async (t) => {
  const f = await startAdmin(t)
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  const browser = await signInBrowser(f)
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  const head = ['PATCH /api/v1/profile HTTP/1.1', 'Host: a', `Cookie: ${browser.cookie}`]
  head.push(`Origin: ${samePage.origin}`, 'Sec-Fetch-Site: same-origin', `X-CSRF-Token: ${browser.csrfToken}`)
  head.push('Content-Type: application/json', 'Content-Length: 14')
  socket.write(`${head.join('\r\n')}\r\n\r\n{"bio":`)
  await new Promise((resolve) => setTimeout(resolve, 100))
  await browser.call('DELETE', '/api/dashboard/session')
  socket.write('"late"}')
  const [response] = await once(socket, 'data')
  socket.destroy()
  t.match(String(response), /^HTTP\/1\.1 401 /)
})

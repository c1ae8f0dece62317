import { createHash } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { silentLog } from '../../core/ports/log.ts'
import {
  type CallOptions,
  type Fixture,
  startAdmin,
  termsOf,
} from '../../test/helpers/admin-api/startAdmin.ts'
import { expireSessions } from './paymentRoutes.ts'

const MINUTE_MS = 60_000

/** A store that can be paid, and its requests. */
async function shop(t: Test, limits = {}) {
  const f = await startAdmin(t, { limits })
  const { key, username, id } = await f.store()
  const create = async (body: object, more: CallOptions = {}) =>
    f.call('POST', '/api/v1/payments', { key, body, ...more })
  const open = async (body: object = { amount: '49.99', title: 'A chair' }) => (await create(body)).body.data
  const read = (session: { id: string; clientSecret: string }, more: CallOptions = {}) =>
    f.call('GET', `/api/v1/payments/${session.id}?cs=${session.clientSecret}`, more)
  return { f, key, username, storeId: id, create, open, read }
}

t.test('a session of any amount has exactly the document’s fields', async (t) => {
  const { f, create, username, read } = await shop(t)
  const { status, body } = await create({ amount: '49.99', title: 'A chair', description: 'Four legs' })
  t.equal(status, 201)
  const { id, clientSecret, ...data } = body.data
  t.match(clientSecret, /^pscs_[\w-]{43}$/)
  t.strictSame(data, {
    status: 'open',
    amount: '49.99',
    currency: 'USDC',
    expiresAt: new Date(f.clock.nowMs + 30 * MINUTE_MS).toISOString(),
    checkoutUrl: `https://pay.example/pay/checkout/${id}?cs=${clientSecret}`,
    item: { title: 'A chair', description: 'Four legs', amount: '49.99' },
    merchant: { username },
  })
  const found = (await read(body.data)).body.data
  t.match(found, {
    ...{ id, status: 'open', amount: '49.990000000000000000', currency: 'USDC', purchaseId: null },
    ...{ txHash: null, chain: null, buyerWallet: null, link: null, processing: false },
    merchant: { username, displayName: String },
  })
  t.notOk('metadata' in found, 'metadata is the seller’s')
})

t.test('the secret is kept as its SHA-256 and is in no other answer', async (t) => {
  const { f, key, open, read } = await shop(t)
  const session = await open()
  const kept = await f.db.sessions.find(session.id)
  t.equal(kept!.secretHash, createHash('sha256').update(session.clientSecret).digest('hex'))
  t.notOk(JSON.stringify(kept).includes(session.clientSecret))
  const responses = [
    await read(session),
    await f.call('GET', `/api/v1/payments/${session.id}`, { key }),
    await f.call('GET', '/api/v1/payments', { key }),
  ]
  for (const { status, text } of responses) {
    t.equal(status, 200)
    t.notOk(text.includes(session.clientSecret))
  }
})

t.test('a link’s price counts, whatever amount says, and stays when the link’s changes', async (t) => {
  const { f, key, create, read } = await shop(t)
  const link = async (price: string) =>
    (await f.call('POST', '/api/v1/links', { key, body: { url: await f.seller(), title: 'Weather', price } }))
      .body.data
  const paid = await link('0.10')
  const { body } = await create({ linkId: paid.id, amount: 5 })
  t.match(body.data, { amount: '0.10', item: { title: 'Weather', amount: '0.10' } })
  await f.call('PATCH', `/api/v1/links/${paid.id}`, { key, body: { price: '0.20' } })
  t.match((await read(body.data)).body.data, {
    amount: '0.100000000000000000',
    link: { id: paid.id, title: 'Weather' },
  })
  const free = await link('0')
  t.match((await create({ linkId: free.id })).body.error, { code: 'VALIDATION_ERROR', message: /free/ })
  const other = await f.store()
  t.equal((await create({ linkId: paid.id }, { key: other.key })).status, 404, 'a foreign link is unknown')
  await f.call('DELETE', `/api/v1/links/${paid.id}`, { key })
  t.equal((await read(body.data)).body.data.status, 'canceled')
  t.equal((await create({ linkId: paid.id })).status, 409)
})

t.test(
  'amounts come as text or number, and what is no amount is refused with what was expected',
  async (t) => {
    const { create } = await shop(t)
    for (const [amount, shown] of [
      ['1', '1.00'],
      [49.99, '49.99'],
      ['0.000001', '0.000001'],
      ['007.10', '7.10'],
      ['1.1000000000', '1.10'],
    ])
      t.equal((await create({ amount, title: 'x' })).body.data.amount, shown)
    for (const amount of [
      '',
      '0',
      '-1',
      '1e3',
      1e-7,
      1e21,
      '0.0000001',
      ' 1',
      '1.',
      0.1 + 0.2,
      true,
      {},
      '9'.repeat(13),
    ]) {
      const { status, body } = await create({ amount, title: 'x' })
      t.equal(status, 400, String(amount))
      t.equal(body.error.details[0].path, 'amount')
    }
    t.match((await create({ title: 'x' })).body.error.message, /amount or linkId/)
    t.match((await create({ amount: '1' })).body.error.message, /title/)
  },
)

t.test('addresses are of http or https, an origin is an origin, metadata is small and flat', async (t) => {
  const { create } = await shop(t)
  const paths = async (more: object) =>
    (await create({ amount: '1', title: 'x', ...more })).body.error?.details.map(
      ({ path }: { path: string }) => path,
    )
  for (const url of [
    'javascript:alert(1)',
    'ftp://a.test',
    'data:text/html,x',
    'https://',
    '//a.test',
    'https://u:p@a.test',
    '',
    'http:///x',
    'https:a.test',
    'https://?a',
    'https://a.test/thank you',
  ])
    t.strictSame(await paths({ successUrl: url, cancelUrl: url }), ['successUrl', 'cancelUrl'], url)
  for (const origin of [
    '*',
    'null',
    'https://a.test/path',
    'https://u@a.test',
    'a.test',
    'https://*.a.test/',
    '',
    'http:///a.test',
  ])
    t.strictSame(await paths({ allowedOrigin: origin }), ['allowedOrigin'], origin)
  t.equal(await paths({ allowedOrigin: 'https://a.test/' }), undefined)
  for (const successUrl of ['https://a.test/thank%20you?to=Z%C3%BCrich#top', 'https://a.test/grüße', null])
    t.equal(await paths({ successUrl }), undefined, String(successUrl))
  t.strictSame(await paths({ metadata: { a: 'x'.repeat(4_096) } }), ['metadata'])
  t.strictSame(await paths({ metadata: { a: { b: 1 } } }), ['metadata.a'])
  t.strictSame(await paths({ titel: 'x' }), ['titel'])
})

t.test('a store that nobody could pay asks for nothing', async (t) => {
  const f = await startAdmin(t, { termsOf: () => [], payoutFaults: async () => ['The price is too low.'] })
  const { key } = await f.store()
  const { status, body } = await f.call('POST', '/api/v1/payments', {
    key,
    body: { amount: '0.01', title: 'x' },
  })
  t.equal(status, 400)
  t.match(body.error.message, /too low/)
})

t.test(
  'the same Idempotency-Key answers the same session and secret, and refuses another request',
  async (t) => {
    const { f, create, key } = await shop(t)
    const headers = { 'idempotency-key': 'order-1' }
    const body = { amount: '5', title: 'x' }
    const responses = await Promise.all([1, 2, 3].map(() => create(body, { headers })))
    for (const { status, text } of responses) {
      t.equal(status, 201)
      t.equal(text, responses[0]!.text)
    }
    t.equal((await f.call('GET', '/api/v1/payments', { key })).body.data.payments.length, 1)
    const other = await create({ ...body, amount: '6' }, { headers })
    t.equal(other.status, 422)
    t.equal(other.body.error.code, 'IDEMPOTENCY_KEY_REUSED')
    t.equal((await create(body, { headers: { 'idempotency-key': 'x'.repeat(256) } })).status, 400)
  },
)

t.test(
  'the same Idempotency-Key answers the same session, whatever became of its link or its store',
  async (t) => {
    let isPayable = true
    const f = await startAdmin(t, { termsOf: (sold) => (isPayable ? termsOf(sold) : []) })
    const { key } = await f.store()
    const headers = { 'idempotency-key': 'order-1' }
    const { id } = (
      await f.call('POST', '/api/v1/links', {
        key,
        body: { url: await f.seller(), title: 'x', price: '0.10' },
      })
    ).body.data
    const create = (body: object = { linkId: id }) =>
      f.call('POST', '/api/v1/payments', { key, body, headers })
    const first = await create()
    t.equal(first.status, 201)
    const same = async (what: string) => {
      const { status, body } = await create()
      t.equal(status, 201, what)
      t.match(body.data, {
        id: first.body.data.id,
        clientSecret: first.body.data.clientSecret,
        amount: '0.10',
      })
    }
    isPayable = false
    await same('nobody could pay the store now')
    isPayable = true
    await f.call('PATCH', `/api/v1/links/${id}`, { key, body: { price: '0' } })
    await same('the link is free')
    await f.call('DELETE', `/api/v1/links/${id}`, { key })
    await same('the link is gone')
    t.match((await create({ amount: '0', title: 'x' })).body.error, { code: 'IDEMPOTENCY_KEY_REUSED' })
  },
)

t.test('a store has so many open sessions at most, and hears which', async (t) => {
  const f = await startAdmin(t, { options: { maxOpenSessionsPerStore: 2 } })
  const { key } = await f.store()
  const create = (headers = {}) =>
    f.call('POST', '/api/v1/payments', { key, body: { amount: '5', title: 'x' }, headers })
  const named = { 'idempotency-key': 'order-1' }
  const first = (await create(named)).body.data
  t.equal((await create()).status, 201)
  const refused = await create()
  t.equal(refused.status, 409)
  t.match(refused.body.error, {
    code: 'LIMIT_REACHED',
    message: /2 open payment sessions.*Cancel an open one/,
  })
  t.equal((await create(named)).body.data.id, first.id)
  await f.call('POST', `/api/v1/payments/${first.id}/cancel`, { key })
  t.equal((await create()).status, 201)
})

t.test('what ended unpaid is there for 30 days, and then its job forgets it', async (t) => {
  const { f, open, read } = await shop(t)
  const session = await open()
  f.clock.nowMs += 30 * 24 * 60 * MINUTE_MS
  const job = expireSessions({ sessions: f.db.sessions, clock: f.clock, log: silentLog })
  t.teardown(() => job.stop())
  while ((await f.db.sessions.find(session.id))?.state !== 'expired') await setImmediate()
  t.equal((await read(session)).body.data.status, 'expired')
  f.clock.nowMs += 30 * MINUTE_MS
  while ((await f.db.sessions.find(session.id)) !== undefined) await setImmediate()
  t.equal((await read(session)).status, 404)
  await job.stop()
})

t.test('a session is for its secret and its store; for others it does not exist', async (t) => {
  const { f, key, open, read } = await shop(t)
  const session = await open()
  const other = await open()
  const stranger = await f.store()
  const path = `/api/v1/payments/${session.id}`
  t.equal((await f.call('GET', path, { headers: { 'x-client-secret': session.clientSecret } })).status, 200)
  t.equal((await f.call('GET', path)).status, 401)
  t.equal((await f.call('GET', path, { key: stranger.key })).status, 404)
  for (const cs of [other.clientSecret, 'pscs_', '', session.clientSecret.slice(0, -1)])
    t.equal((await read({ id: session.id, clientSecret: cs })).status, 404, cs)
  t.equal((await f.call('GET', `/api/v1/payments/nonsense?cs=x`)).status, 404)
  const own = (await f.call('GET', path, { key })).body.data
  t.match(own, { id: session.id, createdAt: String })
  t.strictSame(own.metadata, {})
})

t.test('it expires after 30 minutes, also before anybody has written so', async (t) => {
  const { f, open, read } = await shop(t)
  const session = await open()
  f.clock.nowMs += 30 * MINUTE_MS - 1
  t.equal((await read(session)).body.data.status, 'open')
  f.clock.nowMs += 1
  t.equal((await read(session)).body.data.status, 'expired')
  const canceled = await f.call('POST', `/api/v1/payments/${session.id}/cancel?cs=${session.clientSecret}`)
  t.equal(canceled.status, 409)
  t.equal(canceled.body.error.code, 'SESSION_NOT_OPEN')
})

t.test('buyer and seller cancel it, once or twice', async (t) => {
  const { f, key, open } = await shop(t)
  const [one, two] = [await open(), await open()]
  for (let i = 0; i < 2; i++) {
    const response = await f.call('POST', `/api/v1/payments/${one.id}/cancel?cs=${one.clientSecret}`)
    t.equal(response.status, 200)
    t.equal(response.body.data.status, 'canceled')
  }
  t.equal((await f.call('POST', `/api/v1/payments/${two.id}/cancel`, { key })).body.data.status, 'canceled')
  t.equal((await f.call('POST', `/api/v1/payments/${two.id}/cancel`)).status, 401)
})

t.test('sessions are listed by status and reference, to their store only', async (t) => {
  const { f, key, open } = await shop(t)
  const one = await open({ amount: '1', title: 'x', clientReferenceId: 'order 7', metadata: { a: 1 } })
  f.clock.nowMs += 1
  await open()
  const list = async (query: string, as = key) =>
    (await f.call('GET', `/api/v1/payments?${query}`, { key: as })).body.data
  t.equal((await list('')).payments.length, 2)
  const found = await list('clientReferenceId=order%207&status=open')
  t.match(found, {
    payments: [{ id: one.id, clientReferenceId: 'order 7', metadata: { a: 1 } }],
    nextCursor: null,
  })
  t.equal((await list('status=confirmed')).payments.length, 0)
  const page = await list('limit=1')
  t.equal((await list(`cursor=${page.nextCursor}`)).payments[0].id, one.id)
  t.equal((await list('', (await f.store()).key)).payments.length, 0)
  t.equal((await f.call('GET', '/api/v1/payments?status=paid', { key })).status, 400)
})

t.test('a page of allowedOrigin may read it, no other page, and never every page', async (t) => {
  const { f, open } = await shop(t)
  const session = await open({ amount: '1', title: 'x', allowedOrigin: 'https://shop.test' })
  const closed = await open()
  const allowed = async (id: string, method: string, origin: string, f: Fixture) => {
    const { headers } = await f.call(method, `/api/v1/payments/${id}?cs=x`, {
      headers: { origin, 'access-control-request-method': 'GET' },
    })
    return headers['access-control-allow-origin']
  }
  for (const method of ['GET', 'OPTIONS']) {
    t.equal(await allowed(session.id, method, 'https://shop.test', f), 'https://shop.test')
    for (const origin of ['https://evil.test', 'http://shop.test', 'https://shop.test.evil.test', 'null'])
      t.equal(await allowed(session.id, method, origin, f), undefined, origin)
    t.equal(await allowed(closed.id, method, 'https://shop.test', f), undefined)
  }
})

t.test('a session is read 60 times a minute with its secret, and strangers do not use that up', async (t) => {
  const { f, open, read } = await shop(t, { sessionPollsPerMinute: 60, badKeyPerMinute: 5 })
  const session = await open()
  const wrong = { id: session.id, clientSecret: 'pscs_wrong' }
  for (let i = 0; i < 5; i++) t.equal((await read(wrong, { ip: '198.51.100.1' })).status, 404)
  t.equal((await read(wrong, { ip: '198.51.100.1' })).status, 429)
  for (let i = 0; i < 60; i++) t.equal((await read(session, { ip: `198.51.100.${i}` })).status, 200)
  const refused = await read(session)
  t.equal(refused.status, 429)
  t.equal(refused.headers['retry-after'], '60')
  f.clock.nowMs += MINUTE_MS
  t.equal((await read(session)).status, 200)
})

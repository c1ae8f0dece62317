import type { ServerResponse } from 'node:http'
import t from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { evmWallet, solanaWallet } from '../../test/helpers/admin-api/wallets.ts'

t.test("a paid link is saved once its API answers, asked with the link's own headers", async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const requests: (string | undefined)[] = []
  let responseStatus = 200
  const url = await f.seller((request, response) => {
    requests.push(request.headers['x-token'] as string | undefined)
    response.writeHead(responseStatus).end()
  })
  const body = { url, title: 'Paid', price: '1', upstreamHeaders: { 'x-token': 'mine' } }
  const create = () =>
    f.call('POST', '/api/v1/links', { key, body: { ...body, description: String(responseStatus) } })
  for (responseStatus of [200, 302, 401, 402, 404, 405]) {
    t.equal((await create()).status, 201, String(responseStatus))
  }
  t.ok(requests.length === 6 && requests.every((token) => token === 'mine'))
  for (responseStatus of [500, 503]) {
    const refused = await create()
    t.equal(refused.status, 422)
    t.equal(refused.body.error.code, 'API_NOT_RESPONDING')
    t.match(refused.body.error.message, new RegExp(`status ${responseStatus}`))
  }
  t.equal((await f.call('GET', '/api/v1/links', { key })).body.data.links.length, 6)

  requests.length = 0
  t.equal((await f.call('POST', '/api/v1/links', { key, body: { ...body, price: '0' } })).status, 201)
  t.same(requests, [], 'a free link is not asked')
})

t.test(
  'a change asks the API again only when url or price change, and a failure changes nothing',
  async (t) => {
    const f = await startAdmin(t)
    const { key } = await f.store()
    let requestCount = 0
    let responseStatus = 200
    const url = await f.seller((_request, response) => {
      requestCount++
      response.writeHead(responseStatus).end()
    })
    const { id } = (await f.call('POST', '/api/v1/links', { key, body: { url, title: 'Paid', price: '1' } }))
      .body.data
    const patch = (body: object) => f.call('PATCH', `/api/v1/links/${id}`, { key, body })
    t.equal(requestCount, 1)
    await patch({ title: 'Other', isPublic: true, description: 'x', price: '1', url })
    t.equal(requestCount, 1)
    await patch({ price: '2' })
    t.equal(requestCount, 2)
    await patch({ url: `${url}?v=2` })
    t.equal(requestCount, 3)
    responseStatus = 500
    const before = (await f.call('GET', `/api/v1/links/${id}`, { key })).body
    const failed = await patch({ price: '3', title: 'Never' })
    t.equal(failed.status, 422)
    t.same((await f.call('GET', `/api/v1/links/${id}`, { key })).body, before)
    t.equal((await patch({ price: '0' })).status, 200, 'a free link needs no check')
  },
)

t.test('a backend that never answers costs less than ten seconds', async (t) => {
  const f = await startAdmin(t, { options: { probeTimeoutMs: 100 } })
  const { key } = await f.store()
  const url = await f.seller(() => {})
  const refused = await f.call('POST', '/api/v1/links', { key, body: { url, title: 'Paid', price: '1' } })
  t.equal(refused.status, 422)
  t.match(refused.body.error.message, /No response within 0.1 s/)
})

t.test('a paid link needs a wallet on a network that can be paid on', async (t) => {
  const f = await startAdmin(t)
  const seller = solanaWallet()
  const { apiKey: key } = (await f.signUp(seller)).body.data
  const url = await f.seller()
  const body = { url, title: 'Paid', price: '1' }
  const refused = await f.call('POST', '/api/v1/links', { key, body })
  t.equal(refused.status, 400)
  t.match(refused.body.error.details[0], {
    path: 'price',
    code: 'no_payout_wallet',
    message: /PATCH \/api\/v1\/profile/,
  })
  t.equal((await f.call('POST', '/api/v1/links', { key, body: { ...body, price: '0' } })).status, 201)
  t.equal((await f.movePayout(key, seller, { base: evmWallet().address })).status, 200)
  t.equal((await f.call('POST', '/api/v1/links', { key, body })).status, 201)
})

t.test('what changes during the health check of another change is not undone by it', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  let requested = Promise.withResolvers<ServerResponse>()
  const slow = await f.seller((_request, response) => requested.resolve(response))
  const url = await f.seller()
  const body = { url, title: 'Weather', isPublic: true, slug: 'weather' }
  const { id } = (await f.call('POST', '/api/v1/links', { key, body })).body.data
  const change = (more: object) => f.call('PATCH', `/api/v1/links/${id}`, { key, body: more })

  const priced = change({ url: slow, price: '1' })
  const probe = await requested.promise
  const hidden = await change({ isStealth: true, description: 'Secret' })
  t.equal(hidden.status, 200)
  probe.end('{}')
  const { status, body: answer } = await priced
  t.equal(status, 200)
  const { privateSlug } = hidden.body.data
  t.match(answer.data, { price: '1', url: slow, isStealth: true, isPublic: false, privateSlug })
  t.equal(answer.data.description, 'Secret')
  t.equal(await f.db.links.served(username, 'weather'), undefined)
  t.match(await f.db.links.served(username, privateSlug), { price: '1' })

  requested = Promise.withResolvers()
  const late = change({ price: '2' })
  const second = await requested.promise
  t.equal((await f.call('DELETE', `/api/v1/links/${id}`, { key })).status, 200)
  second.end('{}')
  t.equal((await late).body.error.code, 'LINK_NOT_FOUND')
  t.match(await f.db.links.find(id), { isActive: false, price: '1' })
})

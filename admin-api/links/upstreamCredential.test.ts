import type { Test } from 'tap'
import t from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { openUpstreamHeaders } from './linkFields.ts'

const secret = 'Bearer of-the-old-api'

/** A paid link with a credential for its API, and another host that records what it receives. */
async function setUp(t: Test) {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const seen: unknown[] = []
  const elsewhere = await f.seller((request, response) => {
    seen.push(request.headers.authorization)
    response.end('{}')
  })
  const { body } = await f.call('POST', '/api/v1/links', {
    key,
    body: { url, title: 'Weather', price: '1', upstreamHeaders: { authorization: secret } },
  })
  const id: string = body.data.id
  const patch = (change: object) => f.call('PATCH', `/api/v1/links/${id}`, { key, body: change })
  const stored = async () => {
    const link = (await f.db.links.find(id))!
    return { url: link.url, headers: { ...openUpstreamHeaders(f.sealer, id, link.upstreamHeadersSealed) } }
  }
  return { f, key, id, url, elsewhere, seen, patch, stored }
}

t.test('a credential for one host is never sent to another that a change names', async (t) => {
  const { url, elsewhere, seen, patch, stored } = await setUp(t)
  const others = [elsewhere, url.replace('http:', 'https:'), url.replace('127.0.0.1', '127.0.0.2')]
  for (const other of others) {
    const refused = await patch({ url: other, title: 'Moved' })
    t.equal(refused.status, 400, other)
    t.match(refused.body.error.details, [{ path: 'upstreamHeaders', code: 'required' }])
    t.match(refused.body.error.details[0].message, /upstreamHeaders again.*\{\}/)
    t.notMatch(refused.text, /old-api/)
  }
  t.equal((await patch({ linkType: 'standard', url: elsewhere })).status, 400, 'nor by way of a product')
  t.same(await stored(), { url, headers: { authorization: secret } }, 'nothing has changed')
  t.same(seen, [], 'not by the health check either')
})

t.test('another address of the same host keeps the credential', async (t) => {
  const { url, patch, stored } = await setUp(t)
  t.equal((await patch({ url: `${url}v2?units=metric` })).status, 200)
  t.same(await stored(), { url: `${url}v2?units=metric`, headers: { authorization: secret } })
})

t.test('a change of the host that says what is sent there is made', async (t) => {
  for (const [upstreamHeaders, headers] of [
    [{ authorization: 'Bearer of-the-new-api' }, { authorization: 'Bearer of-the-new-api' }],
    [{}, {}],
    [null, {}],
  ]) {
    const { elsewhere, seen, patch, stored } = await setUp(t)
    const { status, text } = await patch({ url: elsewhere, upstreamHeaders })
    t.equal(status, 200, text)
    t.same(await stored(), { url: elsewhere, headers })
    t.same(seen, [headers?.authorization])
  }
})

t.test('a link without a credential moves freely', async (t) => {
  const { elsewhere, patch, stored } = await setUp(t)
  t.equal((await patch({ upstreamHeaders: null })).status, 200)
  t.equal((await patch({ url: elsewhere })).status, 200)
  t.same(await stored(), { url: elsewhere, headers: {} })
})

t.test('a credential that is stored while the host changes stays with its host', async (t) => {
  const { f, key, url, elsewhere, seen } = await setUp(t)
  const { body } = await f.call('POST', '/api/v1/links', { key, body: { url, title: 'Plain', price: '1' } })
  const path = `/api/v1/links/${body.data.id}`
  const slow = await f.seller(async (request, response) => {
    // While the health check of the new host runs.
    await f.call('PATCH', path, { key, body: { upstreamHeaders: { authorization: secret } } })
    seen.push(request.headers.authorization)
    response.end('{}')
  })
  t.equal((await f.call('PATCH', path, { key, body: { url: slow } })).status, 400)
  t.equal((await f.db.links.find(body.data.id))!.url, url)
  t.same(seen, [undefined])
  t.equal((await f.call('PATCH', path, { key, body: { url: elsewhere } })).status, 400)
})

t.test('an import that moves the API to another host takes no credential along', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const [old, elsewhere] = [new URL(await f.seller()).origin, new URL(await f.seller()).origin]
  const document = JSON.stringify({
    openapi: '3.1.0',
    info: { title: 'Pets', version: '1' },
    paths: { '/pets': { get: { responses: { 200: { description: 'Pets.' } } } } },
  })
  const send = async (more: object) => {
    const body = { document, price: '0.01', ...more }
    const response = await f.call('POST', '/api/v1/links/import', { key, body })
    return response.body.data.operations[0]
  }
  const upstreamHeaders = { authorization: secret }
  const made = await send({ server: old, upstreamHeaders })
  t.equal(made.action, 'create')
  for (const dryRun of [true, false]) {
    const moved = await send({ server: elsewhere, dryRun })
    t.match(moved, { action: 'failed', reason: /upstreamHeaders again/ })
  }
  t.equal((await f.db.links.find(made.linkId))!.url, `${old}/pets`)
  t.equal((await send({ server: elsewhere, upstreamHeaders, dryRun: true })).action, 'change')
  t.equal((await send({ server: elsewhere, upstreamHeaders })).action, 'change', 'the same value, sent again')
  const link = (await f.db.links.find(made.linkId))!
  t.equal(link.url, `${elsewhere}/pets`)
  t.same({ ...openUpstreamHeaders(f.sealer, link.id, link.upstreamHeadersSealed) }, upstreamHeaders)
})

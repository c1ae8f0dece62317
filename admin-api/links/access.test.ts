import t from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

t.test('access by a signature is set, read, changed and removed', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const created = await f.call('POST', '/api/v1/links', {
    key,
    body: { url, title: 'Weather', price: '0.10', access: { paidFor: '7d' } },
  })
  t.match(created, { status: 201, body: { data: { access: { paidFor: '7d' } } } })
  const path = `/api/v1/links/${created.body.data.id}`
  const read = await f.call('GET', path, { key })
  t.match(read, { status: 200, body: { data: { access: { paidFor: '7d' } } } })
  const changed = await f.call('PATCH', path, { key, body: { price: '0', access: 'signed-in' } })
  t.match(changed, { status: 200, body: { data: { access: 'signed-in', isPaid: false } } })
  const other = await f.call('PATCH', path, { key, body: { title: 'Other' } })
  t.match(other, { status: 200, body: { data: { access: 'signed-in' } } })
  const removed = await f.call('PATCH', path, { key, body: { access: null } })
  t.match(removed, { status: 200, body: { data: { access: null } } })
  const without = await f.call('POST', '/api/v1/links', { key, body: { url, title: 'None', price: '0.10' } })
  t.match(without, { status: 201, body: { data: { access: undefined } } })
})

t.test('an access that cannot be meant is refused with what was expected', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const cases: [object, RegExp][] = [
    [{ price: '0.1', access: 'signed-in' }, /A link for signed-in wallets is free/],
    [{ price: '0', access: { paidFor: '1h' } }, /A free link has no purchases/],
    [{ price: '0.1', access: 'signedin' }, /signed-in, or an object such as/],
    [{ price: '0.1', access: { paidFor: '90s' } }, /minutes, hours or days, such as 30m, 24h or 7d/],
    [{ price: '0.1', access: { paidFor: '0h' } }, /minutes, hours or days/],
    [{ price: '0.1', access: { paidFor: 24 } }, /string/],
    [{ price: '0.1', access: { paidfor: '24h' } }, /paidFor/],
    [{ price: '0.1', access: {} }, /paidFor|required/i],
    [
      {
        price: { rules: [{ when: { method: 'POST' }, price: '0.5' }], otherwise: '0.1' },
        access: { paidFor: '1h' },
      },
      /Expected one price for every call/,
    ],
  ]
  for (const [fields, expected] of cases) {
    const refused = await f.call('POST', '/api/v1/links', { key, body: { url, title: 'T', ...fields } })
    t.equal(refused.status, 400, JSON.stringify(fields))
    t.match(refused.text, expected, JSON.stringify(fields))
    t.match(refused.text, /access/)
  }
})

t.test('a price that leaves the access without a meaning is refused', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const body = { url: await f.seller(), title: 'T', price: '0.10', access: { paidFor: '1h' } }
  const { data } = (await f.call('POST', '/api/v1/links', { key, body })).body
  const free = await f.call('PATCH', `/api/v1/links/${data.id}`, { key, body: { price: '0' } })
  t.match(free, { status: 400, text: /A free link has no purchases/ })
})

t.test('search results, the OpenAPI document and the page of a link say who can call it', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const url = await f.seller()
  const add = (slug: string, more: object) =>
    f.call('POST', '/api/v1/links', { key, body: { url, title: slug, slug, isPublic: true, ...more } })
  await add('returning', { price: '0.10', access: { paidFor: '24h' } })
  await add('wallets', { access: 'signed-in' })
  await add('plain', { price: '0.10' })
  const { results } = (await f.call('GET', '/api/discover')).body
  const found = Object.fromEntries(results.map((one: { title: string }) => [one.title, one]))
  t.match(found, { returning: { access: { paidFor: '24h' } }, wallets: { access: 'signed-in' } })
  t.notOk('access' in found.plain)
  const { paths } = (await f.call('GET', `/${username}/openapi.json`)).body
  const operation = (slug: string) => paths[`/api/link/${username}/${slug}`].get
  for (const slug of ['returning', 'wallets']) {
    t.match(operation(slug).parameters, [{ name: 'SIGN-IN-WITH-X', in: 'header', required: false }])
    t.ok(402 in operation(slug).responses)
  }
  t.notOk(operation('plain').parameters)
  t.match((await f.call('GET', `/${username}/returning`)).text, /can call it again for 24h/)
  const page = (await f.call('GET', `/${username}/wallets`)).text
  t.match(page, /For wallets that sign in/)
  t.notMatch(page, /Try it/)
})

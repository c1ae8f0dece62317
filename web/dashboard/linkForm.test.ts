import t from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { linkBody, priceOf } from './linkForm.ts'
import type { LinkResponse } from './types.ts'

const fields = {
  linkType: 'api',
  title: 'Weather',
  url: 'https://api.example/w',
  price: '0.01',
  pricing: 'one',
  rules: '',
  description: '',
  slug: 'weather',
  tags: 'maps',
  webhookUrl: '',
  visibility: 'listed',
  access: 'none',
  paidFor: '24h',
  headers: '',
} as const
const link = {
  linkType: 'api',
  title: 'Weather',
  url: 'https://api.example/w',
  price: '0.01',
  description: '',
  slug: 'weather',
  tags: ['maps'],
  webhookUrl: null,
  isPublic: true,
  isStealth: false,
  access: null,
} as unknown as LinkResponse

t.test('a change sends what is another by now, and what was emptied as well', async (t) => {
  t.strictSame(linkBody(fields, link), {})
  t.strictSame(linkBody({ ...fields, slug: ' wind ', tags: '' }, link), { slug: 'wind', tags: [] })
  const emptied = linkBody({ ...fields, slug: ' ' }, link)
  t.strictSame(emptied, { slug: '' }, 'and not nothing, which would read as saved')
  const f = await startAdmin(t)
  const { key } = await f.store()
  const made = await f.call('POST', '/api/v1/links', {
    key,
    body: { url: await f.seller(), title: 'Weather' },
  })
  const answer = await f.call('PATCH', `/api/v1/links/${made.body.data.id}`, { key, body: emptied })
  t.match(answer, { status: 400, body: { error: { details: [{ path: 'slug', message: /3 to 64/ }] } } })
})

t.test('a new link leaves out the address that is to be made from its title', async (t) => {
  t.notOk('slug' in linkBody({ ...fields, slug: ' ' }))
  t.match(linkBody(fields), { slug: 'weather', webhookUrl: null })
})

t.test(
  'a link that moves to another host takes the headers along that are written for it, and no others',
  async (t) => {
    const url = 'https://new.example/w'
    t.strictSame(linkBody({ ...fields, url }, link), { url, upstreamHeaders: {} })
    const headers = 'X-Key: a:b\n\nAuthorization: Bearer x'
    t.strictSame(linkBody({ ...fields, url, headers }, link), {
      url,
      upstreamHeaders: { 'X-Key': 'a:b', Authorization: 'Bearer x' },
    })
    const product = linkBody({ ...fields, url, headers, linkType: 'standard' }, link)
    t.strictSame(product, { linkType: 'standard', url, upstreamHeaders: {} }, 'a page has no use for them')
    const near = 'https://api.example/v2'
    t.strictSame(linkBody({ ...fields, url: near, headers }, link), { url: near }, 'the same host keeps them')
  },
)

t.test('prices by request are sent as the object that their text is', async (t) => {
  const table = { rules: [{ when: { path: '/a' }, price: '0.05' }], otherwise: null }
  const priced = { ...fields, pricing: 'rules', rules: JSON.stringify(table, null, 2) } as const
  t.strictSame(linkBody(priced).price, table)
  t.strictSame(linkBody(priced, { ...link, price: table }), {}, 'and not at all when they are the same')
  t.strictSame(linkBody({ ...priced, pricing: 'one' }, { ...link, price: table }), { price: '0.01' })
  const byUse = { upTo: '0.1', by: 'header', otherwise: '0.02' }
  const used = { ...fields, pricing: 'use', rules: JSON.stringify(byUse) } as const
  t.strictSame(linkBody(used).price, byUse)
  t.match(priceOf({ ...used, rules: '1' }), { error: /upTo, by and otherwise/ })
  t.match(priceOf({ ...priced, rules: '{"rules":' }), { error: /Enter JSON/ })
  t.match(priceOf({ ...priced, rules: '[]' }), { error: /rules and otherwise/ })
  t.strictSame(priceOf({ ...priced, linkType: 'standard' }), { price: '0.01' })
})

t.test('the access of a link is sent in the form of the API, and only if it has changed', async (t) => {
  t.match(linkBody({ ...fields, access: 'paid-for', paidFor: ' 7d ' }), { access: { paidFor: '7d' } })
  t.match(linkBody({ ...fields, access: 'signed-in' }), { access: 'signed-in' })
  t.strictSame(linkBody({ ...fields, access: 'paid-for' }, link), { access: { paidFor: '24h' } })
  const paidFor = { ...link, access: { paidFor: '24h' } } as LinkResponse
  t.strictSame(linkBody({ ...fields, access: 'paid-for' }, paidFor), {})
  t.strictSame(linkBody(fields, paidFor), { access: null })
})

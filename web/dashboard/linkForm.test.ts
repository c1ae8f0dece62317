import t from 'tap'
import { startAdmin } from '../../admin-api/testing/startAdmin.ts'
import { linkBody } from './linkForm.ts'
import type { LinkAnswer } from './types.ts'

const fields = {
  linkType: 'api',
  ...{ title: 'Weather', url: 'https://api.example/w', price: '0.01', description: '', slug: 'weather' },
  tags: 'maps',
  webhookUrl: '',
  visibility: 'listed',
  headers: '',
} as const
const link = {
  linkType: 'api',
  ...{ title: 'Weather', url: 'https://api.example/w', price: '0.01', description: '', slug: 'weather' },
  ...{ tags: ['maps'], webhookUrl: null, isPublic: true, isStealth: false },
} as unknown as LinkAnswer

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

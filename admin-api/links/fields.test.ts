import t from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

t.test('an address that cannot be meant is refused, with advice that can be followed', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const refusalOf = async (more: object) => {
    const { status, body } = await f.call('POST', '/api/v1/links', {
      key,
      body: { url, title: 'T', ...more },
    })
    t.equal(status, 400, JSON.stringify(more))
    t.equal(body.error.details.length, 1)
    return body.error.details[0] as { path: string; message: string }
  }
  const withPassword = 'https://me:pass@a.example/'
  t.match(await refusalOf({ url: withPassword }), { path: 'url', message: /upstreamHeaders/ })
  const ofWebhook = await refusalOf({ webhookUrl: withPassword })
  t.match(ofWebhook, { path: 'webhookUrl', message: /user name or password/ })
  t.notMatch(ofWebhook.message, /header/i, 'a webhook has none to put it in')
  for (const path of ['url', 'webhookUrl', 'iconUrl'])
    for (const odd of ['http:///x', 'https:a.example', 'https://?a', 'https://a.example/a b'])
      t.equal((await refusalOf({ [path]: odd })).path, path, `${path} ${odd}`)
  t.match((await refusalOf({ iconUrl: 'https://a.example/a b' })).message, /%20 for a space/)
})

t.test('prices are decimal strings, kept as they are when USDC can express them', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const create = (price: unknown) =>
    f.call('POST', '/api/v1/links', { key, body: { url, title: 'Priced', price } })
  const good = {
    '0': '0',
    '0.00': '0.00',
    '0.10': '0.10',
    '1': '1',
    '007': '7',
    '00.5': '0.5',
    '0.000001': '0.000001',
    '0.100000000000000000': '0.100000',
    '999999999999.999999': '999999999999.999999',
  }
  for (const [price, kept] of Object.entries(good)) {
    const { status, body } = await create(price)
    t.equal(status, 201, price)
    t.equal(body.data?.price, kept)
  }
  for (const price of [
    '',
    ' ',
    '-1',
    '+1',
    '1e3',
    '.5',
    '1.',
    '0,10',
    '0x1',
    '١',
    'NaN',
    '1.0000000000000000001',
    1,
    null,
    {},
  ]) {
    const { status, body } = await create(price)
    t.equal(status, 400, JSON.stringify(price))
    t.equal(body.error.details[0].path, 'price')
  }
  const fine = await create('0.0000001')
  t.same(fine.body.error.details, [
    {
      path: 'price',
      code: 'too_many_decimals',
      message: 'Expected at most 6 decimals, as USDC has, but this price has 7.',
    },
  ])
  t.equal((await create('1000000000000')).body.error.details[0].code, 'range')
})

t.test('what is wrong with a link is named field by field, with the near miss', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const detail = async (body: object) => {
    const response = await f.call('POST', '/api/v1/links', { key, body: { url, title: 'T', ...body } })
    t.equal(response.status, 400, JSON.stringify(body).slice(0, 80))
    t.equal(response.body.error.code, 'VALIDATION_ERROR')
    t.ok(response.body.error.message.length > 0 && response.body.error.message.length < 500)
    return response.body.error.details[0] as { path: string; code: string; message: string }
  }
  t.match(await detail({ prise: '1' }), { path: 'prise', code: 'unknown_field', message: /"price"/ })
  t.match(await detail({ responseMode: 'warp' }), {
    path: 'responseMode',
    code: 'not_allowed',
    message: /"wrap"\?/,
  })
  t.match(await detail({ methods: ['get'] }), { path: 'methods[0]', message: /Did you mean "GET"/ })
  t.match(await detail({ title: 'x'.repeat(201) }), { path: 'title', code: 'too_long', message: /201/ })
  t.match(await detail({ description: 'x'.repeat(501) }), { path: 'description', code: 'too_long' })
  t.match(await detail({ title: '' }), { path: 'title' })
  t.match(await detail({ slug: 'ab' }), { path: 'slug', code: 'format' })
  t.match(await detail({ slug: 'With_Under' }), { path: 'slug', code: 'format' })
  t.match(await detail({ tags: Array.from({ length: 11 }, (_, i) => `t${i}`) }), { code: 'too_many' })
  t.match(await detail({ inputSchema: { a: 'x'.repeat(20_000) } }), { path: 'inputSchema', code: 'too_long' })
  t.match(await detail({ url: undefined }), { path: 'url', code: 'required' })
  t.match(await detail({ method: 'GET', methods: ['GET'] }), { path: 'method', code: 'conflict' })
  for (const bad of [
    'ftp://x.example/',
    'not a url',
    'http://user:pw@x.example/',
    'http://10.0.0.1/',
    'file:///etc/passwd',
    'http://[::1]/',
    '//x',
  ]) {
    t.match(await detail({ url: bad }), { path: 'url' }, bad)
    t.match(await detail({ webhookUrl: bad }), { path: 'webhookUrl' }, bad)
  }
  t.match(await detail({ iconUrl: 'javascript:alert(1)' }), { path: 'iconUrl' })
  const missing = await f.call('POST', '/api/v1/links', { key })
  t.match(missing.body.error.message, /body is missing/)
})

t.test(
  'headers that belong to the gateway can not be fixed, nor can a value break out of its line',
  async (t) => {
    const f = await startAdmin(t)
    const { key } = await f.store()
    const url = await f.seller()
    const refused: Record<string, string>[] = [
      { Host: 'x' },
      { 'Transfer-Encoding': 'chunked' },
      { connection: 'close' },
      { 'PAYMENT-SIGNATURE': 'x' },
      { 'x-payment': 'x' },
      { 'X-Forwarded-For': '1.2.3.4' },
      { 'content-length': '0' },
      { upgrade: 'websocket' },
      { 'bad name': 'x' },
      { '': 'x' },
      { 'x-a': 'a\r\nx-b: c' },
      { 'x-a': 'ä' },
      { 'x-a': ' a' },
      { 'x-a': 'a', 'X-A': 'b' },
    ]
    for (const upstreamHeaders of refused) {
      const { status, body } = await f.call('POST', '/api/v1/links', {
        key,
        body: { url, title: 'T', upstreamHeaders },
      })
      t.equal(status, 400, JSON.stringify(upstreamHeaders))
      t.equal(body.error.details[0].path, 'upstreamHeaders')
    }
    const accepted = { Authorization: 'Bearer abc', 'X-Api-Key': 'k', Cookie: 'a=b; c=d' }
    const { status } = await f.call('POST', '/api/v1/links', {
      key,
      body: { url, title: 'T', upstreamHeaders: accepted },
    })
    t.equal(status, 201)
  },
)

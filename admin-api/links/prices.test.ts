import { readFileSync } from 'node:fs'
import t from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

const table = {
  rules: [
    { when: { method: 'POST', path: '/render/*', query: { size: ['large', 'huge'] } }, price: '0.050' },
    { when: { header: { 'X-Quality': 'hd' }, body: { '/options/size': '4' } }, price: '2' },
  ],
  otherwise: '0.01',
}
const stored = {
  ...table,
  rules: [
    table.rules[0],
    { ...table.rules[1], when: { header: { 'x-quality': 'hd' }, body: { '/options/size': '4' } } },
  ],
}

t.test('prices by request are returned as they were sent, with their range', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const made = await f.call('POST', '/api/v1/links', {
    key,
    body: { url: await f.seller(), title: 'Render', price: table },
  })
  t.match(made, { status: 201, body: { data: { price: stored, priceMin: '0.01', priceMax: '2' } } })
  const { id } = made.body.data
  const path = `/api/v1/links/${id}`
  const { body } = await f.call('GET', path, { key })
  t.match(body.data, { price: stored, priceMin: '0.01', priceMax: '2', isPaid: true })
  const same = await f.call('PATCH', path, {
    key,
    body: { price: body.data.price, priceMin: '1', priceMax: '3' },
  })
  t.match(same, { status: 200, body: { data: { price: stored, priceMin: '0.01', priceMax: '2' } } })
  t.match(await f.call('PATCH', path, { key, body: { title: 'x' } }), { body: { data: { price: stored } } })
  const fixed = await f.call('PATCH', path, { key, body: { price: '0.5' } })
  t.match(fixed, { status: 200, body: { data: { price: '0.5' } } })
  t.notOk('priceMax' in fixed.body.data)
  const refused = { ...table, otherwise: null }
  t.match(await f.call('PATCH', path, { key, body: { price: refused } }), {
    status: 200,
    body: { data: { price: { otherwise: null }, priceMin: '0.050', priceMax: '2' } },
  })
})

t.test('a link can have every price that the README shows', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
  const [, section = ''] = /^## What you can charge for$([\s\S]*?)^## /m.exec(readme) ?? []
  const shown = [...section.matchAll(/^\|.*\| `(.*)` \|$/gm)].map(([, fields]) => JSON.parse(`{${fields}}`))
  t.equal(shown.length, 5)
  for (const fields of shown) {
    const body = { url, title: 'Shown', ...fields }
    const made = await f.call('POST', '/api/v1/links', { key, body })
    t.equal(made.status, 201, made.text)
    t.match(await f.call('GET', `/api/v1/links/${made.body.data.id}`, { key }), { body: { data: fields } })
  }
})

t.test(
  'what could not decide a price, or not the same for every reader, is refused with its place',
  async (t) => {
    const f = await startAdmin(t)
    const { key } = await f.store()
    const url = await f.seller()
    const rule = (when: object, price = '1') => ({ rules: [{ when, price }], otherwise: '1' })
    const wrong: readonly (readonly [object | number, string, RegExp])[] = [
      [5, 'price', /string or a JSON object/],
      [{}, 'price', /table with rules/],
      [{ rules: [{ when: { method: 'GET' }, price: '1' }] }, 'price.otherwise', /required/],
      [{ rules: [], otherwise: '1' }, 'price.rules', /./],
      [{ ...rule({ method: 'GET' }), otherwise: '0' }, 'price.otherwise', /above 0/],
      [rule({ method: 'GET' }, '0.00'), 'price.rules[0].price', /above 0/],
      [rule({ method: 'GET' }, '1e3'), 'price.rules[0].price', /decimal string/],
      [rule({ method: 'GET' }, '0.0000001'), 'price.rules[0].price', /at most 6 decimals/],
      [rule({}), 'price.rules[0].when', /./],
      [rule({ query: {} }), 'price.rules[0].when.query', /at least one name/],
      [rule({ method: 'get' }), 'price.rules[0].when.method', /GET, POST/],
      [rule({ method: 'HEAD' }), 'price.rules[0].when.method', /GET, POST/],
      [rule({ path: 'render' }), 'price.rules[0].when.path', /begins with \//],
      [rule({ path: '/a/../b' }), 'price.rules[0].when.path', /segments/],
      [rule({ path: '/a*b' }), 'price.rules[0].when.path', /only at its end/],
      [rule({ path: '/a;b' }), 'price.rules[0].when.path', /without/],
      [rule({ path: '/%zz' }), 'price.rules[0].when.path', /UTF-8/],
      [rule({ query: { 'size[]': 'l' } }), 'price.rules[0].when.query["size[]"]', /without \[/],
      [rule({ header: { 'x quality': 'l' } }), 'price.rules[0].when.header["x quality"]', /letters/],
      [rule({ header: { Cookie: 'l' } }), 'price.rules[0].when.header.Cookie', /does not get/],
      [
        rule({ header: { 'X-Forwarded-For': 'l' } }),
        'price.rules[0].when.header.X-Forwarded-For',
        /does not get/,
      ],
      [rule({ header: { 'x-a': 'ü' } }), 'price.rules[0].when.header.x-a', /ASCII/],
      [rule({ header: { 'x-a': 'l', 'X-A': 'm' } }), 'price.rules[0].when.header', /each header once/],
      [rule({ query: { size: 'l\u202e' } }), 'price.rules[0].when.query.size', /U\+202E/],
      [rule({ body: { '/si\u200bze': 'l' } }), 'price.rules[0].when.body', /U\+200B/],
      [rule({ body: { model: 'l' } }), 'price.rules[0].when.body.model', /JSON pointer/],
      [rule({ body: { '/a~2': 'l' } }), 'price.rules[0].when.body["/a~2"]', /JSON pointer/],
      [rule({ size: 'l' }), 'price.rules[0].when.size', /Unknown field/],
      [rule({ query: { size: 5 } }), 'price.rules[0].when.query.size', /string or a list/],
      [rule({ query: { size: 'l', SIZE: 'm' } }), 'price', /same for many servers/],
      [
        { rules: Array.from({ length: 17 }, () => rule({ method: 'GET' }).rules[0]), otherwise: '1' },
        'price.rules',
        /at most 16/,
      ],
    ]
    for (const [price, path, message] of wrong) {
      const answer = await f.call('POST', '/api/v1/links', { key, body: { url, title: 'x', price } })
      t.match(
        answer,
        { status: 400, body: { error: { code: 'VALIDATION_ERROR', details: [{ path, message }] } } },
        JSON.stringify(price),
      )
    }
  },
)

t.test('prices by request fit the other fields of their link', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const price = {
    rules: [{ when: { query: { size: 'l' }, header: { 'x-key': 'a' } }, price: '1' }],
    otherwise: '2',
  }
  const create = (body: object) =>
    f.call('POST', '/api/v1/links', { key, body: { url, title: 'x', price, ...body } })
  const refused = (message: RegExp) => ({
    status: 400,
    body: { error: { details: [{ path: 'price', message }] } },
  })
  t.match(await create({ linkType: 'standard' }), refused(/standard link/))
  t.match(await create({ url: `${url}?Size=m` }), refused(/sets the query parameter Size/))
  t.match(await create({ upstreamHeaders: { 'X-Key': 'k' } }), refused(/set x-key/))
  const made = await create({})
  t.equal(made.status, 201)
  const { id } = made.body.data
  const patch = await f.call('PATCH', `/api/v1/links/${id}`, {
    key,
    body: { upstreamHeaders: { 'X-Key': 'k' } },
  })
  t.match(patch, refused(/set x-key/))
  const session = await f.call('POST', '/api/v1/payments', { key, body: { linkId: id } })
  t.match(session, {
    status: 400,
    body: { error: { details: [{ path: 'linkId', code: 'priced_by_request' }] } },
  })
})

t.test('the marketplace says from which price and up to which', async (t) => {
  const f = await startAdmin(t)
  const { key, username } = await f.store()
  const url = await f.seller()
  const body = { url, title: 'Render', slug: 'render', price: table, isPublic: true }
  t.equal((await f.call('POST', '/api/v1/links', { key, body })).status, 201)
  const read = async (path: string) => (await f.admin.inject(path)).body
  t.match(JSON.parse(await read('/api/discover')).results, [{ price: '0.01', priceMax: '2' }])
  t.match(JSON.parse(await read(`/api/store/${username}`)).links, [{ price: '0.01', priceMax: '2' }])
  t.match(await read('/llms.txt'), /from 0\.01 to 2 USDC a call/)
  const { paths } = JSON.parse(await read(`/${username}/openapi.json`))
  const operations = paths[`/api/link/${username}/render`]
  t.match(operations.get['x-payment-info'].price, { mode: 'dynamic', currency: 'USD', min: '0.01', max: '2' })
  const page = await read(`/${username}/render`)
  t.match(page, /from<\/small>\s*0\.01/)
  t.match(page, /POST, path \/render\/\*, query size = large or huge/)
  t.match(page, /every other request/)
  t.match(await read('/'), /from<\/small>\s*0\.01/)
})

t.test(
  'a server that states the prices is checked, shown to its seller only, and its secret is shown',
  async (t) => {
    const f = await startAdmin(t)
    const { key, username } = await f.store()
    const url = await f.seller()
    const price = { url: `${url}/price`, max: '0.50', fallback: '0.10', headers: ['X-Quality'] }
    const create = (given: object) =>
      f.call('POST', '/api/v1/links', {
        key,
        body: { url, title: 'x', slug: 'asked', isPublic: true, price: given },
      })
    const wrong: readonly (readonly [object, string, RegExp])[] = [
      [{ ...price, max: undefined }, 'price.max', /required/],
      [{ ...price, fallback: undefined }, 'price.fallback', /required/],
      [{ ...price, fallback: '0.51' }, 'price.fallback', /at most max/],
      [{ ...price, max: '0' }, 'price.max', /above 0/],
      [{ ...price, otherwise: '1' }, 'price.otherwise', /fields of several/],
      [{ ...price, headers: ['cookie'] }, 'price.headers[0]', /does not get/],
      [{ ...price, url: 'ftp://x.example/' }, 'price.url', /./],
      [{ ...price, url: 'http://10.0.0.1/price' }, 'price.url', /./],
      [{ ...price, url: 'https://user:pass@x.example/' }, 'price.url', /./],
    ]
    for (const [given, path, message] of wrong)
      t.match(await create(given), { status: 400, body: { error: { details: [{ path, message }] } } }, path)
    const made = await create(price)
    const view = { ...price, headers: ['x-quality'] }
    t.match(made, {
      status: 201,
      body: { data: { price: view, priceMin: '0.50', priceMax: '0.50', priceSecret: /^whsec_.{43}=$/ } },
    })
    const { id, priceSecret } = made.body.data
    const path = `/api/v1/links/${id}`
    t.notOk('priceSecret' in (await f.call('GET', path, { key })).body.data)
    const again = await f.call('PATCH', path, { key, body: { price: { ...price, max: '0.60' } } })
    t.match(again, { status: 200, body: { data: { priceSecret, priceMax: '0.60' } } })
    t.notOk('priceSecret' in (await f.call('PATCH', path, { key, body: { title: 'y' } })).body.data)
    const pages = ['/', `/${username}`, `/${username}/asked`, '/llms.txt', `/${username}/openapi.json`]
    for (const page of pages) {
      const { body } = await f.admin.inject(page)
      t.notMatch(body, /\/price\b/, page)
      t.match(body, /up to|"max":"0\.60"/, page)
    }
  },
)

const byUse = { upTo: '0.10', by: { tokens: { input: '3', output: '15' } }, otherwise: '0.02' }

t.test('a price by use is returned as it was sent, with the most as its range', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const path = '/api/v1/links'
  const made = await f.call('POST', path, { key, body: { url, title: 'Model', price: byUse } })
  const stored = { ...byUse, stream: false }
  t.match(made, { status: 201, body: { data: { price: stored, priceMin: '0.10', priceMax: '0.10' } } })
  const { id } = made.body.data
  const read = await f.call('GET', `${path}/${id}`, { key })
  t.strictSame(read.body.data.price, stored)
  const measures = [
    'header',
    { bytes: '0.5' },
    { seconds: '0.002' },
    { pointer: '/usage/credits', each: '0.001' },
    { tokens: { input: '3', output: '15', cached: '0.30' } },
    { tokens: { input: '0', output: '1' } },
  ]
  for (const by of measures) {
    const price = { ...byUse, by, stream: true }
    t.match(
      await f.call('PATCH', `${path}/${id}`, { key, body: { price } }),
      { status: 200, body: { data: { price } } },
      JSON.stringify(by),
    )
  }
  t.match(await f.call('PATCH', `${path}/${id}`, { key, body: { settle: 'before' } }), {
    status: 400,
    body: { error: { details: [{ path: 'price', code: 'conflict' }] } },
  })
})

t.test('a price by use that could not be charged is refused with its place', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const url = await f.seller()
  const wrong: readonly (readonly [object, string, RegExp])[] = [
    [{ upTo: '1' }, 'price.by', /required/],
    [{ upTo: '1', by: 'header' }, 'price.otherwise', /required/],
    [{ ...byUse, upTo: '0' }, 'price.upTo', /above 0/],
    [{ ...byUse, upTo: '-1' }, 'price.upTo', /decimal string/],
    [{ ...byUse, upTo: '0.0000001' }, 'price.upTo', /at most 6 decimals/],
    [{ ...byUse, otherwise: '0.11' }, 'price.otherwise', /at most upTo/],
    [{ ...byUse, otherwise: null }, 'price.otherwise', /got null/],
    [{ ...byUse, by: 'tokens' }, 'price.by', /"header", or an object/],
    [{ ...byUse, by: {} }, 'price.by', /one of tokens/],
    [{ ...byUse, by: { bytes: '1', seconds: '1' } }, 'price.by', /one of tokens/],
    [{ ...byUse, by: { pointer: '/a' } }, 'price.by.each', /together/],
    [{ ...byUse, by: { bytes: '1', each: '1' } }, 'price.by.each', /together/],
    [{ ...byUse, by: { pointer: 'a', each: '1' } }, 'price.by.pointer', /JSON pointer/],
    [{ ...byUse, by: { bytes: '0' } }, 'price.by', /above 0/],
    [{ ...byUse, by: { bytes: '1e3' } }, 'price.by.bytes', /decimal string/],
    [{ ...byUse, by: { seconds: '1234567890123' } }, 'price.by.seconds', /at most 12 digits/],
    [{ ...byUse, by: { tokens: { input: '3' } } }, 'price.by.tokens.output', /./],
    [{ ...byUse, rules: [] }, 'price.rules', /./],
    [{ ...byUse, max: '1' }, 'price.max', /fields of several/],
    [{ ...byUse, stream: 'yes' }, 'price.stream', /./],
  ]
  for (const [price, place, message] of wrong) {
    const refused = await f.call('POST', '/api/v1/links', { key, body: { url, title: 'x', price } })
    t.equal(refused.status, 400, JSON.stringify(price))
    t.match(refused.body.error.details, [{ path: place, message }], JSON.stringify(price))
  }
})

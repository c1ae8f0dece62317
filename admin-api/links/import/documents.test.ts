import t from 'tap'
import { type Drafts, readDrafts } from './readDrafts.ts'

const read = (text: string, more: object = {}): Drafts =>
  readDrafts({ text, as: 'each', price: '0.01', prices: new Map(), ...more })
const head =
  "openapi: 3.0.3\ninfo: { title: Shared, version: '1' }\nservers: [{ url: 'https://api.example.com' }]\n"
const priced = ({ drafts }: Drafts) => drafts.map(({ operation, price }) => [operation, price])
const reasons = ({ leftOut }: Drafts) =>
  Object.fromEntries(leftOut.map(({ operation, reason }) => [operation, reason]))

t.test('merge keys of YAML bring in prices, parameters and operations, and own keys go before them', (t) => {
  const text = `${head}
x-common: &common
  summary: From the anchor
  x-price: '5'
  parameters: [{ name: limit, in: query, schema: { type: integer } }]
  responses: { '200': { description: ok } }
x-unsold: &unsold { x-price: none }
x-old: &old { deprecated: true }
x-path: &path
  post: { operationId: inherited, x-price: '7', responses: { '200': { description: ok } } }
paths:
  /merged: { get: { <<: *common, operationId: merged } }
  /own: { get: { x-price: '2', <<: *common } }
  /list: { get: { <<: [*unsold, *common] } }
  /second: { get: { <<: [*common, *unsold] } }
  /old:
    get:
      <<: *common
      <<: *old
  /inherited:
    <<: *path
    get: { operationId: own }
  /aliased: *path
`
  const found = read(text)
  t.strictSame(priced(found), [
    ['GET /merged', '5'],
    ['GET /own', '2'],
    ['GET /second', '5'],
    ['GET /inherited', '0.01'],
    ['POST /inherited', '7'],
    ['POST /aliased', '7'],
  ])
  t.match(found.drafts[0], {
    title: 'From the anchor',
    inputSchema: { properties: { limit: { type: 'integer' } } },
  })
  t.match(reasons(found), { 'GET /list': /price is none/, 'GET /old': /deprecated/ })
  t.end()
})

t.test('a merge key that merges nothing is named, whatever it stands for', (t) => {
  t.throws(() => read(`${head}paths: { /a: { get: { <<: 5 } } }`), { message: /Line 4: cannot merge/ })
  const quoted = read(`${head}paths: { /a: { get: { "<<": { x-price: '5' } } }, /b: { get: {} } }`)
  t.strictSame(priced(quoted), [['GET /b', '0.01']])
  t.match(reasons(quoted), { 'GET /a': /merge key "<<" is quoted/ })
  t.end()
})

t.test('what stands in another file is left out by name, at every place where it may stand', (t) => {
  const ref = "{ $ref: 'other.yml' }"
  const found = read(`${head}
paths:
  /operation: { get: ${ref} }
  /priced: { get: { $ref: 'other.yml', x-price: '5' } }
  /item: ${ref}
  /beside: { $ref: 'other.yml', get: { operationId: beside } }
  /parameter: { get: { parameters: [${ref}] } }
  /parameters: { get: { parameters: ${ref} } }
  /common: { parameters: ${ref}, get: {} }
  /servers: { get: { servers: ${ref} } }
  /body: { post: { requestBody: ${ref} } }
  /content: { post: { requestBody: { content: ${ref} } } }
  /media: { post: { requestBody: { content: { application/json: ${ref} } } } }
  /schema: { post: { requestBody: { content: { application/json: { schema: ${ref} } } } } }
  /properties: { post: { requestBody: { content: { application/json: { schema: { properties: ${ref} } } } } } }
  /responses: { get: { responses: ${ref} } }
  /response: { get: { responses: { '200': ${ref} } } }
  /through: { get: { parameters: [{ $ref: '#/components/parameters/Limit' }] } }
  /fine: { get: {} }
components: { parameters: ${ref} }
`)
  t.strictSame(priced(found), [['GET /fine', '0.01']])
  t.equal(found.leftOut.length, 16)
  for (const { operation, reason } of found.leftOut)
    t.match(reason, /"other\.yml" points outside the document.*tollgate link import/, operation)
  t.throws(() => read(`${head}paths: ${ref}`), {
    name: 'ImportRefusal',
    message: /points outside the document/,
  })
  t.end()
})

t.test('references within the document lead to operations, path items, paths and maps', (t) => {
  const found = read(`${head}
paths: { $ref: '#/x-all' }
x-all:
  /operation: { get: { $ref: '#/x-operation', x-price: '9' } }
  /plain: { get: { $ref: '#/x-operation' } }
  /unsold: { get: { $ref: '#/x-operation', x-price: none } }
  /item: { $ref: '#/x-item', x-price: '4' }
  /through: { post: { requestBody: { content: { application/json: { schema: { $ref: '#/x-maps/Pet' } } } } } }
  /empty: { get: }
  /list: { get: [] }
  /circle: { get: { $ref: '#/x-circle/a' } }
x-operation: { operationId: shared, x-price: '3' }
x-item: { delete: { operationId: removed } }
x-maps: { $ref: '#/x-schemas' }
x-schemas: { Pet: { type: object, properties: { $ref: '#/x-fields' } } }
x-fields: { name: { type: string } }
x-circle: { $ref: '#/x-circle/a' }
`)
  t.strictSame(priced(found), [
    ['GET /operation', '9'],
    ['GET /plain', '3'],
    ['DELETE /item', '4'],
    ['POST /through', '0.01'],
  ])
  t.match(found.drafts[3]?.inputSchema, { properties: { name: { type: 'string' } } })
  t.match(reasons(found), {
    'GET /unsold': /price is none/,
    'GET /empty': /Expected an object/,
    'GET /list': /Expected an object/,
    'GET /circle': /is circular/,
  })
  t.end()
})

t.test('an operation is called at its own server, its path’s or the document’s, and nowhere else', (t) => {
  const paths = `
paths:
  /root: { get: {} }
  /path: { servers: [{ url: 'https://files.example.com/v2/' }], get: {} }
  /own: { servers: [{ url: 'https://files.example.com' }], get: { servers: [{ url: 'https://{area}.example.com', variables: { area: { default: eu } } }] } }
  /relative: { get: { servers: [{ url: '/v3' }] } }
  /unusable: { get: { servers: [{ url: 'wss://api.example.com' }] } }
  /empty: { servers: [], get: {} }
`
  const urls = ({ drafts }: Drafts) =>
    Object.fromEntries(drafts.map(({ operation, url }) => [operation, url]))
  const whole = read(head + paths)
  t.strictSame(urls(whole), {
    'GET /root': 'https://api.example.com/root',
    'GET /path': 'https://files.example.com/v2/path',
    'GET /own': 'https://eu.example.com/own',
    'GET /relative': 'https://api.example.com/v3/relative',
    'GET /empty': 'https://api.example.com/empty',
  })
  t.match(reasons(whole), { 'GET /unusable': /own server "wss:\/\/api\.example\.com"/ })

  const without = read(`openapi: 3.1.0\ninfo: { title: No servers }${paths}`)
  t.strictSame(urls(without), {
    'GET /path': 'https://files.example.com/v2/path',
    'GET /own': 'https://eu.example.com/own',
  })
  t.match(reasons(without), { 'GET /root': /has no server/, 'GET /relative': /own server "\/v3"/ })

  const given = read(head + paths, { server: 'http://localhost:3000' })
  t.equal(given.drafts.length, 6)
  t.ok(given.drafts.every(({ url }) => url.startsWith('http://localhost:3000/')))
  t.end()
})

t.test('a price under another spelling of x-price is named, not lost', (t) => {
  const text = `${head}
paths:
  /case: { get: { X-Price: '5' } }
  /underscore: { x_price: '5', get: {} }
  /ruled: { get: { x-Price: '5' } }
  /right: { get: { x-price: '5', x-price-note: five } }
`
  const found = read(text, { prices: new Map([['/ruled', '7']]) })
  t.strictSame(priced(found), [
    ['GET /ruled', '7'],
    ['GET /right', '5'],
  ])
  t.match(reasons(found), {
    'GET /case': /Expected the price in "x-price", but it is in "X-Price"/,
    'GET /underscore': /"x_price"/,
  })
  t.end()
})

t.test('x-price may be a table of prices, with texts or numbers, and a wrong table names its place', (t) => {
  const found = read(`${head}
paths:
  /table:
    post:
      x-price: { rules: [{ when: { method: POST, body: { /n: [1, 2], /deep: true } }, price: 0.05 }], otherwise: '0.01' }
  /inherited:
    x-price: { rules: [{ when: { header: { X-Quality: draft } }, price: '0.010' }], otherwise: null }
    get: {}
  /no-rules: { get: { x-price: { rules: [], otherwise: 1 } } }
  /no-price: { get: { x-price: { rules: [{ when: { path: /a } }], otherwise: 1 } } }
  /bad-path: { get: { x-price: { rules: [{ when: { path: a }, price: 1 }], otherwise: 1 } } }
  /zero: { get: { x-price: { rules: [{ when: { path: /a }, price: 0 }], otherwise: 1 } } }
  /server: { get: { x-price: { url: 'https://a.example', max: 1, fallback: null } } }
  /list: { get: { x-price: [1] } }
`)
  t.strictSame(priced(found), [
    [
      'POST /table',
      {
        rules: [{ when: { method: 'POST', body: { '/n': ['1', '2'], '/deep': 'true' } }, price: '0.05' }],
        otherwise: '0.01',
      },
    ],
    [
      'GET /inherited',
      { rules: [{ when: { header: { 'x-quality': 'draft' } }, price: '0.010' }], otherwise: null },
    ],
  ])
  t.match(reasons(found), {
    'GET /no-rules': /not a table of prices or a price by use. rules/,
    'GET /no-price': /rules\[0\]\.price/,
    'GET /bad-path': /rules\[0\]\.when\.path: Expected a path/,
    'GET /zero': /rules\[0\]\.price: Expected a price above 0/,
    'GET /server': /Set a price server on the link itself/,
    'GET /list': /Expected a decimal string such as "0.01", a table with rules/,
  })
  const below = read(`${head}
paths:
  /a: { get: { x-price: { rules: [{ when: { query: { q: '1' } }, price: 5 }], otherwise: 1 } } }
  /a/b: { get: { x-price: 2 } }
`)
  t.match(reasons(below), { 'GET /a': /would sell GET \/a\/b \(2\) for 1/ })
  t.end()
})

t.test(
  'no link sells a dearer operation of another server or spelling below its own address for less',
  (t) => {
    const found = read(`${head}
paths:
  /cheap: { get: {} }
  /dear: { servers: [{ url: 'https://api.example.com/cheap' }], get: { x-price: '5' } }
  /else: { servers: [{ url: 'https://files.example.com/cheap' }], get: { x-price: '5' } }
  /report: { get: {} }
  /%72eport/full: { get: { x-price: '5' } }
  /reports: { get: { x-price: '5' } }
`)
    t.strictSame(
      priced(found).map(([operation]) => operation),
      ['GET /dear', 'GET /else', 'GET /%72eport/full', 'GET /reports'],
    )
    t.match(reasons(found), {
      'GET /cheap': /would sell GET \/dear \(5\) for 0\.01/,
      'GET /report': /would sell GET \/%72eport\/full \(5\) for 0\.01/,
    })
    t.end()
  },
)

t.test('a version without quotes is read, and a large document too', (t) => {
  t.equal(read(`${head.replace('3.0.3', '3.0')}paths: { /a: { get: {} } }`).drafts.length, 1)
  const description = 'What this operation does, with examples in prose. '.repeat(260)
  const rows = Array.from(
    { length: 900 },
    (_, i) =>
      `  /things/${i}:\n    get:\n      operationId: thing${i}\n      description: >-\n        ${description}\n`,
  )
  const text = `${head}paths:\n${rows.join('')}`
  t.ok(text.length > 11_000_000)
  t.equal(read(text).drafts.length, 900)
  t.end()
})

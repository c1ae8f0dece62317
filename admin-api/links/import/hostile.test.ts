import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { petsAt } from '../../../test/helpers/admin-api/links/import/pets.ts'
import { startAdmin } from '../../../test/helpers/admin-api/startAdmin.ts'
import { readCorpus } from '../../../test/helpers/corpora.ts'
import { type Drafts, readDrafts } from './readDrafts.ts'

const server = 'https://api.example.com'
const read = (document: unknown, more: object = {}): Drafts =>
  readDrafts({
    text: typeof document === 'string' ? document : JSON.stringify(document),
    ...{ as: 'each', price: '0.01', prices: new Map(), server },
    ...more,
  })
const documentOf = (paths: object, more: object = {}) => ({
  ...{ openapi: '3.1.0', info: { title: 'An API' }, paths },
  ...more,
})
const posting = (schema: unknown) => ({
  post: { requestBody: { content: { 'application/json': { schema } } } },
})

t.test('what is no OpenAPI 3.0 or 3.1 is refused, and the refusal says what to do', (t) => {
  const refused: [string, RegExp][] = [
    ['swagger: "2.0"\npaths: {}', /Swagger 2\.0.*Convert it/],
    ['openapi: 3.0', /at least one operation/],
    ['openapi: 2.0.0', /3\.0 or 3\.1, got version 2\.0\.0/],
    ['openapi: 3.2.0', /got version 3\.2\.0/],
    ['openapi: 3.10.0', /got version 3\.10\.0/],
    ['paths: {}', /no `openapi` field/],
    ['', /Expected an OpenAPI document/],
    ['[]', /Expected an OpenAPI document/],
    ['just words', /Expected an OpenAPI document/],
    ['openapi: 3.1.0', /at least one operation/],
    ['openapi: 3.1.0\npaths: []', /at least one operation/],
    ['openapi: [', /Line 1/],
    ['openapi: 3.1.0\nopenapi: 3.1.0', /Line 2: duplicated mapping key/],
    ['{"openapi":"3.1.0","info":{"a":[{"b":1}],"a":2}}', /"a" occurs twice/],
    [`openapi: 3.1.0\nx: ${'x'.repeat(16_000_000)}`, /at most 16000000 bytes/],
    [`{"openapi":"3.1.0","paths":${'['.repeat(50_000)}${']'.repeat(50_000)}}`, /100 levels/],
    [
      `openapi: 3.1.0\npaths: ${'['.repeat(20_000)}${']'.repeat(20_000)}`,
      /nested too deeply|Expected JSON or YAML/,
    ],
    ['openapi: 3.1.0\npaths: &a\n  b: *a', /aliases/],
    [laughs(), /aliases/],
  ]
  for (const [text, message] of refused)
    t.throws(() => read(text), { name: 'ImportRefusal', message }, text.slice(0, 60))
  t.equal(
    read('{"openapi":"3.1.0","info":{"a":"{\\"a\\":1,\\"a\\":2}"},"paths":{"/a":{"get":{}}}}').drafts.length,
    1,
  )
  t.end()
})

/** Each list contains the previous one nine times. */
function laughs(): string {
  const lines = ['openapi: 3.1.0', 'a0: &a0 [lol]']
  for (let i = 1; i < 12; i++)
    lines.push(
      `a${i}: &a${i} [${Array(9)
        .fill(`*a${i - 1}`)
        .join(', ')}]`,
    )
  return lines.join('\n')
}

t.test('references lead nowhere but into the document, and nothing is fetched', async (t) => {
  let requestCount = 0
  const elsewhere = createServer((_request, response) => {
    requestCount++
    response.end('{}')
  })
  await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve))
  t.teardown(() => elsewhere.close())
  const url = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/a.json`
  for (const reference of [
    'file:///etc/passwd',
    '/etc/passwd',
    url,
    `${url}#/a`,
    'other.yaml#/Pet',
    '//host/x',
    'data:,{}',
  ]) {
    const $ref = reference
    const paths = {
      ...{ '/schema': posting({ $ref }), '/deep': posting({ properties: { a: { items: { $ref } } } }) },
      ...{ '/parameter': { get: { parameters: [{ $ref }] } }, '/body': { post: { requestBody: { $ref } } } },
      ...{ '/answer': { get: { responses: { 200: { $ref } } } }, '/item': { $ref }, '/fine': { get: {} } },
    }
    const { drafts, leftOut } = read(documentOf(paths))
    t.same(
      drafts.map((one) => one.operation),
      ['GET /fine'],
      reference,
    )
    t.ok(leftOut.every(({ reason }) => /points outside the document/.test(reason)))
    t.equal(leftOut.length, 6)
  }
  for (const $ref of [
    '#/components/schemas/None',
    '#nothing',
    '#/paths/~1a/toString',
    '#/%',
    '#/__proto__/x',
  ])
    t.match(read(documentOf({ '/a': posting({ $ref }) })).leftOut, [{ reason: /has no target/ }], $ref)
  t.equal(requestCount, 0)
})

t.test('circles and chains of references end: as schemas that lead to themselves, or with a reason', (t) => {
  const chain = Object.fromEntries(
    Array.from({ length: 10_000 }, (_, i) => [`S${i}`, { $ref: `#/components/schemas/S${i + 1}` }]),
  )
  const nested = Object.fromEntries(
    Array.from({ length: 10_000 }, (_, i) => [
      `S${i}`,
      { properties: { next: { $ref: `#/components/schemas/S${i + 1}` } } },
    ]),
  )
  const loop = { S0: { $ref: '#/components/schemas/S1' }, S1: { $ref: '#/components/schemas/S0' } }
  const start = posting({ $ref: '#/components/schemas/S0' })
  for (const schemas of [chain, loop])
    t.match(read(documentOf({ '/a': start }, { components: { schemas } })).leftOut, [
      { reason: /is circular/ },
    ])
  const [long] = read(
    documentOf({ '/a': start }, { components: { schemas: { ...nested, S10000: {} } } }),
  ).drafts
  t.match(long, { inputSchema: null, notes: [/too large/] })
  const own = { S0: { properties: { self: { $ref: '#/components/schemas/S0' } } } }
  const [itself] = read(documentOf({ '/a': start }, { components: { schemas: own } })).drafts
  t.same(itself?.inputSchema, {
    properties: { self: { $ref: '#/$defs/S0' } },
    $defs: { S0: { properties: { self: { $ref: '#/$defs/S0' } } } },
  })
  const whole = read(documentOf({ '/a': posting({ properties: { all: { $ref: '#' } } }) }))
  t.equal(whole.drafts.length, 1)
  t.end()
})

t.test('what is said of one operation is not said of all others, however long it is', (t) => {
  const many = Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`/{x${i}}`, { get: {} }]))
  const long = `/${'a'.repeat(900_000)}`
  const drafts = read(
    documentOf({ ...many, [long]: { get: { deprecated: true } }, [`/{${long}}`]: { get: {} } }),
  )
  t.equal(drafts.drafts.length, 900)
  t.ok(JSON.stringify(drafts).length < 1_000_000)
  t.match(drafts.leftOut, [{ operation: /^\* \/a{99}…$/, reason: /at most 2048 characters/ }, {}])
  const unreadable = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`/${i}`, 0]))
  t.throws(() => read(documentOf({ ...unreadable, '/a': { get: {} } })), {
    message: /at most 1000 operations/,
  })
  const variables = { v: { default: 'a'.repeat(1_000_000) } }
  const url = `https://x.example/${'{v}'.repeat(600)}`
  const servers = [{ url: server }, { url, variables }, { url: `${server}/${'a'.repeat(3_000)}` }]
  t.same(read(documentOf({ '/a': { get: {} } }, { servers }), { server: undefined }).otherServers, [])
  t.end()
})

t.test('names that objects have already are names like any other', (t) => {
  const text = `{"openapi":"3.1.0","paths":{"__proto__":{"get":{}},"/a":{"get":{"operationId":"__proto__","x-price":"2"},
    "post":{"operationId":"constructor","requestBody":{"content":{"application/json":{"schema":
    {"properties":{"__proto__":{"type":"string"},"b":{"$ref":"#/components/schemas/__proto__"}}}}}}},
    "__proto__":{}}},"components":{"schemas":{"__proto__":{"type":"integer"}}}}`
  const { drafts, leftOut } = read(text, { prices: new Map([['constructor', '3']]) })
  t.same(
    drafts.map(({ operation, operationId, price }) => [operation, operationId, price]),
    [
      ['GET /a', '__proto__', '2'],
      ['POST /a', 'constructor', '3'],
    ],
  )
  t.match(leftOut, [{ operation: 'GET __proto__', reason: /begin with a slash/ }])
  const schema = drafts[1]!.inputSchema as { properties: object; $defs: object }
  t.same(Object.keys(schema.properties), ['__proto__', 'b'])
  t.same(schema.$defs, { schema: { type: 'integer' } })
  t.equal(({} as { type?: unknown }).type, undefined)
  t.end()
})

t.test('paths that would lead elsewhere than they say are left out', (t) => {
  const paths = ['/a/../../admin', '/a/%2E%2e/b', '/a?b=1', '/a#b', '/a\\b', 'a', '/.']
  const { drafts, leftOut } = read(documentOf(Object.fromEntries(paths.map((path) => [path, { get: {} }]))))
  t.same(drafts, [])
  t.same(leftOut.length, paths.length)
  const [host] = read(documentOf({ '//evil.test/x': { get: {} } })).drafts
  t.equal(host?.url, 'https://api.example.com//evil.test/x', 'the host is the server’s')
  t.end()
})

const naughty = [
  '',
  ' ',
  '\0',
  '\ud800',
  '\u202eabc',
  '\u200b',
  '👩‍👩‍👧',
  '<script>',
  '__proto__',
  '~1~0',
  '{',
  '}',
  '{a}/{b}',
  '%',
  '..',
]

t.test('whatever is written in a document, it is read or refused in words', (t) => {
  for (const word of [...naughty, ...(readCorpus('blns.json') ?? [])]) {
    const text = {
      operationId: word,
      summary: word,
      description: word,
      tags: [word],
      'x-price': word,
    }
    const schema = { title: word, properties: { [word]: { type: word, $ref: word } } }
    const parameters = [
      { name: word, in: 'query', schema },
      { name: word, in: word },
    ]
    const { drafts, leftOut } = read(
      documentOf(
        {
          '/a': {
            get: text,
            post: { ...text, ...posting({ title: word }).post, 'x-price': 1, parameters: [] },
          },
          [`/${word}`]: { get: { parameters } },
        },
        { info: { title: word, description: word } },
      ),
      { price: undefined },
    )
    t.ok(drafts.length + leftOut.length >= 3, word)
    for (const { title, description, slug, tags } of drafts) {
      t.ok(title.length > 0 && [...title].length <= 200 && [...description].length <= 500)
      t.match(slug, /^[a-z0-9-]{3,64}$/)
      t.ok(tags.every((tag) => /^[a-z0-9][a-z0-9-]{0,31}$/.test(tag)))
    }
  }
  const odd = [
    null,
    0,
    'x',
    [],
    {},
    [null],
    { get: null },
    { get: [] },
    { get: { parameters: [null, 1], responses: [], tags: 5, requestBody: 'x' } },
  ]
  for (const one of odd)
    for (const document of [
      documentOf({ '/a': one }),
      documentOf({ '/b': { get: {} } }, { info: one, servers: one, components: one }),
    ])
      t.doesNotThrow(() => {
        try {
          read(document)
        } catch (error) {
          if ((error as Error).name !== 'ImportRefusal') throw error
        }
      }, JSON.stringify(one))
  t.end()
})

t.test('a store that sends many documents waits for its own, and others do not', async (t) => {
  const f = await startAdmin(t)
  const [many, one] = [await f.store(), await f.store()]
  const body = { document: petsAt(server), price: '0', dryRun: true }
  const send = (key: string) => f.call('POST', '/api/v1/links/import', { key, body })
  const order: string[] = []
  const all = Array.from({ length: 6 }, async () => {
    const { status, headers } = await send(many.key)
    order.push(`many ${status}`)
    if (status === 429) t.match(headers['retry-after'], /^[1-9]\d*$/)
  })
  const other = send(one.key).then(({ status }) => order.push(`one ${status}`))
  await Promise.all([...all, other])
  t.equal(order.filter((lines) => lines === 'many 429').length, 2)
  t.equal(order.filter((lines) => lines === 'many 200').length, 4)
  t.ok(order.indexOf('one 200') < order.lastIndexOf('many 200') - 1, order.join(', '))
})

t.test(
  'by the route: what is refused is a 400 that names the field, and others are answered meanwhile',
  async (t) => {
    const f = await startAdmin(t)
    const { key } = await f.store()
    const send = (body: object) => f.call('POST', '/api/v1/links/import', { key, body })
    for (const document of [laughs(), 'swagger: "2.0"', {}, { openapi: '3.1.0' }])
      t.match(await send({ document, price: '0', server }), {
        status: 400,
        body: { error: { code: 'VALIDATION_ERROR', details: [{ path: 'document' }] } },
      })
    for (const wrong of [
      {},
      { document: 1 },
      { document: 'x', price: 1 },
      { document: 'x', prices: { a: '-1' } },
      { document: 'x', offset: -1 },
      { document: 'x', source: 'Ä' },
      { document: 'x', asOne: true },
    ])
      t.equal((await send(wrong)).status, 400, JSON.stringify(wrong))

    const rows = Array.from(
      { length: 900 },
      (_, i) => `  /p${i}:\n    get: { summary: ${'x'.repeat(1_000)} }`,
    )
    const large = `openapi: 3.1.0\npaths:\n${rows.join('\n')}`
    const importing = send({
      document: large,
      price: '0.01',
      server: 'https://api.example.com',
      dryRun: true,
    })
    let answered = 0
    let isDone = false
    void importing.then(() => {
      isDone = true
    })
    while (!isDone) {
      await f.call('GET', '/api/v1/links', { key })
      answered++
      await new Promise(setImmediate)
    }
    t.equal((await importing).status, 200)
    t.ok(answered > 1, `${answered} requests were answered meanwhile`)
    const hidden = petsAt('http://127.0.0.1:9').replace(
      'name: { type: string, example: Rex }',
      'name: { type: string, example: "a\u202eb" }',
    )
    const { body } = await send({ document: hidden, price: '0', dryRun: true })
    t.match(
      body.data.operations.find((one: { operation: string }) => one.operation === 'POST /pets'),
      {
        ...{ action: 'failed', reason: /U\+202E/ },
      },
    )
  },
)

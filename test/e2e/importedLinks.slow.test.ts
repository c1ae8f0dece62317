import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { newBuyer, read } from './helpers/buyers.ts'
import { runTollgate } from './helpers/child.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t)
const { chains, url, api, store } = product
const example = join(import.meta.dirname, '../../examples/openapi/openapi.yaml')

async function tollgate(...args: readonly string[]) {
  const env = { TOLLGATE_API_KEY: store.apiKey }
  const { code, stdout, stderr } = await runTollgate(t, [...args, '--gateway', url], env).exited
  const lines = stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
  return { code, stderr, lines }
}

const importing = (...more: readonly string[]) =>
  tollgate('link', 'import', example, '--server', api.url, '--price', '0.01', '--public', ...more)

// biome-ignore lint/suspicious/noExplicitAny: documents of every shape
const json = async (path: string): Promise<any> => (await fetch(url + path)).json()

const actions = (lines: { operation: string; action: string }[]) =>
  Object.fromEntries(lines.map(({ operation, action }) => [operation, action]))

t.test('a document becomes links that are sold as it says', async (t) => {
  const dry = await importing('--dry-run')
  t.equal(dry.code, 0, dry.stderr)
  t.strictSame((await tollgate('link', 'list')).lines, [])
  const made = await importing()
  t.equal(made.code, 0, made.stderr)
  t.strictSame(actions(made.lines), actions(dry.lines))
  t.strictSame(actions(made.lines), {
    'GET /forecast': 'create',
    'GET /stations/{stationId}': 'create',
    'POST /maps': 'create',
    'GET /status': 'create',
  })
  const listed = (await tollgate('link', 'list')).lines
  t.strictSame(listed.map(({ slug, price }) => [slug, price]).sort(), [
    ['get-forecast', '0.01'],
    ['get-station', '0.01'],
    ['get-status', '0'],
    ['render-map', '0.05'],
  ])

  const call = (path: string, method = 'GET') => fetch(`${url}/api/link/alice/${path}`, { method })
  for (const [path, method, amount] of [
    ['get-forecast?city=Lisbon', 'GET', '10000'],
    ['get-station/17?', 'GET', '10000'],
    ['render-map', 'POST', '50000'],
  ] as const) {
    const response = await call(path, method)
    t.equal(response.status, 402, path)
    t.match(await response.json(), { accepts: [{ amount }] })
  }
  t.equal((await call('get-status')).status, 200, 'a free one')
  t.equal((await call('render-map')).status, 405, 'a method that the operation has not')

  const buyer = await newBuyer(chains, chains.both[0])
  const bought = await read(await buyer.fetchV2(`${url}/api/link/alice/get-station/17?unit=c`))
  t.match(bought, { status: 200, body: { data: { target: '/stations/17?unit=c' } } })
})

t.test('the store’s OpenAPI document says how the links are called', async (t) => {
  const document = await json('/alice/openapi.json')
  t.match(document.paths['/api/link/alice/get-forecast'].get, {
    parameters: [
      { name: 'city', in: 'query', required: true, schema: { type: 'string' } },
      { name: 'days', in: 'query', required: false },
    ],
    responses: { 200: { content: { 'application/json': { example: { data: { city: 'Lisbon' } } } } } },
  })
  t.match(document.paths['/api/link/alice/get-station/{stationId}'].get, {
    parameters: [{ name: 'stationId', in: 'path', required: true, schema: { type: 'string' } }],
  })
  const { schema } = document.paths['/api/link/alice/render-map'].post.requestBody.content['application/json']
  t.match(schema, { required: ['area'], $defs: { Area: { required: ['north', 'west'] } } })
  const [, ...parts] = (schema.properties.area.$ref as string).split('/')
  const area = parts.reduce(
    (at, part) => at[decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')],
    document,
  )
  t.match(area, { required: ['north', 'west'] }, 'the reference leads to it')

  const offer = await json('/api/link/alice/get-forecast')
  t.match(offer.extensions.bazaar.info, { input: { queryParams: { city: 'Lisbon', days: 3 } } })
})

t.test('a later version of the document changes what it changes, and says what is gone', async (t) => {
  const file = join(t.testdir(), 'later.yaml')
  const text = readFileSync(example, 'utf8')
  writeFileSync(
    file,
    text.replace('Forecast of a city', 'Forecast').replace(/ {2}\/status:[\s\S]*?(?=components:)/, ''),
  )
  const again = await importing()
  t.strictSame([...new Set(again.lines.map(({ action }) => action))], ['keep'])
  const { lines, code } = await tollgate(
    ...['link', 'import', file, '--server', api.url, '--price', '0.01'],
    ...['--price', 'renderMap=0.06'],
  )
  t.equal(code, 0)
  t.match(lines, [
    { operation: 'GET /forecast', action: 'change', changes: ['title'] },
    { operation: 'GET /stations/{stationId}', action: 'keep' },
    { operation: 'POST /maps', action: 'change', changes: ['price'], price: '0.06' },
    { operation: 'GET /status', action: 'gone', slug: 'get-status' },
  ])
  t.equal((await tollgate('link', 'list')).lines.length, 4)
})

t.test('all links are listed, however many pages they are, or those that are looked for', async (t) => {
  const paths = Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`/part/${i}`, { get: {} }]))
  const file = join(t.testdir(), 'many.json')
  writeFileSync(file, JSON.stringify({ openapi: '3.1.0', info: { title: 'Many' }, paths }))
  const made = await tollgate('link', 'import', file, '--server', api.url, '--price', '0')
  t.equal(made.code, 0, made.stderr)
  const { lines } = await tollgate('link', 'list')
  t.equal(lines.length, 105)
  t.equal(new Set(lines.map(({ slug }) => slug)).size, 105)
  const slugs = (await tollgate('link', 'list', '--search', 'render MAP', '--state', 'public')).lines
  t.match(slugs, [{ slug: 'render-map' }])
  t.strictSame((await tollgate('link', 'list', '--state', 'suspended')).lines, [])
})

t.test('what cannot be imported says what to do', async (t) => {
  for (const [args, words] of [
    [['none.yaml'], /does not exist/],
    [[example, '--price', '1', '--price', '2'], /one price without a rule/],
    [[example, '--header', 'secret'], /X-Key: value/],
    [[example, '--price', 'getForcast=1'], /matches no operation.*getForecast/],
    [[example, '--as', 'two'], /Expected one of "each", "one"/],
  ] as const) {
    const { code, stderr } = await tollgate('link', 'import', ...args)
    t.not(code, 0)
    t.match(stderr, words)
    t.notMatch(stderr, /secret/)
  }
})

t.test('a link is changed by what is named, and deleted, by slug or id of the link', async (t) => {
  const added = await tollgate('link', 'add', api.url, '--title', 'To change', '--slug', 'to-change')
  t.equal(added.code, 0, added.stderr)
  const changed = await tollgate(
    ...['link', 'set', 'to-change', '--title', 'Changed', '--method', 'get', '--public', '--slug', 'changed'],
  )
  t.equal(changed.code, 0, changed.stderr)
  t.match(changed.lines, [
    { title: 'Changed', slug: 'changed', methods: ['GET'], isPublic: true, price: '0' },
  ])
  const { id } = changed.lines[0]
  const again = await tollgate('link', 'update', id, '--method', 'all', '--no-public', '--price', '0.02')
  t.match(again.lines, [{ title: 'Changed', methods: { length: 0 }, isPublic: false, price: '0.02' }])

  const none = await tollgate('link', 'set', 'changed')
  t.match([none.code, none.stderr], [2, /at least one field to change/])
  const unknown = await tollgate('link', 'delete', 'nothing-here')
  t.match([unknown.code, unknown.stderr], [2, /slug or id of a link, got nothing-here/])
  const refused = await tollgate('link', 'set', 'changed', '--price', 'free')
  t.match([refused.code, refused.stderr], [1, /price: Expected a decimal string/])

  const deleted = await tollgate('link', 'delete', 'changed')
  t.match([deleted.code, deleted.lines], [0, [{ id, slug: 'changed' }]])
  t.equal((await fetch(`${url}/api/link/alice/changed`)).status, 404)
  t.strictSame(
    (await tollgate('link', 'list')).lines.filter(({ slug }) => slug === 'changed'),
    [],
  )
})

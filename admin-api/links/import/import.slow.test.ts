import t, { type Test } from 'tap'
import { petsAt } from '../../../test/helpers/admin-api/links/import/pets.ts'
import { startAdmin } from '../../../test/helpers/admin-api/startAdmin.ts'

async function setUp(t: Test, overrides: Parameters<typeof startAdmin>[1] = {}) {
  const requests: string[] = []
  const f = await startAdmin(t, overrides)
  const { key, username } = await f.store()
  const at = await f.seller((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    if (request.url!.includes('slow')) f.clock.nowMs += 3_000
    response.statusCode = request.url!.includes('broken') ? 503 : 200
    response.end('{}')
  })
  const base = new URL(at).origin
  const send = async (body: object) => {
    const response = await f.call('POST', '/api/v1/links/import', { key, body })
    return { ...response, operations: response.body.data?.operations as Record<string, unknown>[] }
  }
  const links = async () =>
    (await f.call('GET', '/api/v1/links', { key })).body.data.links as Record<string, unknown>[]
  return { f, key, username, base, requests, send, links, document: petsAt(base) }
}

const actions = (operations: Record<string, unknown>[]) =>
  Object.fromEntries(operations.map((one) => [one['operation'], one['action']]))

t.test('an operation becomes a link with its address, price, input, example and tags', async (t) => {
  const { send, links, document, base, requests } = await setUp(t)
  const { status, operations, text } = await send({ document, price: '0.01' })
  t.equal(status, 200, text)
  t.same(actions(operations), {
    'GET /pets': 'create',
    'POST /pets': 'create',
    'GET /pets/{petId}': 'create',
    'DELETE /pets/{petId}': 'left_out',
    'TRACE /admin': 'left_out',
  })
  t.match(
    operations.find((one) => one['operation'] === 'DELETE /pets/{petId}'),
    { reason: /deprecated/ },
  )
  const made = await links()
  t.equal(made.length, 3)
  const bySlug = Object.fromEntries(made.map((link) => [link['slug'], link]))
  t.same(Object.keys(bySlug).sort(), ['add-pet', 'get-pet', 'list-pets'])
  t.match(bySlug['list-pets'], {
    url: `${base}/v1/pets`,
    title: 'List the pets',
    description: 'All of them.',
    price: '0.01',
    methods: ['GET'],
    tags: ['pet-store', 'animals'],
    outputExample: [{ id: 1, name: 'Rex' }],
  })
  t.same(bySlug['list-pets']!['inputSchema'], {
    type: 'object',
    properties: { limit: { type: ['integer', 'null'], exclusiveMaximum: 100, description: 'How many.' } },
  })
  const definitions = {
    Pet: {
      type: 'object',
      required: ['name'],
      properties: {
        name: { type: 'string', examples: ['Rex'] },
        parent: { $ref: '#/$defs/Pet' },
        owner: { $ref: '#/$defs/Owner' },
      },
    },
    Owner: { type: 'object', properties: { $ref: { type: 'string' }, example: { type: 'string' } } },
  }
  t.same(bySlug['add-pet']!['inputSchema'], {
    ...definitions.Pet,
    $defs: definitions,
    'x-parameters': [{ name: 'dryRun', in: 'query', required: false, schema: { type: 'boolean' } }],
  })
  t.match(bySlug['add-pet'], { price: '0.05', methods: ['POST'], outputExample: { name: 'Rex' } })
  t.match(bySlug['get-pet'], {
    url: `${base}/v1/pets`,
    description: 'Call it with /{petId} appended to the URL.',
    inputSchema: {
      'x-path': '/{petId}',
      'x-parameters': [{ name: 'petId', in: 'path', required: true, schema: { type: 'integer' } }],
    },
  })
  t.equal(requests.length, 3, 'a health check for each paid link')
})

t.test('a dry run says the same and does nothing', async (t) => {
  const { send, links, document, requests } = await setUp(t)
  const dry = await send({ document, price: '0.01', dryRun: true })
  t.match(dry.body.data, { dryRun: true, source: 'pet-store', nextOffset: null })
  t.same(await links(), [])
  t.same(requests, [])
  const real = await send({ document, price: '0.01' })
  t.same(actions(real.operations), actions(dry.operations))
  t.same(actions((await send({ document, price: '0.01', dryRun: true })).operations)['GET /pets'], 'keep')
})

t.test(
  'the same document again makes nothing; a changed one changes what changed, and what is gone stays',
  async (t) => {
    const { send, links, document, requests } = await setUp(t)
    await send({ document, price: '0.010' })
    const before = await links()
    requests.length = 0
    const again = await send({ document, price: '0.01' })
    t.same(new Set(again.operations.map((one) => one['action'])), new Set(['keep', 'left_out']))
    t.same(await links(), before)
    t.same(requests, [])

    const changed = document
      .replace('summary: List the pets', 'summary: List all pets')
      .replace('  /pets/{petId}:', '  /animals/{petId}:')
      .replace('      operationId: addPet\n', '')
    const { operations } = await send({ document: changed, price: '0.02', prices: { getPet: '0.03' } })
    const of = (operation: string) => operations.find((one) => one['operation'] === operation)
    t.match(of('GET /pets'), { action: 'change', changes: ['title', 'price'] })
    t.match(
      of('GET /animals/{petId}'),
      { action: 'change', slug: 'get-pet', price: '0.03' },
      'known by its id',
    )
    t.match(
      of('POST /pets'),
      { action: 'change', slug: 'add-pet', changes: ['operation'] },
      'known by its path',
    )
    t.equal((await links()).length, 3)

    const less = changed.replace(/ {2}\/animals\/\{petId\}:[\s\S]*(?= {2}\/admin)/, '')
    const last = await send({ document: less, price: '0.02' })
    t.match(
      last.operations.filter((one) => one['action'] === 'gone'),
      [{ operation: 'GET /animals/{petId}', slug: 'get-pet' }],
    )
    t.equal((await links()).length, 3)
  },
)

t.test('what the seller deleted is made anew, what he renamed keeps its name', async (t) => {
  const { f, key, send, links, document } = await setUp(t)
  await send({ document, price: '0.01' })
  const [one, two] = (await links()) as [{ id: string }, { id: string }]
  await f.call('DELETE', `/api/v1/links/${one.id}`, { key })
  await f.call('PATCH', `/api/v1/links/${two.id}`, { key, body: { slug: 'my-own' } })
  const { operations } = await send({ document, price: '0.01' })
  t.equal(operations.filter(({ action }) => action === 'create').length, 1)
  t.ok((await links()).some(({ slug }) => slug === 'my-own'))
  t.equal((await links()).length, 3)
})

t.test('three imports at once make each link once', async (t) => {
  const { send, links, document } = await setUp(t)
  const all = await Promise.all([1, 2, 3].map(() => send({ document, price: '0.01' })))
  t.strictSame([...new Set(all.map(({ status }) => status))], [200])
  t.equal((await links()).length, 3)
  const again = await send({ document, price: '0.01' })
  t.same(new Set(again.operations.map((one) => one['action'])), new Set(['keep', 'left_out']))
})

t.test('one operation that fails says why, and stops no other; a repeat goes on', async (t) => {
  const { send, links, document } = await setUp(t)
  const broken = document.replace('  /pets/{petId}:', '  /broken/{petId}:')
  const { operations } = await send({ document: broken, price: '0.01' })
  t.match(
    operations.find((one) => one['operation'] === 'GET /broken/{petId}'),
    {
      action: 'failed',
      linkId: null,
      reason: /status 503/,
    },
  )
  t.equal((await links()).length, 2)
  const free = await send({ document: broken, prices: { getPet: '0' }, price: '0.01' })
  t.same(actions(free.operations)['GET /broken/{petId}'], 'create')
  t.equal((await links()).length, 3)
})

t.test('what takes longer than clients wait goes on in the next request, from where it was', async (t) => {
  const { send, links, base, requests: upstreamRequests } = await setUp(t)
  const paths = Object.fromEntries(Array.from({ length: 7 }, (_, i) => [`/slow/${i}`, { get: {} }]))
  const document = { openapi: '3.1.0', info: { title: 'Slow' }, servers: [{ url: base }], paths }
  const done: string[] = []
  let requests = 0
  let offset: number | null = 0
  for (; offset !== null; requests++) {
    const { body, operations } = await send({ document, price: '0.01', offset })
    t.ok(operations.length > 0, 'each request does something')
    done.push(...operations.map((one) => `${one['action']} ${one['operation']}`))
    offset = body.data.nextOffset as number | null
  }
  t.ok(requests > 1, `${requests} requests`)
  t.same(
    done,
    Array.from({ length: 7 }, (_, i) => `create GET /slow/${i}`),
  )
  t.equal((await links()).length, 7)
  t.equal(upstreamRequests.length, 7)
  const past = await send({ document, price: '0.01', offset: 99 })
  t.match(past.body.data, { operations: { length: 0 }, nextOffset: null })
})

t.test(
  'an import looks at each operation in a turn of its own, so that others are answered meanwhile',
  async (t) => {
    const { f, send, base } = await setUp(t)
    const paths = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`/op/${i}`, { get: {} }]))
    const document = { openapi: '3.1.0', info: { title: 'Many' }, servers: [{ url: base }], paths }
    await send({ document, price: '0' })
    const { find } = f.db.links
    let turn = 0
    let isOver = false
    const count = () => {
      turn++
      if (!isOver) setImmediate(count)
    }
    count()
    for (const dryRun of [true, false]) {
      const turns: number[] = []
      const events: string[] = []
      f.db.links.find = (id) => {
        turns.push(turn)
        events.push('looked')
        if (turns.length === 1) void f.call('GET', '/api/discover').then(() => events.push('answered'))
        return find(id)
      }
      const { operations } = await send({ document, price: '0', dryRun })
      t.strictSame([...new Set(operations.map(({ action }) => action))], ['keep'])
      t.equal(turns.length, 40)
      const most = Math.max(...turns.map((one) => turns.filter((other) => other === one).length))
      t.ok(most <= 2, `${most} in one turn`)
      t.ok(
        events.indexOf('answered') < events.lastIndexOf('looked'),
        'the other is answered before it is done',
      )
    }
    isOver = true
  },
)

t.test('a store takes as many links as it may have; the others say so', async (t) => {
  const { send, links, document } = await setUp(t, { options: { maxLinksPerStore: 2 } })
  const dry = await send({ document, price: '0.01', dryRun: true })
  t.equal(dry.operations.filter(({ action }) => action === 'failed').length, 1)
  const { operations } = await send({ document, price: '0.01' })
  t.match(
    operations.filter(({ action }) => action === 'failed'),
    [{ reason: /2 active links/ }],
  )
  t.equal((await links()).length, 2)
})

t.test(
  'prices: a rule goes before the document, the longest before the others, and none is not for sale',
  async (t) => {
    const { send, document } = await setUp(t)
    const priced = async (body: object) => {
      const { operations } = await send({ document, dryRun: true, ...body })
      return Object.fromEntries(operations.map((one) => [one['operation'], one['price']]))
    }
    t.match(await priced({}), { 'GET /pets': null, 'POST /pets': '0.05' }, 'no price, no link')
    t.match(await priced({ price: '1' }), { 'GET /pets': '1', 'POST /pets': '0.05' })
    t.match(await priced({ prices: { '*': '2', 'post /pets': '3', '/pets/{petId}': '2' } }), {
      'GET /pets': '2',
      'POST /pets': '3',
      'GET /pets/{petId}': '2',
    })
    t.match(await priced({ price: 'none', prices: { addPet: '0.5' } }), {
      'GET /pets': null,
      'POST /pets': '0.5',
    })
    const { status, body } = await send({ document, dryRun: true, price: '1', prices: { 'POST /pet': '3' } })
    t.equal(status, 400)
    t.match(body.error.details, [
      { path: 'prices', message: /"POST \/pet" matches no operation.*"POST \/pets"/ },
    ])
  },
)

t.test('no link sells a dearer operation below its own path for less', async (t) => {
  const { send, document } = await setUp(t)
  const { operations } = await send({ document, dryRun: true, price: '0.01', prices: { getPet: '0.5' } })
  t.match(
    operations.find((one) => one['operation'] === 'GET /pets'),
    {
      action: 'left_out',
      reason: /sell GET \/pets\/\{petId\} \(0\.5\) for 0\.01/,
    },
  )
  const hidden = await send({ document, dryRun: true, price: '0.01', prices: { getPet: 'none' } })
  t.match(
    hidden.operations.find((one) => one['operation'] === 'GET /pets'),
    {
      ...{
        action: 'create',
        reason: /all paths below it, including GET \/pets\/\{petId\}, which is left out/,
      },
    },
  )
})

t.test(
  'no link of an operation with a parameter sells the dearer one at the path before it for less',
  async (t) => {
    const { send, document } = await setUp(t)
    const { operations } = await send({ document, dryRun: true, price: '0.01', prices: { listPets: '0.5' } })
    t.match(
      operations.find((one) => one['operation'] === 'GET /pets/{petId}'),
      { action: 'left_out', reason: /sell GET \/pets \(0\.5\) for 0\.01/ },
    )
    const hidden = await send({ document, dryRun: true, price: '0.01', prices: { listPets: 'none' } })
    t.match(
      hidden.operations.find((one) => one['operation'] === 'GET /pets/{petId}'),
      { action: 'create', reason: /all paths below it, including GET \/pets, which is left out/ },
    )
  },
)

t.test('a document is known again by a title in any script, and is not taken for another one', async (t) => {
  const { send, links, document } = await setUp(t)
  const titled = (title: string) => document.replace(/title: .*/, `title: ${title}`)
  const sources = new Set<string>()
  const made = (operations: Record<string, unknown>[]) =>
    new Set(operations.map((one) => one['action']).filter((action) => action !== 'left_out'))
  for (const title of ['天气', '地图', '天气 API', '地图 API', 'V']) {
    const first = await send({ document: titled(title), price: '0.01' })
    t.same(made(first.operations), new Set(['create']), title)
    const { length } = await links()
    const again = await send({ document: titled(title), price: '0.01' })
    t.same(made(again.operations), new Set(['keep']), title)
    t.equal((await links()).length, length)
    t.equal(again.body.data.source, first.body.data.source)
    t.match(first.body.data.source, /^[a-z0-9-]{3,64}$/)
    sources.add(first.body.data.source)
  }
  t.equal(sources.size, 5)
})

t.test(
  'an operation that moved keeps its link, and the one that stands in its place gets one of its own',
  async (t) => {
    const { send, links, base } = await setUp(t)
    const documentOf = (paths: object) =>
      JSON.stringify({ openapi: '3.1.0', info: { title: 'Moved' }, servers: [{ url: base }], paths })
    await send({ document: documentOf({ '/old': { get: { operationId: 'list' } } }), price: '0.01' })
    const [before] = await links()
    // Whichever of the two is written first.
    for (const paths of [
      { '/new': { get: { operationId: 'list' } }, '/old': { get: {} } },
      { '/old': { get: {} }, '/new': { get: { operationId: 'list' } } },
    ]) {
      const { operations } = await send({ document: documentOf(paths), price: '0.01' })
      t.match(
        operations.find((one) => one['operation'] === 'GET /new'),
        { linkId: before!['id'] },
      )
      const urls = (await links()).map(({ id, url }) => [url, id === before!['id']]).sort()
      t.same(urls, [
        [`${base}/new`, true],
        [`${base}/old`, false],
      ])
    }
  },
)

t.test('the whole API is one link with its sub-paths', async (t) => {
  const { send, links, document, base } = await setUp(t)
  const { operations } = await send({ document, as: 'one', price: '0.02' })
  t.match(operations, [{ operation: '*', action: 'create', slug: 'pet-store' }])
  t.match(await links(), [
    { url: `${base}/v1`, title: 'Pet store', description: 'Sells pets.', methods: ['GET', 'POST', 'DELETE'] },
  ])
  t.match((await send({ document, as: 'one', price: '0.02' })).operations, [{ action: 'keep' }])
  t.match((await send({ document, as: 'one' })).body.error.details, [{ path: 'price' }])
})

t.test('the address is the one that was chosen, and what has none says what is expected', async (t) => {
  const { send, document, base } = await setUp(t)
  const { body } = await send({ document, price: '0', server: `${base}/v2/`, dryRun: true })
  t.match(body.data, { server: `${base}/v2`, otherServers: { length: 0 } })
  const relative = document.replace(/url: .*\n.*/, 'url: /v1')
  t.match((await send({ document: relative, price: '0' })).body.error.details, [
    { path: 'server', message: /https:\/\/api\.example\.com\/v1, but got "\/v1"/ },
  ])
  for (const server of ['ftp://x.test', 'nonsense', 'http://u:p@x.test', 'http://x.test/?a=1'])
    t.equal((await send({ document, price: '0', server })).status, 400, server)
})

t.test('the key of the own API goes to every link, encrypted, and only where it is new', async (t) => {
  const { f, send, document } = await setUp(t)
  const headers = { 'X-Key': 'secret-key' }
  const { text } = await send({ document, price: '0.01', upstreamHeaders: headers })
  t.notMatch(text, /secret-key/)
  const stored = await f.db.links.allServed()
  t.ok(stored.length > 0 && stored.every((link) => link.upstreamHeadersSealed !== null))
  t.match((await send({ document, price: '0.01', upstreamHeaders: headers })).operations[0], {
    action: 'keep',
  })
  t.match(
    (await send({ document, price: '0.01' })).operations[0],
    { action: 'keep' },
    'left out is left alone',
  )
  const other = await send({ document, price: '0.01', upstreamHeaders: { 'x-key': 'another' } })
  t.match(other.operations[0], { action: 'change', changes: ['upstreamHeaders'] })
})

t.test('a store’s own links, and those of other documents, are never touched', async (t) => {
  const { f, key, send, links, document, base } = await setUp(t)
  await f.call('POST', '/api/v1/links', {
    key,
    body: { url: `${base}/v1/pets`, title: 'list pets', slug: 'list-pets' },
  })
  await send({ document, price: '0.01' })
  await send({ document, price: '0.02', source: 'another' })
  const slugs = (await links()).map(({ slug }) => slug as string)
  t.equal(slugs.length, 7)
  t.equal(new Set(slugs).size, 7)
  t.equal(slugs.filter((slug) => slug.startsWith('list-pets')).length, 3)
})

t.test('without a key nothing is read', async (t) => {
  const { f, document } = await setUp(t)
  t.equal((await f.call('POST', '/api/v1/links/import', { body: { document } })).status, 401)
})

t.test('prices that the seller has set by request stay, whatever price the document has', async (t) => {
  const { f, key, send, links, document } = await setUp(t)
  await send({ document, price: '0.01' })
  const link = (await links()).find((one) => one['slug'] === 'list-pets')!
  const price = { rules: [{ when: { query: { limit: '100' } }, price: '0.05' }], otherwise: '0.02' }
  await f.call('PATCH', `/api/v1/links/${link['id']}`, { key, body: { price } })
  for (const dryRun of [true, false]) {
    const { operations } = await send({ document, price: '0.30', dryRun })
    const kept = operations.find((one) => one['linkId'] === link['id'])
    t.match(kept, { action: 'keep', price: '0.02', reason: /keeps its prices by request/ })
  }
  t.match(await f.call('GET', `/api/v1/links/${link['id']}`, { key }), { body: { data: { price } } })
})

t.test('a table of prices in the document becomes the prices of the link, also after a change', async (t) => {
  const { f, key, send, base } = await setUp(t)
  const tableOf = (price: string) => ({
    rules: [{ when: { query: { limit: '100' } }, price }],
    otherwise: '0.02',
  })
  const documentOf = (price: unknown) =>
    JSON.stringify({
      openapi: '3.1.0',
      info: { title: 'Tables', version: '1' },
      servers: [{ url: `${base}/v1` }],
      paths: { '/pets': { get: { operationId: 'tabled', 'x-price': price } } },
    })
  const [created] = (await send({ document: documentOf(tableOf('0.05')) })).operations
  t.match(created, { action: 'create', price: '0.02', reason: /price depends on the request/ })
  const priceNow = async () =>
    (await f.call('GET', `/api/v1/links/${created!['linkId']}`, { key })).body.data.price
  t.strictSame(await priceNow(), tableOf('0.05'))
  t.match((await send({ document: documentOf(tableOf('0.05')) })).operations, [
    { action: 'keep', changes: [] },
  ])
  const [changed] = (await send({ document: documentOf(tableOf('0.07')) })).operations
  t.match(changed, { action: 'change', changes: ['price'] })
  t.strictSame(await priceNow(), tableOf('0.07'))
  t.match((await send({ document: documentOf('0.30') })).operations, [
    { action: 'keep', reason: /keeps its prices by request/ },
  ])
  t.strictSame(await priceNow(), tableOf('0.07'))
})

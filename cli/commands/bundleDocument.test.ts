import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { readDrafts } from '../../admin-api/links/import/readDrafts.ts'
import { bundleDocument } from './bundleDocument.ts'

const head =
  "openapi: 3.0.0\ninfo: { title: Split, version: '1' }\nservers: [{ url: 'https://api.example.com' }]\n"

/** Writes these files into a folder of the test, and imports `api/openapi.yaml`. */
async function importFiles(t: Test, files: Readonly<Record<string, string>>) {
  const folder = t.testdir({})
  for (const [name, text] of Object.entries(files)) {
    const file = join(folder, 'api', name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
  const entry = join(folder, 'api/openapi.yaml')
  symlinkSync('/etc/hostname', join(folder, 'api/linked.yaml'))
  const { text, unread } = await bundleDocument(entry, readFileSync(entry, 'utf8'))
  return { text, unread, ...readDrafts({ text, as: 'each', price: '0.01', prices: new Map() }) }
}

t.test(
  'operations, path items, parameters and schemas are read from files beside the document',
  async (t) => {
    const { drafts, leftOut, unread } = await importFiles(t, {
      'openapi.yaml': `${head}paths:
  /droplets:
    get: { $ref: 'resources/list.yml' }
    post: { $ref: 'resources/list.yml#/x-make', x-price: '9' }
  /images: { $ref: 'resources/images.json' }
components: { schemas: { $ref: 'all%20schemas/all.yml' } }
`,
      'resources/list.yml': `
x-base: &base { x-price: '3' }
<<: *base
operationId: list
parameters: [{ $ref: '../all%20schemas/parameters.yml#/limit' }]
x-make:
  operationId: make
  x-price: '4'
  requestBody: { content: { application/json: { schema: { $ref: '../openapi.yaml#/components/schemas/Pet' } } } }
`,
      'resources/images.json':
        '{"get":{"operationId":"images","x-price":"none"},"delete":{"deprecated":true},"put":{}}',
      'all schemas/parameters.yml': 'limit: { name: limit, in: query, schema: { type: integer } }',
      'all schemas/all.yml':
        'Pet: { type: object, properties: { name: { type: string }, parent: { $ref: "#/Pet" } } }',
    })
    t.strictSame(unread, [])
    t.strictSame(
      drafts.map(({ operation, price }) => [operation, price]),
      [
        ['GET /droplets', '3'],
        ['POST /droplets', '9'],
        ['PUT /images', '0.01'],
      ],
    )
    t.match(drafts[0]?.inputSchema, { properties: { limit: { type: 'integer' } } })
    t.match(drafts[1]?.inputSchema, {
      properties: { name: { type: 'string' }, parent: { $ref: /^#\/\$defs\// } },
    })
    t.match(leftOut, [
      { operation: 'GET /images', reason: /price is none/ },
      { operation: 'DELETE /images', reason: /deprecated/ },
    ])
  },
)

t.test(
  'nothing is read outside of the folder or from the network, and what is not read is named',
  async (t) => {
    const references = [
      'gone.yml',
      '../secret.yaml',
      '../../../../../../../etc/passwd',
      'file:///etc/passwd',
      '/etc/passwd',
      'linked.yaml',
      'http://127.0.0.1:9/x.yml',
      '//127.0.0.1:9/x.yml',
      'data:,{}',
      'broken.yml',
      'folder',
      'fine.yml#/none',
    ]
    const rows = references.map(($ref, i) => `  /a${i}: { get: { $ref: '${$ref}', x-price: '5' } }\n`)
    const { text, drafts, leftOut, unread } = await importFiles(t, {
      'openapi.yaml': `${head}paths:\n${rows.join('')}  /fine: { get: { $ref: fine.yml } }\n`,
      '../secret.yaml': 'operationId: secret',
      'broken.yml': 'a: [',
      'folder/x.yml': '{}',
      'fine.yml': 'operationId: fine',
    })
    t.strictSame(
      drafts.map(({ operation }) => operation),
      ['GET /fine'],
    )
    t.equal(leftOut.length, references.length)
    t.ok(leftOut.every(({ reason }) => /points outside the document/.test(reason)))
    t.notMatch(text, /secret"|root:/)
    t.match(unread.join('\n'), /The file .*gone\.yml does not exist/)
    t.match(unread.join('\n'), /secret\.yaml is outside the document's folder/)
    t.match(unread.join('\n'), /linked\.yaml is outside/)
    t.match(unread.join('\n'), /127\.0\.0\.1:9\/x\.yml is not a file, and nothing is fetched/)
    t.match(unread.join('\n'), /broken\.yml.*Line 1/)
    t.match(unread.join('\n'), /folder is not a file/)
  },
)

t.test('a document of one file is sent as it is, and one that can not be read says where', async (t) => {
  const text = `${head}paths: { /a: { get: { parameters: [{ $ref: '#/components/parameters/a' }] } } }\n`
  const folder = t.testdir({ 'one.yaml': text, 'bad.yaml': '$ref: other.yaml\n a: [' })
  t.strictSame(await bundleDocument(join(folder, 'one.yaml'), text), { text, unread: [] })
  await t.rejects(bundleDocument(join(folder, 'bad.yaml'), '$ref: other.yaml\n a: ['), {
    name: 'UsageError',
    message: /OpenAPI document in .*bad\.yaml.*Line 2/,
  })
})

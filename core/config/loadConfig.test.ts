import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { stringify } from 'yaml'
import type { OptionsSchema } from '../plugin/options.ts'
import { isConfigError } from './check/problem.ts'
import { loadConfig, parseConfig } from './loadConfig.ts'
import { escapeInterpolation } from './read/interpolate.ts'
import { segmentsOf, valueAt } from './read/pointer.ts'

const echo = {
  type: 'object',
  additionalProperties: false,
  properties: {
    text: { type: 'string', default: '', description: 'Any text.' },
    file: { type: 'string', format: 'path', description: 'A file.' },
    count: { type: 'integer', default: 3, description: 'A number.' },
  },
} as const satisfies OptionsSchema

const plugins = { load: (name: string) => ({ name, options: echo as OptionsSchema }) }
const parse = (text: string, env = {}, file = 'tollgate.yaml') => parseConfig(text, { file, env, plugins })

async function problemsOf(promise: Promise<unknown>) {
  try {
    await promise
  } catch (error) {
    if (isConfigError(error)) return error.problems
    throw error
  }
  throw new Error('expected a ConfigError')
}

t.test(
  'the plugins of a configuration are checked each in a turn of its own, so that a reload holds nobody up',
  async (t) => {
    let turn = 0
    let isOver = false
    const count = () => {
      turn++
      if (!isOver) setImmediate(count)
    }
    count()
    const turns: number[] = []
    const load = (name: string) => {
      turns.push(turn)
      return { name, options: structuredClone(echo) as OptionsSchema }
    }
    const text = stringify({
      publicUrl: 'http://localhost',
      plugins: Array.from({ length: 9 }, (_, i) => ({ use: `echo-${i}` })),
    })
    const readIn = turn
    await parseConfig(text, { file: 'tollgate.yaml', env: {}, plugins: { load } })
    isOver = true
    t.equal(new Set([readIn, ...turns]).size, 10, 'none in the turn that parsed the text')
  },
)

t.test(
  'options are checked by the schema of their own plugin, whatever other schemas were called or had wrong',
  async (t) => {
    const schemaOf = (type: string) => ({
      $id: 'https://example.test/options',
      type: 'object',
      additionalProperties: false,
      properties: { value: { type, description: 'A value.' } },
    })
    const problemsFor = async (type: string, value: unknown) => {
      const text = stringify({ publicUrl: 'http://localhost', plugins: [{ use: 'one', with: { value } }] })
      const load = (name: string) => ({ name, options: schemaOf(type) as unknown as OptionsSchema })
      const parsed = parseConfig(text, { file: 'tollgate.yaml', env: {}, plugins: { load } })
      return parsed.then(
        () => 'holds',
        (error: unknown) => (isConfigError(error) ? 'refused' : 'failed'),
      )
    }
    t.equal(await problemsFor('integer', 1), 'holds')
    t.equal(await problemsFor('no type', 1), 'refused', 'a schema that is none')
    t.equal(await problemsFor('string', 1), 'refused')
    t.equal(await problemsFor('string', 'text'), 'holds')
    t.equal(await problemsFor('integer', 'text'), 'refused')
  },
)

t.test('any text can be written as a value and comes out as it went in', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'grapheme' }), async (text) => {
      const yaml = stringify({
        publicUrl: 'http://localhost',
        plugins: [{ use: 'echo', with: { text: escapeInterpolation(text) } }],
      })
      const { plugins: loaded } = await parse(yaml)
      return loaded[0]!.options['text'] === text
    }),
    { numRuns: 50 },
  )
  t.pass('every text survived')
})

const corpus = join(import.meta.dirname, '../../../shared/corpora/blns.json')
t.test(
  'a naughty string, as a value or as the whole file, never does worse than a ConfigError',
  { skip: existsSync(corpus) ? false : 'the corpus is not here' },
  async (t) => {
    const strings: string[] = JSON.parse(readFileSync(corpus, 'utf8'))
    t.ok(strings.length > 100)
    const settled = strings.flatMap((text) => [
      parse(text),
      parse(text, {}, 'tollgate.json'),
      parse(`publicUrl: ${text}\ngateway: { ${text}: ${text} }\n`),
      parse(
        JSON.stringify({
          publicUrl: text,
          [text]: text,
          networks: { [text]: text },
          counters: { use: text },
        }),
      ),
      parse(`publicUrl: \${X}\nplugins: [{ use: "\${X}", with: { text: "\${X}" } }]`, { X: text }),
    ])
    const results = await Promise.allSettled(settled)
    const failures = results.filter((result) => result.status === 'rejected').map((result) => result.reason)
    t.ok(failures.length > 100, 'most are refused')
    t.strictSame(
      failures.filter((error) => !isConfigError(error)),
      [],
    )
  },
)

t.test('problems are in the order of the file, and each points into it', async (t) => {
  const text =
    'publicUrl: https://a.example\ngateway:\n  prt: 1\nlog: { level: loud }\ncounters: { ues: redis }\n'
  const problems = await problemsOf(parse(text))
  t.strictSame(
    problems.filter((p) => p.severity === 'error').map(({ path, line, column }) => [path, line, column]),
    [
      ['gateway.prt', 3, 3],
      ['log.level', 4, 15],
      ['counters.ues', 5, 13],
    ],
  )
})

t.test('relative paths are relative to the file, in defaults and in plugin options too', async (t) => {
  const dir = t.testdir({})
  const file = join(dir, 'tollgate.yaml')
  writeFileSync(
    file,
    'publicUrl: https://a.example\nstorage: { path: db/x.db }\nplugins: [{ use: echo, with: { file: ../y } }]\n',
  )
  const { config, plugins: loaded } = await loadConfig(file, { env: {}, plugins })
  t.equal(config.storage.path, join(dir, 'db/x.db'))
  t.equal(config.secretFile, join(dir, 'data/secret'))
  t.equal(loaded[0]!.options['file'], join(dir, '../y'))
  t.equal(loaded[0]!.options['count'], 3, 'the default of the plugin is filled in')
  t.equal(config.plugins[0]!.with, loaded[0]!.options)
})

t.test('a file that can not be read is a problem of that file', async (t) => {
  const dir = t.testdir({ 'binary.yaml': Buffer.from([0x61, 0x3a, 0xff, 0xfe]) })
  const options = { env: {}, plugins }
  t.match(await problemsOf(loadConfig(join(dir, 'none.yaml'), options)), [
    { message: /no such file/, line: 0 },
  ])
  t.match(await problemsOf(loadConfig(join(dir, 'binary.yaml'), options)), [{ message: /not UTF-8/ }])
  t.match(await problemsOf(loadConfig(dir, options)), [{ message: /folder/ }])
})

t.test('a file that is too large or nested too deep is refused in words', async (t) => {
  t.match(await problemsOf(parse(`# ${'x'.repeat(1_000_001)}`)), [{ message: /larger than/ }])
  t.match(await problemsOf(parse('['.repeat(100_000))), [{ severity: 'error' }])
  t.match(await problemsOf(parse(`a: ${'['.repeat(60)}${']'.repeat(60)}`)), [{ message: /nested/ }])
  t.match(await problemsOf(parse(`a: [${'1,'.repeat(30_000)}1]`)), [{ message: /more than 20000 values/ }])
  const aliases = `a: &a 1\nb: [${'*a,'.repeat(2_000)}*a]`
  t.match(await problemsOf(parse(aliases)), [{ message: /more than 1000 aliases/ }])
  const asKeys = `a: &a 1\nb:\n${'  *a : 1\n'.repeat(2_000)}`
  t.match((await problemsOf(parse(asKeys))).at(-1), { message: /more than 1000 aliases/ })
})

t.test('a key that occurs twice is named, among very many keys too', async (t) => {
  const errors = async (text: string) =>
    (await problemsOf(parse(text))).filter(({ severity }) => severity === 'error')
  const few = await errors('publicUrl: https://a.example\nlog: {}\nlog: {}\n')
  t.match(few, [{ path: 'log', line: 3, message: /"log" occurs twice/ }])
  const many = Array.from({ length: 100_000 }, (_, i) => `k${i}: 1\n`).join('')
  const found = (await errors(`${many}k0: 1\n`)).map(({ line, message }) => [line, message])
  t.match(found[0], [20_000, /more than 20000 values/])
  t.match(found[1], [100_001, /"k0" occurs twice/])
  t.ok(found.length < 4)
})

t.test('an alias leads to the last value with its anchor before it', async (t) => {
  const lines = ['publicUrl: https://a.example', 'serviceName: &x One', 'metadataField: &x two']
  const { config } = await parse([...lines, 'secretFile: *x', 'storage: { path: *x }'].join('\n'))
  t.equal(config.secretFile, config.storage.path)
  t.match(config.secretFile, /two$/)
  t.match(await problemsOf(parse('publicUrl: *x\nserviceName: &x One\n')), [{ message: /alias/i }])
})

t.test('a byte order mark and Windows line ends change nothing', async (t) => {
  const dir = t.testdir({
    'a.json': '\ufeff{\r\n  "publicUrl": "https://a.example",\r\n  "gatewai": 1\r\n}\r\n',
  })
  const problems = await problemsOf(loadConfig(join(dir, 'a.json'), { env: {}, plugins }))
  t.match(
    problems.find((p) => p.severity === 'error'),
    { path: 'gatewai', line: 3, column: 3 },
  )
})

t.test('a plugin whose options schema is not valid is reported at its line, not thrown', async (t) => {
  const broken = { load: (name: string) => ({ name, options: { type: 'objekt' } as never }) }
  const text = 'publicUrl: https://a.example\nplugins:\n  - use: broken\n'
  const problems = await problemsOf(parseConfig(text, { file: 'a.yaml', env: {}, plugins: broken }))
  t.match(
    problems.find((p) => p.severity === 'error'),
    { path: 'plugins[0].use', line: 3 },
  )
})

t.test('a file without a plugin list runs the defaults, and an empty list runs none', async (t) => {
  const source = { ...plugins, defaults: ['a', 'b'] }
  const used = async (text: string) => {
    const loaded = await parseConfig(`publicUrl: https://a.example\n${text}`, {
      file: 'a.yaml',
      env: {},
      plugins: source,
    })
    return loaded.plugins.map(({ plugin, options }) => [plugin.name, options['count']])
  }
  t.strictSame(await used(''), [
    ['a', 3],
    ['b', 3],
  ])
  t.strictSame(await used('plugins:'), [
    ['a', 3],
    ['b', 3],
  ])
  t.strictSame(await used('plugins: []'), [])
  t.strictSame(await used('plugins: [{ use: b }]'), [['b', 3]])
})

t.test('two loads share nothing', async (t) => {
  const text = 'publicUrl: https://a.example\nplugins: [{ use: echo }]\n'
  const [a, b] = await Promise.all([parse(text), parse(text)])
  t.strictSame(a.config, b.config)
  t.not(a.config.gateway, b.config.gateway)
  t.not(a.config.networks, b.config.networks)
  t.not(a.plugins[0]!.options, b.plugins[0]!.options)
})

t.test('a pointer leads back to the value it was made for', (t) => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.integer()), (tree) =>
      Object.keys(tree).every((key) => {
        const pointer = `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`
        return segmentsOf(pointer)[0] === key && valueAt(tree, pointer) === tree[key]
      }),
    ),
  )
  t.end()
})

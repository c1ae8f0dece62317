import { Ajv } from 'ajv'
import t from 'tap'
import { parse } from 'yaml'
import type { OptionsSchema } from '../plugin/options.ts'
import { compileSchema } from './check/validate.ts'
import { configJsonSchema } from './jsonSchema.ts'
import { configSchema } from './schema.ts'

const rateLimit = {
  type: 'object',
  additionalProperties: false,
  required: ['points'],
  description: 'Refuses a caller who asks too often.',
  properties: {
    points: { type: 'integer', minimum: 1, description: 'Requests in a window.' },
    keyBy: { enum: ['ip', 'link'], default: 'ip', description: 'Whose bucket.' },
  },
} as const satisfies OptionsSchema

const schema = configJsonSchema([{ name: 'rate-limit', options: rateLimit }])
// `type: [object, null]` beside `properties` is what editors need, and what strict mode warns about.
const validate = new Ajv({ strict: true, strictTypes: false, strictRequired: false }).compile(schema)
const accepts = (yaml: string): boolean => validate(parse(`publicUrl: https://a.example\n${yaml}`))

t.test('an editor accepts what the loader accepts', (t) => {
  for (const yaml of [
    '$schema: ./x.json',
    `gateway: { port: "\${PORT}", host: 0.0.0.0 }`,
    'gateway:\nnetworks:\nplugins:',
    `networks: { eip155:8453: { rpcUrls: ["\${A}"], facilitator: { privateKey: "\${B}" } } }`,
    'plugins: [{ use: rate-limit, with: { points: 1 } }]',
    `plugins: [{ use: rate-limit, with: { points: "\${POINTS}", keyBy: "\${KEY_BY:-ip}" } }]`,
    'plugins: [{ use: ./mine.ts, with: { anything: [1] } }, { use: other }]',
  ]) {
    t.ok(accepts(yaml), yaml)
  }
  t.end()
})

t.test('an editor underlines what the loader refuses', (t) => {
  for (const yaml of [
    'gatewai: {}',
    'gateway: { port: "80" }',
    'log: { level: loud }',
    'networks: { base: { facilitator: {} } }',
    'networks: { eip155:8453: {} }',
    'plugins: [{ with: {} }]',
    'plugins: [{ use: rate-limit }]',
    'plugins: [{ use: rate-limit, with: { points: 0 } }]',
    'plugins: [{ use: rate-limit, with: { points: 1, pionts: 1 } }]',
  ]) {
    t.notOk(accepts(yaml), yaml)
  }
  t.end()
})

t.test('every option is described, and its default is one that its own check accepts', (t) => {
  const problems = [...faults(configSchema, 'config')]
  t.strictSame(problems, [])
  t.end()
})

t.test('no time is longer than a timer waits: beyond that it ends at once', (t) => {
  t.strictSame(
    [...times(configSchema, 'config')].filter(([, maximum]) => !(maximum <= 2 ** 31 - 1)),
    [],
  )
  t.end()
})

function* times(option: Record<string, unknown>, path: string): Iterable<readonly [string, number]> {
  if (path.endsWith('Ms')) yield [path, Number(option['maximum'])]
  for (const [name, member] of Object.entries(option['properties'] ?? {}))
    yield* times(member, `${path}.${name}`)
  for (const inner of ['items', 'additionalProperties'])
    if (typeof option[inner] === 'object') yield* times(option[inner] as never, `${path}.${inner}`)
}

function* faults(option: Record<string, unknown>, path: string): Iterable<string> {
  if (!/^[A-Z`].*[.!?]$/.test(String(option['description']))) yield `${path}: describe it in a sentence`
  if ('default' in option) {
    const one = { type: 'object', additionalProperties: false, properties: { it: option } }
    if (compileSchema(one as never)({}).length > 0) yield `${path}: its default is not valid`
  }
  for (const [name, member] of Object.entries(option['properties'] ?? {}))
    yield* faults(member, `${path}.${name}`)
  for (const inner of ['items', 'additionalProperties']) {
    if (typeof option[inner] === 'object') yield* faults(option[inner] as never, `${path}.${inner}`)
  }
}

import t from 'tap'
import type { VaultApi } from '../host/createVaultApi.ts'
import { tools as toolTable } from '../operations/table.ts'
import { createMcpTools } from './createMcpServer.ts'

interface Schema {
  readonly type?: unknown
  readonly description?: string
  readonly enum?: readonly unknown[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: unknown
}
interface Listed {
  readonly name: string
  readonly inputSchema: Schema
  readonly outputSchema: Schema
}

const chains = ['solana', 'base', 'ethereum', 'base-sepolia', 'solana-devnet']
const { listed } = createMcpTools({ about: () => ({ chains }) } as unknown as VaultApi)
const tools = listed as readonly Listed[]

/** What OpenAI's strict functions, Anthropic's strict tools and Gemini's declarations all accept. */
const keywords = ['type', 'description', 'enum', 'items', 'properties', 'required', 'additionalProperties']
const types = ['string', 'number', 'integer', 'boolean', 'array', 'object']

/** A schema and all schemas in it, by their paths. */
function within(schema: Schema, at: string): readonly (readonly [string, Schema])[] {
  const inner = Object.entries(schema.properties ?? {}).flatMap(([name, one]) => within(one, `${at}.${name}`))
  return [[at, schema], ...inner, ...(schema.items === undefined ? [] : within(schema.items, `${at}[]`))]
}

const inputs = tools.flatMap(({ name, inputSchema }) => within(inputSchema, name))
const outputs = tools.flatMap(({ name, outputSchema }) => within(outputSchema, `${name} gives`))

t.test('the list of tools takes little of an agent’s memory', async (t) => {
  const response = JSON.stringify({ jsonrpc: '2.0', id: 1, result: { tools } })
  t.ok(response.length <= 12_000, `${response.length} characters`)
  t.equal(Buffer.byteLength(response) - response.length < 50, true, 'and as many bytes')
})

t.test('every schema has what strict model APIs take and nothing else', async (t) => {
  t.equal(tools.length, toolTable.length)
  for (const [at, schema] of [...inputs, ...outputs]) {
    const { type, items, enum: values } = schema
    t.ok(typeof type === 'string' && types.includes(type), `${at} has one type`)
    t.strictSame(
      Object.keys(schema).filter((keyword) => !keywords.includes(keyword)),
      [],
      `${at} has no other keyword`,
    )
    t.equal(items !== undefined, type === 'array', `${at} has items where it is a list`)
    if (values !== undefined) {
      t.equal(type, 'string', `${at} chooses among texts`)
      t.ok(values.length > 0 && values.every((one) => typeof one === 'string' && one !== ''), at)
    }
    t.equal(schema.properties !== undefined, type === 'object', `${at} says what is in it`)
  }
})

t.test('inputs are closed objects of plain fields, each required one among them', async (t) => {
  for (const { name, inputSchema } of tools) {
    const { type, properties = {}, required = [], additionalProperties } = inputSchema
    t.equal(type, 'object', name)
    t.equal(additionalProperties, false, name)
    for (const field of required) t.ok(Object.hasOwn(properties, field), `${name} ${field}`)
    for (const [field, { type }] of Object.entries(properties))
      t.not(type, 'object', `${name} ${field}: an object of any fields is given as JSON text`)
  }
})

t.test('nothing of what an operation takes is missing in its tool', async (t) => {
  for (const tool of toolTable) {
    const { inputSchema } = tools.find(({ name }) => name === tool.name)!
    t.strictSame(
      Object.keys(inputSchema.properties!),
      [
        ...Object.keys(tool.input.properties),
        ...(tool.mayAsk ? ['purpose', 'wait_seconds'] : []),
        ...(tool.mayAsk && tool.changes ? ['idempotency_key'] : []),
      ],
      tool.name,
    )
    t.strictSame(inputSchema.required ?? [], tool.input.required, tool.name)
  }
})

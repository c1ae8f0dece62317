import { Ajv } from 'ajv'
import fc from 'fast-check'
import t from 'tap'
import { inputSchemaOf } from '../mcp/toolSchemas.ts'
import { tools as toolTable } from '../operations/table.ts'
import { budgetRequest, scopeRequest, signRequest } from './agentRequests.ts'
import { agentChange, newAgentRequest } from './ownerRequests.ts'
import { request } from './request.ts'
import { text } from './schema.ts'

t.test('a misspelt field is refused and the one that was meant is named', async (t) => {
  const body = { chain: 'base', unsigned_tx: '0x', amount: 1, recipent: '0x1' }
  t.throws(() => signRequest.check(body), {
    code: 'VALIDATION_ERROR',
    message: /^recipent: Expected one of .*recipient.* Did you mean recipient\?$/,
  })
})

t.test('everything that is wrong is told at once, each with its place', async (t) => {
  t.match(problemsOf({ chain: '', amount: true, extra: 1 }), [
    { path: 'unsigned_tx', message: 'Expected this field, but it is missing.' },
    { path: 'extra' },
    { path: 'chain', message: 'Expected a string of 1 to 64 characters.' },
    { path: 'amount', message: 'Expected a number or a string.' },
  ])
})

t.test('what is no object is refused, and so are fields that only its prototype has', async (t) => {
  const named = request({ toString: text('A field.', 9) })
  for (const body of [undefined, null, [], 'scope', 7, true])
    t.throws(() => scopeRequest.check(body), { message: 'Expected a JSON object as body.' })
  t.throws(() => named.check({}), { message: 'toString: Expected this field, but it is missing.' })
  t.throws(() => scopeRequest.check({ scope: 'a', constructor: 1 }), { code: 'VALIDATION_ERROR' })
})

t.test('a thousand wrong fields are answered shortly, and nothing of them hides in the answer', async (t) => {
  const body = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`\u202e${i}`, i]))
  try {
    scopeRequest.check(body)
    t.fail('expected a refusal')
  } catch (error) {
    const { details, message } = error as { details: { path: string }[]; message: string }
    t.equal(details.length, 20)
    t.notMatch(message, /\u202e/)
    t.ok(details.every(({ path }) => !path.includes('\u202e') && path.length <= 80))
  }
})

t.test('what passes is what was given, whatever text it holds', async (t) => {
  fc.assert(
    fc.property(fc.string({ minLength: 1, maxLength: 200, unit: 'binary' }), (scope) => {
      t.equal(scopeRequest.check({ scope, agent_name: 'a', purpose: '' }).scope, scope)
    }),
    { numRuns: 50 },
  )
})

t.test('null is a field that an agent left out', async (t) => {
  const body = { chain: 'base', amount: 1 }
  const nulls = { currency: null, recipient: null, purpose: null, session_id: null, agent_name: null }
  t.strictSame({ ...budgetRequest.check({ ...body, ...nulls }) }, body)
  t.throws(() => budgetRequest.check({ ...body, amount: null }), {
    message: 'amount: Expected this field, but it is missing.',
  })
  t.throws(() => budgetRequest.check({ ...body, recipent: null }), { message: /Did you mean recipient/ })
  const agent = { name: 'a', scopes: [], requests_per_minute: null }
  t.strictSame(newAgentRequest.check(agent), agent, 'no limit')
  t.throws(
    () => agentChange.check({ suspended: null }),
    { code: 'VALIDATION_ERROR' },
    'an owner says what is meant',
  )
})

t.test("what agents of the document's own vault send has the meaning that it has there", async (t) => {
  const body = { chain: 'base', amount: 1 }
  const sent = { ...body, destination: '0x1', description: 'A book.', session_id: 'ses_1', agent_name: 'a' }
  t.match(budgetRequest.check(sent), { ...body, recipient: '0x1' })
  t.match(budgetRequest.check({ ...body, destination: '0x1', recipient: '0x1' }), { recipient: '0x1' })
  t.match(budgetRequest.check({ ...body, destination: '0x1', recipient: null }), { recipient: '0x1' })
  t.throws(() => budgetRequest.check({ ...body, destination: '0x1', recipient: '0x2' }), {
    code: 'VALIDATION_ERROR',
    message: 'destination: Expected the same value as recipient, or only one of the two.',
  })
  t.throws(() => budgetRequest.check({ ...body, destination: 7 }), {
    message: 'recipient: Expected a string of 1 to 128 characters.',
  })
  t.throws(() => scopeRequest.check({ scope: 'identity.name', destination: '0x1' }), {
    message: /^destination: Expected one of/,
  })
})

t.test('the schemas that clients of MCP see are valid, and closed', async (t) => {
  const ajv = new Ajv({ strict: true, allowUnionTypes: true })
  for (const tool of toolTable) {
    const schema = inputSchemaOf(tool, ['base', 'solana'])
    t.ok(ajv.compile(schema), tool.name)
    t.equal(schema.additionalProperties, false)
  }
})

function problemsOf(body: object): unknown {
  try {
    signRequest.check(body)
  } catch (error) {
    return (error as { details?: unknown }).details
  }
}

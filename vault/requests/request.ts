import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import { nearMiss } from '../../core/config/check/nearMiss.ts'
import { isObject, parseStrictJson } from '../../core/x402/strictJson.ts'
import { showText } from '../effects/plainWords.ts'
import { VaultError } from '../errors/error.ts'
import { type FieldTable, type ObjectSchema, object, text, type ValuesOf } from './schema.ts'

/** The input of one operation. It has a schema, and a check that the input of every transport passes. */
export interface Request<T> {
  /** The request's own fields, as shown to clients. */
  readonly schema: ObjectSchema<T>
  /** @throws `VALIDATION_ERROR` with every invalid field in `details` */
  check(input: unknown): T
}

/** A validated request. */
export type InputOf<R extends { check(input: unknown): unknown }> = ReturnType<R['check']>

/**
 * Fields that agents of the interface document send with every request. They are ignored, because the token identifies the
 * agent, and a `session_id` comes from another vault.
 */
const shared: FieldTable = {
  'agent_name?': text('Name of the agent.', 500),
  'purpose?': text("The agent's reason, in its own words."),
  'description?': text('Another name for purpose.'),
  'session_id?': text('Ignored.'),
}

/** Maximum problems per response. A body with a thousand wrong fields must not get a response of a megabyte. */
const MAX_PROBLEMS = 20

const ajv = new Ajv({
  allErrors: true,
  verbose: true,
  strict: true,
  allowUnionTypes: true,
  // Inherited properties such as `toString` do not count as fields of a body.
  ownProperties: true,
})

/**
 * A request with only these fields and the shared fields. A misspelled field is refused, because `recipent` must not become a
 * request without a recipient.
 */
export function request<P extends FieldTable>(fields: P): Request<ValuesOf<P>> {
  let validate: ValidateFunction | undefined
  return {
    schema: object(fields),
    check(input) {
      validate ??= ajv.compile(object({ ...fields, ...shared }))
      if (validate(input)) return input as ValuesOf<P>
      const problems = (validate.errors ?? []).slice(0, MAX_PROBLEMS).map(problemOf)
      const [{ path, message }] = problems as [Problem]
      throw new VaultError('VALIDATION_ERROR', path === '' ? message : `${path}: ${message}`, {
        details: problems,
      })
    },
  }
}

/**
 * The fields that define the action, in a fixed order, without null fields and without the fields for the agent and its
 * purpose. A model that repeats its request may state its purpose in other words.
 */
export const askedFields = (
  input: Readonly<Record<string, unknown>>,
): readonly (readonly [string, unknown])[] =>
  Object.entries(input)
    .filter(([name, value]) => value !== null && !Object.hasOwn(shared, `${name}?`))
    .sort(([a], [b]) => (a < b ? -1 : 1))

/** The value of a field that takes an object or its JSON text. @throws `VALIDATION_ERROR` */
export function objectIn<T extends object>(field: string, given: T | string): T {
  if (typeof given !== 'string') return given
  const read = parseStrictJson(given)
  if (read.ok && isObject(read.value)) return read.value as T
  throw new VaultError('VALIDATION_ERROR', `${field}: Expected an object, or its JSON as a string.`)
}

/**
 * A request of an agent. A null field counts as omitted, because models often fill in every field. A field may also have the
 * name that the interface document's own vault uses.
 */
export function agentRequest<P extends FieldTable>(fields: P): Request<ValuesOf<P>> {
  const { schema, check } = request(fields)
  const known: object = { ...schema.properties, ...object(shared).properties }
  return { schema, check: (sent) => check(isObject(sent) ? givenFields(sent, known) : sent) }
}

/** Other names of fields in the interface document's own vault. */
const otherNames: ReadonlyMap<string, string> = new Map([['destination', 'recipient']])

function givenFields(sent: Readonly<Record<string, unknown>>, known: object): object {
  const named = Object.entries(sent).map(([name, value]) => {
    const own = otherNames.get(name)
    return own !== undefined && Object.hasOwn(known, own)
      ? { name: own, value, sentAs: name }
      : { name, value }
  })
  const given = named.filter(({ name, value }) => value !== null || !Object.hasOwn(known, name))
  for (const { name, value, sentAs } of given)
    if (sentAs !== undefined && given.some((other) => other.name === name && other.value !== value))
      throw new VaultError(
        'VALIDATION_ERROR',
        `${sentAs}: Expected the same value as ${name}, or only one of the two.`,
      )
  return Object.fromEntries(given.map(({ name, value }) => [name, value]))
}

interface Problem {
  readonly path: string
  readonly message: string
}

function problemOf({ keyword, params, instancePath, parentSchema }: ErrorObject): Problem {
  const schema = parentSchema as Schema
  const inside = (name: string): string => (instancePath === '' ? name : `${instancePath.slice(1)}/${name}`)
  if (keyword === 'additionalProperties') {
    const name = String(params['additionalProperty'])
    const known = Object.keys(schema.properties ?? {})
    const meant = nearMiss(name, known)
    const hint = meant === undefined ? '' : ` Did you mean ${meant}?`
    return { path: pathOf(inside(name)), message: `Expected one of ${known.join(', ')}.${hint}` }
  }
  if (keyword === 'required')
    return {
      path: pathOf(inside(String(params['missingProperty']))),
      message: 'Expected this field, but it is missing.',
    }
  if (instancePath === '') return { path: '', message: 'Expected a JSON object as body.' }
  return { path: pathOf(instancePath.slice(1)), message: `Expected ${wordsOf(schema)}.` }
}

/** The name of a client's field for messages, with invisible characters escaped. */
const pathOf = (pointer: string): string => showText(pointer.replaceAll('/', '.'), 64).slice(1, -1)

interface Schema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly properties?: object
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly maxItems?: number
}

const kinds: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
}

function wordsOf(schema: Schema): string {
  const { type = [], minLength = 0, maxLength, minimum, maximum, maxItems } = schema
  if (schema.enum !== undefined) return `one of ${schema.enum.join(', ')}`
  if (type === 'string' && maxLength !== undefined)
    return `a string of ${minLength} to ${maxLength} characters`
  if (type === 'integer') return `a whole number from ${minimum} to ${maximum}`
  if (type === 'array' && maxItems !== undefined) return `a list of at most ${maxItems} entries`
  return [type]
    .flat()
    .map((name) => kinds[name] ?? name)
    .join(' or ')
}

import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import { nearMiss } from '../../core/config/check/nearMiss.ts'
import { isObject, parseStrictJson } from '../../core/x402/strictJson.ts'
import { showText } from '../effects/plainWords.ts'
import { VaultError } from '../errors/error.ts'
import { type FieldTable, type ObjectSchema, object, text, type ValuesOf } from './schema.ts'

/** What one thing that can be asked of the vault takes: its schema, and the check that every transport's input passes. */
export interface Request<T> {
  /** The request's own fields, as they are shown to clients. */
  readonly schema: ObjectSchema<T>
  /** @throws `VALIDATION_ERROR` with every field that is wrong in `details` */
  check(input: unknown): T
}

/** What passed the check of a request. */
export type InputOf<R extends { check(input: unknown): unknown }> = ReturnType<R['check']>

/**
 * What agents of the document send along with every request. Who they are is known by their token, and a session of
 * theirs is one that another vault began.
 */
const shared: FieldTable = {
  'agent_name?': text('Name of the agent.', 500),
  'purpose?': text('Why, in the words of the agent.'),
  'description?': text('The same, by its name in other vaults.'),
  'session_id?': text('Means nothing here.'),
}

/** More would help nobody, and a body of a thousand wrong fields would be answered with a megabyte. */
const MOST_PROBLEMS = 20

const ajv = new Ajv({
  allErrors: true,
  verbose: true,
  strict: true,
  allowUnionTypes: true,
  // `toString` is no field of a body that does not have it.
  ownProperties: true,
})

/**
 * A request of these fields only, a misspelt one is refused: `recipent` must not be a request without a recipient.
 * What is shared may stand in every request.
 */
export function request<P extends FieldTable>(fields: P): Request<ValuesOf<P>> {
  let validate: ValidateFunction | undefined
  return {
    schema: object(fields),
    check(input) {
      validate ??= ajv.compile(object({ ...fields, ...shared }))
      if (validate(input)) return input as ValuesOf<P>
      const problems = (validate.errors ?? []).slice(0, MOST_PROBLEMS).map(problemOf)
      const [{ path, message }] = problems as [Problem]
      throw new VaultError('VALIDATION_ERROR', path === '' ? message : `${path}: ${message}`, {
        details: problems,
      })
    },
  }
}

/**
 * The fields that say what is to be done, in one order: without those that are null, and those that say who asks and why. A model that
 * repeats its request writes its reasons in other words.
 */
export const askedFields = (
  input: Readonly<Record<string, unknown>>,
): readonly (readonly [string, unknown])[] =>
  Object.entries(input)
    .filter(([name, value]) => value !== null && !Object.hasOwn(shared, `${name}?`))
    .sort(([a], [b]) => (a < b ? -1 : 1))

/** What is in a field that takes an object or its JSON text. @throws `VALIDATION_ERROR` */
export function objectIn<T extends object>(field: string, given: T | string): T {
  if (typeof given !== 'string') return given
  const read = parseStrictJson(given)
  if (read.ok && isObject(read.value)) return read.value as T
  throw new VaultError('VALIDATION_ERROR', `${field}: Expected an object, or its JSON as a text.`)
}

/**
 * A request of an agent. A field that is null was left out, as models write it that fill in a whole form, and a field may
 * have the name that the document's own vault has for it.
 */
export function agentRequest<P extends FieldTable>(fields: P): Request<ValuesOf<P>> {
  const { schema, check } = request(fields)
  const known: object = { ...schema.properties, ...object(shared).properties }
  return { schema, check: (sent) => check(isObject(sent) ? givenFields(sent, known) : sent) }
}

/** What the document's own vault calls fields otherwise. */
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
        `${sentAs}: Expected the same as ${name}, or only one of the two.`,
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
      message: 'Expected this field, it is missing.',
    }
  if (instancePath === '') return { path: '', message: 'Expected a JSON object as body.' }
  return { path: pathOf(instancePath.slice(1)), message: `Expected ${wordsOf(schema)}.` }
}

/** A field's name as somebody else wrote it, without anything that has no plain look. */
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
  string: 'a text',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
}

function wordsOf(schema: Schema): string {
  const { type = [], minLength = 0, maxLength, minimum, maximum, maxItems } = schema
  if (schema.enum !== undefined) return `one of ${schema.enum.join(', ')}`
  if (type === 'string' && maxLength !== undefined) return `a text of ${minLength} to ${maxLength} characters`
  if (type === 'integer') return `a whole number from ${minimum} to ${maximum}`
  if (type === 'array' && maxItems !== undefined) return `a list of at most ${maxItems} entries`
  return [type]
    .flat()
    .map((name) => kinds[name] ?? name)
    .join(' or ')
}

import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import { nearMiss } from '../../core/config/check/nearMiss.ts'
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

/** What agents of the document send along with every request; who they are is known by their token. */
const shared: FieldTable = {
  'agent_name?': text('Name of the agent.', 500),
  'purpose?': text('Why, in the words of the agent.'),
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
 * `agent_name` and `purpose` may stand in every request.
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

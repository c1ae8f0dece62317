import type { ErrorObject } from 'ajv'
import { nearMiss } from '../../core/config/check/nearMiss.ts'
import { childPointer, displayPath } from '../../core/config/read/pointer.ts'
import type { ErrorDetail } from '../../core/errors/error.ts'
import { type HiddenCharacter, refusalOf } from './hiddenCharacter.ts'

/** More would not help anybody, and a body of a thousand wrong fields would answer with a megabyte. */
const MAX_DETAILS = 20
const SHOWN_CHARS = 40

/** Turns ajv's findings into details that say what was expected, what came and which field was probably meant. */
export function toDetails(errors: readonly ErrorObject[], root: unknown): ErrorDetail[] {
  return errors.slice(0, MAX_DETAILS).map((error) => toDetail(error, root))
}

function toDetail(error: ErrorObject, root: unknown): ErrorDetail {
  const at = (code: string, message: string, pointer = error.instancePath): ErrorDetail => ({
    path: displayPath(pointer, root),
    code,
    message,
  })
  const { params, data } = error
  const schema = (error.parentSchema ?? {}) as Schema
  const inside = (key: string) => childPointer(error.instancePath, shorten(key))
  switch (error.keyword) {
    case 'additionalProperties': {
      const key = String(params['additionalProperty'])
      return at('unknown_field', unknownField(key, writableFields(schema)), inside(key))
    }
    case 'required':
      return at('required', 'This field is required.', inside(String(params['missingProperty'])))
    case 'type':
      // A body that is not there is checked as null.
      if (error.instancePath === '' && data === null) {
        return at('required', `The body is missing; expected ${nameOf(schema)}.`)
      }
      return at('type', `Expected ${nameOf(schema)}, got ${kindOf(data)}.`)
    case 'enum':
      if (schema['x-hint'] !== undefined) return at('not_allowed', `Expected ${schema['x-hint']}.`)
      return at('not_allowed', notAllowed(data, schema.enum ?? []))
    case 'minLength':
    case 'maxLength':
      return at(...lengthWords(error.keyword, Number(params['limit']), [...String(data)].length))
    case 'pattern':
      return at('format', `Expected ${schema['x-hint'] ?? `text that matches ${params['pattern']}`}.`)
    case 'x-lines':
      return at('hidden_character', refusalOf(params as HiddenCharacter))
    case 'minimum':
    case 'maximum':
      return at('range', `Expected a number ${params['comparison']} ${params['limit']}.`)
    case 'maxItems':
    case 'maxProperties':
      return at('too_many', `At most ${params['limit']} entries are allowed.`)
    case 'uniqueItems':
      return at('duplicate', 'No entry may be there twice.')
    case 'propertyNames':
      return at('name', `${JSON.stringify(shorten(String(params['propertyName'])))} can not be a name here.`)
    default:
      return at(error.keyword, `The value ${error.message ?? 'is not allowed'}.`)
  }
}

interface Schema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, { readonly readOnly?: boolean }>>
  readonly 'x-hint'?: string
}

/** Nobody is led to a field that is only let pass. */
const writableFields = (schema: Schema): string[] =>
  Object.entries(schema.properties ?? {})
    .filter(([, property]) => property.readOnly !== true)
    .map(([name]) => name)

function unknownField(key: string, known: readonly string[]): string {
  const meant = nearMiss(key, known)
  if (meant !== undefined) return `Unknown field; did you mean ${JSON.stringify(meant)}?`
  return known.length === 0 ? 'Unknown field.' : `Unknown field; known are ${known.join(', ')}.`
}

function notAllowed(value: unknown, allowed: readonly unknown[]): string {
  const words = allowed.filter((v) => v !== null).map((v) => JSON.stringify(v))
  if (typeof value !== 'string') return `Expected one of ${words.join(', ')}; got ${kindOf(value)}.`
  const meant = nearMiss(
    value,
    allowed.filter((v) => typeof v === 'string'),
  )
  const hint = meant === undefined ? '' : ` Did you mean ${JSON.stringify(meant)}?`
  return `Expected one of ${words.join(', ')}; got ${JSON.stringify(shorten(value))}.${hint}`
}

function lengthWords(keyword: 'minLength' | 'maxLength', limit: number, length: number): [string, string] {
  if (keyword === 'maxLength') return ['too_long', `At most ${limit} characters are allowed, got ${length}.`]
  return [
    'too_short',
    limit === 1 ? 'Must not be empty.' : `At least ${limit} characters are needed, got ${length}.`,
  ]
}

const nameOf = (schema: Schema): string => {
  const kinds = (Array.isArray(schema.type) ? schema.type : [schema.type]) as string[]
  const words = kinds.map((kind) =>
    kind === 'object' ? 'a JSON object' : kind === 'array' ? 'a list' : `${kind}`,
  )
  const expected = words.join(' or ')
  return schema['x-hint'] === undefined ? expected : `${expected} (${schema['x-hint']})`
}

function kindOf(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  return Array.isArray(value) ? 'a list' : typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

const shorten = (text: string): string =>
  text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)}…` : text

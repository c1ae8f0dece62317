import { Ajv, type ErrorObject, type SchemaValidateFunction, type ValidateFunction } from 'ajv'
import type { FastifySchemaCompiler } from 'fastify'
import { nearMiss } from '../../core/config/check/nearMiss.ts'
import { childPointer, displayPath } from '../../core/config/read/pointer.ts'
import { type ErrorDetail, TollgateError } from '../../core/errors/error.ts'

/**
 * Creates the validators of route schemas. They convert, drop or fill in nothing in bodies, so that a misspelt field causes an
 * error and not a surprise. Query strings are text, so the validators read whole numbers in them as numbers. The handlers check
 * path parameters, because a malformed id gets a 404.
 *
 * A schema is compiled at the first request of its route, because compiling all schemas would take a tenth of the start time. This
 * function does not check the schemas against the meta-schema, because `features.test.ts` does.
 */
export function createValidators(): FastifySchemaCompiler<object> {
  const common = {
    verbose: true,
    validateFormats: false,
    validateSchema: false,
    strict: true,
    allowUnionTypes: true,
  }
  const bodies = withHints(new Ajv(common))
  // The thorough validator is created when it is first needed, because most bodies are valid.
  let thorough: Ajv | undefined
  const queries = withHints(new Ajv({ ...common, allErrors: true, useDefaults: true }))
  return ({ schema, httpPart }) => {
    if (httpPart === 'params') return () => true
    assertQuick(schema)
    let check: ValidateFunction | undefined
    if (httpPart === 'body') {
      let checkAll: ValidateFunction | undefined
      return (value: unknown) => {
        check ??= bodies.compile(schema)
        if (check(value)) return { value }
        if (!isSmall(value)) return refusal(check, value)
        thorough ??= withHints(new Ajv({ ...common, allErrors: true }))
        checkAll ??= thorough.compile(schema)
        checkAll(value)
        return refusal(checkAll, value)
      }
    }
    const integers = integerFields(schema)
    return (value: unknown) => {
      check ??= queries.compile(schema)
      readIntegers(value as Record<string, unknown>, integers)
      return check(value) ? { value } : refusal(check, value)
    }
  }
}

/**
 * Refuses a schema whose `uniqueItems` would be slow. ajv sorts entries of an ordered type, but compares entries of other types
 * pairwise. A body of a megabyte can have a hundred thousand entries, and `maxItems` does not prevent the comparison.
 *
 * @throws for a schema with which a body could block the event loop
 */
function assertQuick(schema: unknown): void {
  if (typeof schema !== 'object' || schema === null) return
  const { uniqueItems, items } = schema as { uniqueItems?: unknown; items?: { type?: unknown } }
  if (uniqueItems === true && !['string', 'integer', 'number', 'boolean'].includes(String(items?.type)))
    throw new Error(
      `Expected a list whose entries may be there once to have entries of one plain type: ${JSON.stringify(schema)}`,
    )
  for (const part of Object.values(schema)) assertQuick(part)
}

const refusal = ({ errors }: ValidateFunction, value: unknown): { error: Error } => ({
  error: validationError(toDetails(errors ?? [], value)),
})

/** If a body has more values than this, only its first problem is reported. Finding all problems would block other requests. */
const MANY_VALUES = 5_000

function isSmall(root: unknown): boolean {
  const stack = [root]
  for (let left = MANY_VALUES; stack.length > 0; left--) {
    if (left === 0) return false
    const value = stack.pop()
    if (typeof value !== 'object' || value === null) continue
    if (Array.isArray(value)) {
      if (stack.length + value.length > MANY_VALUES) return false
      stack.push(...value)
      continue
    }
    for (const key in value)
      if (stack.push((value as Record<string, unknown>)[key]) > MANY_VALUES) return false
  }
  return true
}

/** `x-hint` describes a pattern in words, such as "a decimal string such as 0.10". The OpenAPI document also shows it. */
const withHints = (ajv: Ajv): Ajv =>
  ajv.addKeyword({ keyword: 'x-hint', schemaType: 'string' }).addKeyword({
    keyword: 'x-lines',
    type: 'string',
    schemaType: 'string',
    errors: true,
    validate: visible,
  })

/** `x-lines` refuses hidden or deceptive characters in public text. The text has `one` line or `many`. */
const visible: SchemaValidateFunction = (lines: 'one' | 'many', text: string): boolean => {
  const found = hiddenCharacterIn(text, lines)
  if (found === undefined) return true
  visible.errors = [{ keyword: 'x-lines', params: found }]
  return false
}

const integerFields = (schema: { properties?: Record<string, { type?: unknown }> }): string[] =>
  Object.entries(schema.properties ?? {})
    .filter(([, property]) => property.type === 'integer')
    .map(([name]) => name)

/** Reads whole numbers. It replaces ajv's own coercion, because ajv reads `Infinity` as a number and then skips the maximum. */
function readIntegers(query: Record<string, unknown>, names: readonly string[]): void {
  for (const name of names) {
    const text = query[name]
    if (typeof text === 'string' && /^\d{1,15}$/.test(text)) query[name] = Number(text)
  }
}

/** A character that public text must not contain, and its position. */
interface HiddenCharacter {
  /** Such as `U+202E`. */
  readonly codePoint: string
  /** Position of the character, counted in code points from 1. */
  readonly place: number
}

/**
 * Characters that are invisible or change how their neighbors are read. They let two different names look alike, or show a person
 * something other than an agent reads. They can also make "moc.rolyat" read as an address. These are controls, line separators,
 * interlinear annotations, the Braille pattern without dots, and every character that Unicode does not draw
 * (Default_Ignorable_Code_Point, UAX #44). The latter include direction marks and overrides, zero-width characters with emoji
 * joiners, fillers, variation selectors, and tags, which can spell whole invisible sentences.
 *
 * Two kinds of characters are allowed. One shows the preceding emoji as a picture (FE0F) or a letter (FE0E). The other shapes the
 * preceding Mongolian letter (180B–180D, 180F).
 */
const hidden =
  /(?!(?<=\p{Emoji})[\ufe0e\ufe0f]|(?<=[\u1820-\u18aa])[\u180b-\u180d\u180f])[\p{Cc}\p{DI}\u2028\u2029\u2800\ufff9-\ufffb]/gu
const lineControls = new Set(['\t', '\n', '\r'])

/** The first hidden character of a text. @param lines whether tabs and line breaks are allowed */
export function hiddenCharacterIn(text: string, lines: 'one' | 'many'): HiddenCharacter | undefined {
  for (const { 0: character, index } of text.matchAll(hidden)) {
    if (lines === 'many' && lineControls.has(character)) continue
    const codePoint = `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`
    return { codePoint, place: [...text.slice(0, index)].length + 1 }
  }
}

/** The message of the refusal of a hidden character. */
export const refusalOf = ({ codePoint, place }: HiddenCharacter): string =>
  `Expected text without control, invisible or direction-changing characters, but character ${place} is ${codePoint}. Remove it.`

/** How many details the message repeats. Clients show an agent only the first 500 characters of an error. */
const SPOKEN_DETAILS = 3
const SPOKEN_CHARS = 400

/** A `VALIDATION_ERROR` with one detail per invalid field. The message repeats the first details. */
export function validationError(details: readonly ErrorDetail[]): TollgateError {
  const spoken: string[] = []
  let chars = 0
  for (const { path, message } of details.slice(0, SPOKEN_DETAILS)) {
    const words = path === '' ? message : `${path}: ${message}`
    chars += words.length
    if (spoken.length > 0 && chars > SPOKEN_CHARS) break
    spoken.push(words)
  }
  const unspoken = details.length - spoken.length
  const more = unspoken > 0 ? ` (${unspoken} more in details)` : ''
  return new TollgateError('VALIDATION_ERROR', spoken.join(' ') + more, { details })
}

/** Maximum number of details of one error. Without it, a body with a thousand wrong fields would get a response of a megabyte. */
const MAX_DETAILS = 20
const SHOWN_CHARS = 40

/** Converts ajv's errors to details. A detail says what was expected, what came, and which field was probably meant. */
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
      // A missing body is validated as null.
      if (error.instancePath === '' && data === null) {
        return at('required', `The body is missing. Expected ${nameOf(schema)}.`)
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
      return at('too_many', `Expected at most ${params['limit']} entries.`)
    case 'uniqueItems':
      return at('duplicate', 'Expected no duplicate entries.')
    case 'propertyNames':
      return at('name', `${JSON.stringify(shorten(String(params['propertyName'])))} cannot be a name here.`)
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

/** The fields that a hint may suggest. Fields that are accepted only to be ignored are left out. */
const writableFields = (schema: Schema): string[] =>
  Object.entries(schema.properties ?? {})
    .filter(([, property]) => property.readOnly !== true)
    .map(([name]) => name)

function unknownField(key: string, known: readonly string[]): string {
  const meant = nearMiss(key, known)
  if (meant !== undefined) return `Unknown field. Did you mean ${JSON.stringify(meant)}?`
  return known.length === 0 ? 'Unknown field.' : `Unknown field. Expected one of ${known.join(', ')}.`
}

function notAllowed(value: unknown, allowed: readonly unknown[]): string {
  const words = allowed.filter((v) => v !== null).map((v) => JSON.stringify(v))
  if (typeof value !== 'string') return `Expected one of ${words.join(', ')}, got ${kindOf(value)}.`
  const meant = nearMiss(
    value,
    allowed.filter((v) => typeof v === 'string'),
  )
  const hint = meant === undefined ? '' : ` Did you mean ${JSON.stringify(meant)}?`
  return `Expected one of ${words.join(', ')}, got ${JSON.stringify(shorten(value))}.${hint}`
}

function lengthWords(keyword: 'minLength' | 'maxLength', limit: number, length: number): [string, string] {
  if (keyword === 'maxLength') return ['too_long', `Expected at most ${limit} characters, got ${length}.`]
  return [
    'too_short',
    limit === 1 ? 'Must not be empty.' : `Expected at least ${limit} characters, got ${length}.`,
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

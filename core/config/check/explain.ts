import type { ErrorObject } from 'ajv'
import { childPointer, type Pointer } from '../read/pointer.ts'
import { formats } from './formats.ts'
import { nearMiss } from './nearMiss.ts'

/** A problem found in the values. It has a pointer, but no line yet. */
export interface Finding {
  readonly severity: 'error' | 'warning'
  readonly pointer: Pointer
  /** The part of the line that the caret marks. */
  readonly part: 'key' | 'value'
  readonly message: string
  readonly hint?: string
}

/** Returns a value as the file has it. If the value comes from the environment, that is `${NAME}`, never the variable's value. */
export type Show = (pointer: Pointer) => { readonly raw: unknown; readonly fromEnvironment: boolean }

/** Turns schema errors into messages, which say what was expected, what came and what to do. */
export function explain(errors: readonly ErrorObject[], show: Show): Finding[] {
  const findings = errors.map((error) => explainOne(error, show))
  const meant = new Set(findings.map((finding) => finding.meant).filter((name) => name !== undefined))
  // If `publicURl` is unknown and `publicUrl` is missing, that is a single mistake, so only one of them is reported.
  return findings.filter((f) => !f.isMissing || !meant.has(f.pointer)).map(({ finding }) => finding)
}

interface Explained {
  readonly finding: Finding
  readonly pointer: Pointer
  /** The option that the author of an unknown option probably meant. */
  readonly meant?: Pointer | undefined
  readonly isMissing?: boolean
}

function explainOne(error: ErrorObject, show: Show): Explained {
  const at = error.instancePath
  if (error.keyword === 'additionalProperties') return unknownOption(error)
  if (error.keyword === 'required') return missingOption(error)
  if (error.propertyName !== undefined) {
    const message = `Expected ${expectation(error)} as the key.`
    return explained(childPointer(at, error.propertyName), 'key', message)
  }
  if (error.keyword === 'type') return wrongType(error, show)
  if (error.keyword === 'enum') return notOneOf(error, show)
  return explained(at, 'value', `Expected ${expectation(error)}${came(error, show)}.`, descriptionOf(error))
}

function unknownOption(error: ErrorObject): Explained {
  const name = String(error.params['additionalProperty'])
  const pointer = childPointer(error.instancePath, name)
  const known = Object.keys(schemaOf(error)['properties'] ?? {}).filter((key) => key !== '$schema')
  const meant = nearMiss(name, known)
  const hint =
    meant !== undefined
      ? `Did you mean ${meant}?`
      : known.length > 0
        ? `Known here: ${known.join(', ')}.`
        : 'Expected no options here.'
  return {
    ...explained(pointer, 'key', `Unknown option ${JSON.stringify(name.slice(0, 60))}.`, hint),
    meant: meant === undefined ? undefined : childPointer(error.instancePath, meant),
  }
}

function missingOption(error: ErrorObject): Explained {
  const name = String(error.params['missingProperty'])
  const pointer = childPointer(error.instancePath, name)
  const properties = schemaOf(error)['properties'] as Record<string, { description?: string }> | undefined
  return {
    ...explained(pointer, 'key', `The option ${name} is missing.`, properties?.[name]?.description),
    isMissing: true,
  }
}

function wrongType(error: ErrorObject, show: Show): Explained {
  const expected = String(error.params['type'])
  const { raw, fromEnvironment } = show(error.instancePath)
  const message = fromEnvironment
    ? `Expected ${withArticle(expected)}, but ${String(raw)} does not contain one.`
    : `Expected ${withArticle(expected)}, got ${withArticle(kindOf(raw))}.`
  return explained(
    error.instancePath,
    'value',
    message,
    quoteHint(expected, raw, fromEnvironment) ?? belowHint(expected, error) ?? descriptionOf(error),
  )
}

/** If options are expected and there is a single value, the author usually meant it for the one required option. */
function belowHint(expected: string, error: ErrorObject): string | undefined {
  const needed = expected === 'object' ? (schemaOf(error)['required'] as string[] | undefined) : undefined
  return needed?.length === 1 ? `Its options go below it, indented: ${needed[0]}: …` : undefined
}

/** A hint for common mistakes with quotes in YAML. */
function quoteHint(expected: string, raw: unknown, fromEnvironment: boolean): string | undefined {
  if (expected === 'string' && (typeof raw === 'number' || typeof raw === 'boolean')) {
    return 'Put the value in quotes. Without them, YAML does not read it as text.'
  }
  if (typeof raw !== 'string' || fromEnvironment) return undefined
  if (expected === 'boolean')
    return /^(yes|no|on|off|y|n)$/i.test(raw) ? 'Write true or false.' : whenQuoted(/^(true|false)$/, raw)
  const isNumber = expected === 'integer' || expected === 'number'
  if (isNumber && /^\d{1,3}([_,]\d{3})+$/.test(raw))
    return `Write it without separators: ${raw.replaceAll(/[_,]/g, '')}.`
  return isNumber ? whenQuoted(/^-?\d+(\.\d+)?$/, raw) : undefined
}

const whenQuoted = (form: RegExp, raw: string): string | undefined =>
  form.test(raw) ? 'Remove the quotes.' : undefined

function notOneOf(error: ErrorObject, show: Show): Explained {
  const allowed = (error.params['allowedValues'] as unknown[]).map(String)
  const { raw } = show(error.instancePath)
  const meant = typeof raw === 'string' ? nearMiss(raw, allowed) : undefined
  const message = `Expected one of ${allowed.join(', ')}${came(error, show)}.`
  return explained(
    error.instancePath,
    'value',
    message,
    meant === undefined ? descriptionOf(error) : `Did you mean ${meant}?`,
  )
}

function expectation({ keyword, params, message }: ErrorObject): string {
  const limit = params['limit']
  if (keyword === 'format') return formats[params['format'] as keyof typeof formats].expected
  if (keyword === 'minimum' || keyword === 'exclusiveMinimum')
    return `a number ${keyword === 'minimum' ? 'of at least' : 'above'} ${limit}`
  if (keyword === 'maximum' || keyword === 'exclusiveMaximum')
    return `a number ${keyword === 'maximum' ? 'of at most' : 'below'} ${limit}`
  if (keyword === 'minLength')
    return limit === 1 ? 'a text that is not empty' : `at least ${limit} characters`
  if (keyword === 'maxLength') return `at most ${limit} characters`
  if (keyword === 'minItems') return limit === 1 ? 'at least one entry' : `at least ${limit} entries`
  if (keyword === 'maxItems') return `at most ${limit} entries`
  if (keyword === 'uniqueItems') return 'entries that differ from each other'
  if (keyword === 'pattern') return `a text of the form ${params['pattern']}`
  return `something else: it ${message ?? 'does not fit the schema'}`
}

function came(error: ErrorObject, show: Show): string {
  const { raw } = show(error.instancePath)
  if (schemaOf(error)['writeOnly'] === true || typeof raw === 'object') return ''
  const text = JSON.stringify(raw)
  return text === undefined ? '' : `, got ${text.length > 60 ? `${text.slice(0, 60)}…` : text}`
}

const explained = (pointer: Pointer, part: Finding['part'], message: string, hint?: string): Explained => ({
  pointer,
  finding: { severity: 'error', pointer, part, message, ...(hint === undefined ? {} : { hint }) },
})

const schemaOf = (error: ErrorObject): Record<string, unknown> & { properties?: object } =>
  error.parentSchema ?? {}

const descriptionOf = (error: ErrorObject): string | undefined =>
  schemaOf(error)['description'] as string | undefined

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return 'empty value'
  if (Array.isArray(value)) return 'list'
  return typeof value === 'object' ? 'object' : typeof value
}

const names: Record<string, string> = { array: 'list', string: 'text' }

function withArticle(kind: string): string {
  const name = names[kind] ?? kind
  return `${/^[aeio]/.test(name) ? 'an' : 'a'} ${name}`
}

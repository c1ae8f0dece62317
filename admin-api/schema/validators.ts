import { Ajv, type SchemaValidateFunction, type ValidateFunction } from 'ajv'
import type { FastifySchemaCompiler } from 'fastify'
import { hiddenCharacterIn } from './hiddenCharacter.ts'
import { toDetails } from './toDetails.ts'
import { validationError } from './validationError.ts'

/**
 * Makes the check of a route's schemas. Bodies are taken as they are: no value is converted, dropped or filled in, so
 * that a misspelt field is an answer and not a surprise. Query strings are text, so whole numbers in them are read as
 * numbers. Path parameters are checked by the handlers, which answer 404 for an id that can not be one.
 *
 * A schema is compiled when its route is first asked: all of them would be a tenth of a start. They are not held against the
 * schema of schemas, which `features.test.ts` does.
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
  // Made when it is first needed: most bodies are right.
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
 * Entries of a type that has an order are looked up among those before them; others would be compared with each of these, and a
 * body of a megabyte has a hundred thousand, however few are allowed.
 *
 * @throws for a schema that a body could hold the event loop up with
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

/** Of a body of more values only the first thing that is wrong is told: to find them all would keep everybody else waiting. */
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

/** `x-hint` says in words what a pattern wants: "a decimal string such as 0.10". It is also shown in the OpenAPI document. */
const withHints = (ajv: Ajv): Ajv =>
  ajv.addKeyword({ keyword: 'x-hint', schemaType: 'string' }).addKeyword({
    keyword: 'x-lines',
    type: 'string',
    schemaType: 'string',
    errors: true,
    validate: visible,
  })

/** `x-lines`: text that others read, on `one` line or on `many`, is refused with any character that hides or deceives. */
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

/** Not ajv's own coercion: it reads `Infinity` as a number and then skips the maximum. */
function readIntegers(query: Record<string, unknown>, names: readonly string[]): void {
  for (const name of names) {
    const text = query[name]
    if (typeof text === 'string' && /^\d{1,15}$/.test(text)) query[name] = Number(text)
  }
}

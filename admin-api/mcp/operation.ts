import { validationError } from '../http/validation.ts'
import type { Arguments, ArgumentsSchema, RouteRequest, Schema } from './tool.ts'

/**
 * The parts of the OpenAPI document that tools use. The document is generated from the routes, so tools cannot differ from them.
 */
export interface ApiDocument {
  readonly paths?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required?: boolean
  readonly description?: string
  readonly schema?: Schema
}

interface Documented {
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: ArgumentsSchema }>> }
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: Schema }>> }>
  >
  readonly security: readonly object[]
}

/** A route, with the data that a tool needs. */
export interface Operation {
  readonly input: ArgumentsSchema
  /** The schema of the route's successful responses, without the envelope. */
  readonly output: Schema
  readonly needsKey: boolean
  /** Creates the request with these arguments. @throws `VALIDATION_ERROR` for arguments that would lead to another route */
  requestOf(input: Arguments): RouteRequest
}

const json = 'application/json'

/** @returns undefined if the API has no such route */
export function readOperation(
  { paths = {} }: ApiDocument,
  method: 'GET' | 'POST' | 'PATCH',
  path: string,
): Operation | undefined {
  const documented = paths[path]?.[method.toLowerCase()] as Documented | undefined
  if (documented === undefined) return undefined
  const parameters = documented.parameters ?? []
  const body = documented.requestBody?.content[json]?.schema
  const fields = Object.entries(body?.properties ?? {}).filter(([, field]) => field['readOnly'] !== true)
  const named = (place: Parameter['in']) => parameters.filter((parameter) => parameter.in === place)
  return {
    input: {
      type: 'object',
      additionalProperties: false,
      required: [
        ...parameters.filter(({ required }) => required).map(argumentOf),
        ...((body?.['required'] as readonly string[] | undefined) ?? []),
      ],
      properties: Object.fromEntries([
        ...parameters.map((one) => [argumentOf(one), withWords(one)]),
        ...fields.map(([name, { writeOnly: _, ...field }]) => [name, field]),
      ]),
    },
    output: outputOf(documented),
    needsKey: documented.security.length > 0,
    requestOf(input) {
      const given = (place: Parameter['in']) =>
        named(place).flatMap((one): [string, string][] => {
          const value = input[argumentOf(one)]
          return value === undefined ? [] : [[one.name, String(value)]]
        })
      const query = new URLSearchParams(given('query')).toString()
      const sent = fields.flatMap(([name]) => (Object.hasOwn(input, name) ? [[name, input[name]]] : []))
      const filled = given('path').reduce(
        (url, [name, value]) => url.replace(`{${name}}`, segmentOf(name, value)),
        path,
      )
      return {
        method,
        url: query === '' ? filled : `${filled}?${query}`,
        headers: Object.fromEntries(given('header')),
        ...(body !== undefined && { body: Object.fromEntries(sent) }),
      }
    },
  }
}

/**
 * A value as one segment of a path. Refuses `.` and `..`, because URL parsers resolve them before a route is matched (RFC 3986,
 * 5.2.4).
 */
function segmentOf(name: string, value: string): string {
  if (!/^\.{0,2}$|[/\\]/.test(value)) return encodeURIComponent(value)
  const message = 'Expected an id from this service, which has no slash and is not empty, "." or "..".'
  throw validationError([{ path: name, code: 'format', message }])
}

/** The argument's name. For example, `Idempotency-Key` is the argument `idempotencyKey`. */
const argumentOf = ({ name, in: place }: Parameter): string =>
  place === 'header'
    ? name.toLowerCase().replace(/-(\w)/g, (_, message: string) => message.toUpperCase())
    : name

const withWords = ({ schema = {}, description }: Parameter): Schema => ({
  ...schema,
  ...(description !== undefined && { description }),
})

function outputOf({ responses }: Documented): Schema {
  const status = Object.keys(responses).find((one) => one.startsWith('2'))
  const schema = status === undefined ? undefined : responses[status]?.content?.[json]?.schema
  const properties = schema?.['properties'] as Readonly<Record<string, Schema>> | undefined
  return properties?.['success'] === undefined ? (schema ?? { type: 'object' }) : (properties['data'] ?? {})
}

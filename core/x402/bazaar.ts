import type { Link } from '../domain/link.ts'

/** The extension `bazaar` of x402, which says how to call a link, for a client that has only the link's address. */
export interface BazaarExtension {
  readonly info: Readonly<Record<string, unknown>>
  /** JSON Schema of `info`. */
  readonly schema: Readonly<Record<string, unknown>>
}

type Described = Pick<Link, 'methods' | 'inputSchema' | 'outputExample'>
type Schema = Readonly<Record<string, unknown>>

const bodyMethods = ['POST', 'PUT', 'PATCH']

/** The method with which a link is shown, which is its first method other than HEAD, or GET if it supports all. */
export const shownMethod = ({ methods }: Pick<Link, 'methods'>): string =>
  methods.find((method) => method !== 'HEAD') ?? methods[0] ?? 'GET'

export const takesBody = (method: string): boolean => bodyMethods.includes(method)

/**
 * Makes the extension from the seller's description of input and output. If the input has no example, an example is derived from
 * its schema. That example is only a hint, which the seller's API may refuse.
 */
export function bazaarOf(link: Described): BazaarExtension {
  const method = shownMethod(link)
  const hasBody = takesBody(method)
  const input = isSchema(link.inputSchema) ? link.inputSchema : undefined
  const example = input && exampleFor(input)
  const field = hasBody ? 'body' : 'queryParams'
  const required = hasBody ? ['type', 'method', 'bodyType', 'body'] : ['type', 'method']
  const hasOutput = link.outputExample !== null && link.outputExample !== undefined
  return {
    info: {
      input: {
        type: 'http',
        method,
        ...(hasBody && { bodyType: 'json', body: example ?? {} }),
        ...(!hasBody && example !== undefined && { queryParams: example }),
      },
      ...(hasOutput && { output: { type: 'json', example: link.outputExample } }),
    },
    schema: {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: {
        input: {
          type: 'object',
          properties: {
            type: { type: 'string', const: 'http' },
            method: { type: 'string', enum: [method] },
            ...(hasBody && { bodyType: { type: 'string', enum: ['json'] } }),
            ...((hasBody || input !== undefined) && {
              [field]: input ? movedTo(`/properties/input/properties/${field}`, input) : { type: 'object' },
            }),
          },
          required,
          additionalProperties: false,
        },
        ...(hasOutput && {
          output: {
            type: 'object',
            properties: { type: { type: 'string' }, example: {} },
            required: ['type'],
          },
        }),
      },
      required: ['input'],
    },
  }
}

/** Keywords for descriptions and suggestions. They do not affect whether a call is well-formed. */
const annotations = ['$comment', 'default', 'description', 'example', 'examples', 'title']
/** Keywords whose members are schemas with names that the seller chose. Such a name may be `title`. */
const named = ['$defs', 'definitions', 'dependentSchemas', 'patternProperties', 'properties']

/** A schema that accepts the same values, without descriptions and suggestions. */
export function withoutWords<V>(schema: V): V {
  const bare = (value: unknown, isNamed = false): unknown => {
    if (Array.isArray(value)) return value.map((one) => bare(one))
    if (!isSchema(value)) return value
    const members = Object.entries(value).flatMap(([key, one]): [string, unknown][] => {
      if (isNamed) return [[key, bare(one)]]
      if (annotations.includes(key)) return []
      return [[key, values.includes(key) ? one : bare(one, named.includes(key))]]
    })
    return Object.fromEntries(members)
  }
  return bare(schema) as V
}

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * A schema as a part of another document. Its own references (`#/$defs/City`, as most generators write them) are rewritten for the
 * new position. A schema with an `$id` is a document of its own in any position (JSON Schema 2020-12, section 8.2.1).
 */
export const movedTo = (pointer: string, schema: Schema): Schema =>
  '$id' in schema ? schema : (moved(pointer, schema) as Schema)

/** Keywords that contain values instead of schemas, so that a text in them is never a reference. */
const values = ['const', 'default', 'enum', 'example', 'examples']

function moved(pointer: string, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((one) => moved(pointer, one))
  if (!isSchema(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => {
      if (values.includes(key)) return [key, one]
      const isLocal = key === '$ref' && typeof one === 'string' && /^#(?:\/|$)/.test(one)
      return [key, isLocal ? `#${pointer}${one.slice(1)}` : moved(pointer, one)]
    }),
  )
}

/** The schema to which a reference within a document leads (RFC 6901, section 6). */
function referred(root: unknown, ref: unknown): unknown {
  if (typeof ref !== 'string' || !ref.startsWith('#/')) return undefined
  let at = root
  for (const part of ref.slice(2).split('/')) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    at = (at as Record<string, unknown>)[key]
  }
  return at
}

/** Maximum parts of an example. References may double the parts at every step. */
const MAX_EXAMPLE_PARTS = 1_000

/** A value that a schema suggests. Without a suggestion, the smallest value of its type. */
export const exampleFor = (schema: Schema): unknown =>
  exampleOf(schema, { root: schema, left: MAX_EXAMPLE_PARTS })

interface Examples {
  /** The document in which references are resolved. */
  readonly root: Schema
  /** Number of parts that may still be made. */
  left: number
}

/** Maximum depth of an example, because a schema may refer to itself. */
const MAX_DEPTH = 5

/** A value that a schema suggests, which is its own example, default or first choice. Otherwise the smallest value of its type. */
function exampleOf(schema: unknown, made: Examples, depth = 0): unknown {
  if (made.left-- <= 0 || !isSchema(schema) || depth > MAX_DEPTH) return {}
  const target = referred(made.root, schema['$ref'])
  if (target !== undefined) return exampleOf(target, made, depth + 1)
  const { examples, example, enum: choices } = schema
  if ('const' in schema) return schema['const']
  if (Array.isArray(examples) && examples.length > 0) return examples[0]
  if (example !== undefined) return example
  if ('default' in schema) return schema['default']
  if (Array.isArray(choices) && choices.length > 0) return choices[0]
  const { type } = schema
  switch (Array.isArray(type) ? type[0] : type) {
    case 'string':
      return 'x'.repeat(Math.max(0, Math.min(Number(schema['minLength'] ?? 0) || 0, 64)))
    case 'number':
    case 'integer':
      return typeof schema['minimum'] === 'number' ? schema['minimum'] : 0
    case 'boolean':
      return false
    case 'null':
      return null
    case 'array':
      return []
    default:
      return exampleOfObject(schema, made, depth)
  }
}

function exampleOfObject(
  { properties, required }: Schema,
  made: Examples,
  depth: number,
): Record<string, unknown> {
  const all = isSchema(properties) ? properties : {}
  const needed = Array.isArray(required) ? required : []
  // An optional member is shown only if its schema suggests a value.
  const shown = Object.entries(all).filter(
    ([name, one]) =>
      needed.includes(name) ||
      (isSchema(one) && ['example', 'examples', 'default', 'const'].some((key) => Object.hasOwn(one, key))),
  )
  const example: [name: string, value: unknown][] = []
  for (const [name, one] of shown) {
    if (made.left <= 0) break
    example.push([name, exampleOf(one, made, depth + 1)])
  }
  return Object.fromEntries(example)
}

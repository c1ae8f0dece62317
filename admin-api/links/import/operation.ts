import { exampleFor, takesBody } from '../../../core/x402/bazaar.ts'
import { hiddenCharacterIn } from '../../http/validation.ts'
import { MAX_SCHEMA_BYTES, slugOf } from '../linkFields.ts'
import { follow, isTree, type OpenApiDocument, SkippedOperation, type Tree } from './document.ts'
import { briefly, schemaOf } from './schemaOf.ts'

const MAX_TITLE_CHARS = 200
const MAX_DESCRIPTION_CHARS = 500
const MAX_TAGS = 10
const MAX_URL_CHARS = 2_048

/** The document's statements about one operation, as the fields of a link. */
export interface DescribedOperation {
  readonly url: string
  /** The path that callers append to the link's address, such as `/{petId}`. Empty if there is none. */
  readonly subPath: string
  readonly title: string
  readonly description: string
  readonly methods: readonly string[]
  readonly inputSchema: Tree | null
  readonly outputExample: unknown
  readonly tags: readonly string[]
  /** A slug for a new link. */
  readonly slug: string
  /** Notes for the seller. */
  readonly notes: readonly string[]
}

interface Found {
  readonly path: string
  readonly method: string
  readonly operation: Tree
  /** Parameters of the path and of the operation, with references resolved. */
  readonly parameters: readonly Tree[]
  /** Base URL, without a slash at the end. */
  readonly server: string
}

/** Reads one operation. @throws {SkippedOperation} if it cannot become a link */
export function describeOperation(document: OpenApiDocument, found: Found): DescribedOperation {
  const { operation, method, path } = found
  const notes: string[] = []
  const { fixed, subPath } = partsOf(path)
  const url = urlOf(found.server + fixed)
  const name = typeof operation['operationId'] === 'string' ? operation['operationId'] : ''
  const summary = oneLine(operation['summary']) || oneLine(name) || `${method} ${path}`
  return {
    url,
    subPath,
    title: cut(visible(summary, 'one'), MAX_TITLE_CHARS) || `${method} operation`,
    description: descriptionOf(operation, subPath),
    methods: [method],
    inputSchema: inputOf(document, found, subPath, notes),
    outputExample: outputOf(document, operation, notes),
    tags: tagsOf(operation['tags']),
    slug: slugOf(wordsOf(name) || `${method} ${path}`),
    notes,
  }
}

/** The part of a path before its first parameter, and the rest. @throws {SkippedOperation} */
export function partsOf(path: string): { readonly fixed: string; readonly subPath: string } {
  if (!path.startsWith('/')) throw new SkippedOperation('The path does not begin with a slash.')
  if (/[?#\\]/.test(path)) throw new SkippedOperation('The path has a query or a fragment.')
  const segments = path.split('/')
  if (segments.some((one) => /^(?:\.|%2e){1,2}$/i.test(one)))
    throw new SkippedOperation('The path has a segment of dots.')
  const first = segments.findIndex((segment) => segment.includes('{'))
  if (first < 0) return { fixed: path, subPath: '' }
  return { fixed: segments.slice(0, first).join('/'), subPath: `/${segments.slice(first).join('/')}` }
}

function urlOf(text: string): string {
  const { href } = new URL(text)
  if (href.length > MAX_URL_CHARS)
    throw new SkippedOperation(`The address has more than ${MAX_URL_CHARS} characters.`)
  return href
}

/** Removes characters that are hidden or change the direction of writing, for public text. */
function visible(text: string, lines: 'one' | 'many'): string {
  const whole = text.toWellFormed()
  if (hiddenCharacterIn(whole, lines) === undefined) return whole.trim()
  const shown = [...whole].filter((character) => hiddenCharacterIn(character, lines) === undefined)
  return shown.join('').trim()
}

const oneLine = (value: unknown): string =>
  typeof value === 'string' && /[\p{L}\p{N}\p{P}\p{S}]/u.test(value) ? value.replace(/\s+/g, ' ').trim() : ''

function cut(text: string, most: number): string {
  const characters = [...text]
  return characters.length <= most
    ? text
    : `${characters
        .slice(0, most - 1)
        .join('')
        .trimEnd()}…`
}

export const titleOf = (value: unknown): string => cut(visible(oneLine(value), 'one'), MAX_TITLE_CHARS)

export function descriptionOf(of: Tree, subPath = ''): string {
  const text = typeof of['description'] === 'string' ? visible(of['description'], 'many') : ''
  const call = subPath === '' ? '' : `Call it with ${cut(visible(subPath, 'one'), 200)} appended to the URL.`
  const room = MAX_DESCRIPTION_CHARS - (call === '' ? 0 : [...call].length + 1)
  return [cut(text, room), call].filter((part) => part !== '').join('\n')
}

/** Tags in the form that links use. For example, `Pet store` becomes `pet-store`. A tag that has no such form is dropped. */
export function tagsOf(value: unknown): string[] {
  const tags = (Array.isArray(value) ? value : []).flatMap((tag) => {
    const spelt = wordsOf(typeof tag === 'string' ? tag : '')
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, '-')
      .slice(0, 32)
      .replace(/^-+|-+$/g, '')
    return spelt === '' ? [] : [spelt]
  })
  return [...new Set(tags)].slice(0, MAX_TAGS)
}

/** Splits a name into words. For example, `listPets` becomes `list Pets`. */
const wordsOf = (name: string): string => name.replace(/(?<=[a-z0-9])(?=[A-Z])/g, ' ')

function inputOf(
  document: OpenApiDocument,
  { method, operation, parameters }: Found,
  subPath: string,
  notes: string[],
): Tree | null {
  const hasBody = takesBody(method)
  const inPath = [...subPath.matchAll(/\{([^{}]+)\}/g)].map(([, name]) => name!)
  const query = parameters.filter((one) => one['in'] === 'query')
  if (parameters.some((one) => one['in'] === 'cookie' && one['required'] === true))
    throw new SkippedOperation('The operation needs a cookie, and the gateway does not forward cookies.')
  const described = parameters.filter(
    ({ in: where, name }) =>
      where === 'header' ||
      (where === 'path' && inPath.includes(String(name))) ||
      (hasBody && where === 'query'),
  )
  const known = new Set(described.filter((one) => one['in'] === 'path').map((one) => one['name']))
  const siblings = [
    ...inPath
      .filter((name) => !known.has(name))
      .map((name) => ({ name, in: 'path', schema: { type: 'string' } })),
    ...described,
  ].map((one: Tree) => ({
    name: String(one['name']),
    in: one['in'],
    required: one['in'] === 'path' || one['required'] === true,
    ...(typeof one['description'] === 'string' && { description: visible(one['description'], 'many') }),
    schema: parameterSchema(document, one) ?? {},
  }))
  const main = hasBody
    ? bodyOf(document, operation, notes)
    : query.length > 0
      ? queryOf(document, query)
      : undefined
  if (main === undefined && subPath === '' && siblings.length === 0) return null
  const whole = {
    ...(main ?? { type: 'object' }),
    ...(subPath !== '' && { 'x-path': subPath }),
    ...(siblings.length > 0 && { 'x-parameters': siblings }),
  }
  return fitting(whole, 'input', notes)
}

const queryOf = (document: OpenApiDocument, query: readonly Tree[]): Tree => {
  const required = query.filter((one) => one['required'] === true).map((one) => String(one['name']))
  const properties = query.map((one): [string, unknown] => {
    const schema = parameterSchema(document, one) ?? {}
    const { description } = one
    const described = typeof description === 'string' && !('description' in schema)
    return [
      String(one['name']),
      described ? { ...schema, description: visible(description, 'many') } : schema,
    ]
  })
  return {
    type: 'object',
    properties: Object.fromEntries(properties),
    ...(required.length > 0 && { required: [...new Set(required)] }),
  }
}

/** The schema of a parameter. Its references are resolved here, because the schema becomes part of a list of other schemas. */
function parameterSchema(document: OpenApiDocument, { schema, content }: Tree): Tree | undefined {
  const media = isTree(content) ? follow(document.root, Object.values(content)[0]) : undefined
  const found = schemaOf(document, schema ?? (isTree(media) ? media['schema'] : undefined) ?? {})
  return found !== undefined && '$defs' in found ? {} : found
}

function bodyOf(document: OpenApiDocument, operation: Tree, notes: string[]): Tree | undefined {
  const body = follow(document.root, operation['requestBody'])
  const content = follow(document.root, isTree(body) ? body['content'] : undefined)
  if (!isTree(content)) return undefined
  const json = jsonOf(document, content)
  if (json !== undefined) {
    const schema = schemaOf(document, json['schema'] ?? {})
    if (schema === undefined) notes.push('The input schema is too large to be published.')
    return schema
  }
  const kinds = Object.keys(content).slice(0, 3).join(', ')
  notes.push(`The body is not JSON (${visible(kinds, 'one').slice(0, 100)}), so agents get no schema for it.`)
  return undefined
}

function outputOf(document: OpenApiDocument, operation: Tree, notes: string[]): unknown {
  const responses = follow(document.root, operation['responses'])
  if (!isTree(responses)) return null
  const status = Object.keys(responses).find((one) => /^2/.test(one)) ?? 'default'
  const response = follow(document.root, Object.hasOwn(responses, status) ? responses[status] : undefined)
  const content = follow(document.root, isTree(response) ? response['content'] : undefined)
  if (!isTree(content)) return null
  if (Object.keys(content).some((kind) => kind.startsWith('text/event-stream')))
    notes.push(
      'The operation responds with a stream. Set `settle` to `before`, so that buyers are charged before the stream begins.',
    )
  const json = jsonOf(document, content)
  if (json === undefined) return null
  const example = exampleIn(document, json)
  return example === undefined ? null : fitting(example, 'example', notes)
}

function exampleIn(document: OpenApiDocument, media: Tree): unknown {
  if (media['example'] !== undefined) return media['example']
  const first = isTree(media['examples'])
    ? follow(document.root, Object.values(media['examples'])[0])
    : undefined
  if (isTree(first) && first['value'] !== undefined) return first['value']
  const schema = schemaOf(document, media['schema'] ?? {})
  // An example is made only if the document has one. Otherwise an invented example would be published.
  return schema !== undefined && JSON.stringify(schema).includes('"examples":')
    ? exampleFor(schema)
    : undefined
}

function jsonOf(document: OpenApiDocument, content: Tree): Tree | undefined {
  const kind = Object.keys(content).find((one) => /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(one))
  const media = kind === undefined ? undefined : follow(document.root, content[kind])
  return isTree(media) ? media : undefined
}

/** The part of a value that fits into a link. It is all of the value, the value without descriptions, or null. */
function fitting<T>(value: T, what: string, notes: string[]): T | null {
  const fits = (one: unknown) => Buffer.byteLength(JSON.stringify(one)) <= MAX_SCHEMA_BYTES
  if (fits(value)) return value
  const brief = what === 'input' ? (briefly(value) as T) : undefined
  if (brief !== undefined && fits(brief)) {
    notes.push(
      'The input schema is published without descriptions and examples, because it is larger than 16 kB with them.',
    )
    return brief
  }
  notes.push(
    `The ${what === 'input' ? 'input schema' : 'example response'} is larger than 16 kB and is not published.`,
  )
  return null
}

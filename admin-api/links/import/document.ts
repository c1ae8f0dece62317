import { CORE_SCHEMA, load, mergeTag, YAMLException } from 'js-yaml'

/** Maximum size of an OpenAPI document as sent, in UTF-8 bytes. */
export const MAX_OPENAPI_BYTES = 16_000_000
/**
 * Maximum nesting of a document. No hand-written document is deeper. The limit keeps recursive readers from exhausting the stack.
 */
const MAX_DEPTH = 100
/** Maximum size of a document with its aliases written out, in characters. Each alias repeats the value that it refers to. */
const MAX_PLAIN_CHARS = 4 * MAX_OPENAPI_BYTES
/** Maximum number of keys that `<<` merges in the whole document. */
const MAX_MERGED_KEYS = 1_000_000

/** YAML 1.2, in which `no` is a string. The merge keys of YAML 1.1 are added, because hand-written documents use them. */
const schema = CORE_SCHEMA.withTags([mergeTag])

export type Tree = { readonly [key: string]: unknown }

/** Thrown if the document cannot be imported at all. The message is for the seller. */
export class ImportRefusal extends Error {
  override readonly name = 'ImportRefusal'
  /** The invalid field of the request. */
  readonly path: string

  constructor(path: string, message: string) {
    super(message)
    this.path = path
  }
}

/** An OpenAPI document of version 3.0 or 3.1, without duplicate keys or circular values. */
export interface OpenApiDocument {
  readonly root: Tree
  readonly version: '3.0' | '3.1'
}

/** Reads YAML or JSON. @throws {ImportRefusal} */
export function readDocument(text: string): OpenApiDocument {
  const root = readTree(text)
  if (!isTree(root))
    throw refusal('Expected an OpenAPI document: an object that begins with `openapi: 3.1.0`.')
  return { root, version: versionOf(root) }
}

/** Parses YAML or JSON to a value without cycles. @throws {ImportRefusal} */
export function readTree(text: string): unknown {
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_OPENAPI_BYTES)
    throw refusal(`Expected at most ${MAX_OPENAPI_BYTES} bytes, got ${bytes}. Import the document in parts.`)
  const root = jsonOf(text) ?? yamlOf(text)
  measure(root)
  return root
}

export const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const refusal = (message: string): ImportRefusal => new ImportRefusal('document', message)

function versionOf({ openapi, swagger }: Tree): '3.0' | '3.1' {
  if (swagger !== undefined)
    throw refusal(
      `Expected OpenAPI 3.0 or 3.1, got Swagger ${String(swagger).slice(0, 10)}. Convert it first: the Swagger editor (Edit, Convert to OpenAPI 3) and swagger2openapi do that.`,
    )
  // YAML reads an unquoted 3.0 as the number 3.
  const found = /^3\.([01])(?:\.|$)/.exec(openapi === 3 ? '3.0' : String(openapi ?? ''))
  if (found === null) {
    const given = openapi === undefined ? 'no `openapi` field' : `version ${String(openapi).slice(0, 20)}`
    throw refusal(`Expected a document of OpenAPI 3.0 or 3.1, got ${given}.`)
  }
  return `3.${found[1]}` as '3.0' | '3.1'
}

/** The parsed JSON. Undefined if the text is not JSON. @throws {ImportRefusal} for a duplicate key */
function jsonOf(text: string): unknown {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    return undefined
  }
  const duplicate = duplicateKey(text)
  if (duplicate !== undefined)
    throw refusal(`Expected unique keys; ${JSON.stringify(duplicate)} occurs twice in one object.`)
  return json
}

function yamlOf(text: string): unknown {
  if (text.trim() === '') return undefined
  try {
    return load(text, { schema, maxDepth: MAX_DEPTH, maxTotalMergeKeys: MAX_MERGED_KEYS })
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error
    const line = error.mark === undefined ? '' : `Line ${error.mark.line + 1}: `
    throw refusal(`Expected JSON or YAML. ${line}${error.reason.slice(0, 200)}.`)
  }
}

/**
 * The first duplicate key. Such a key is refused, because JSON.parse uses the last value and other readers use the first.
 * @param text valid JSON
 */
function duplicateKey(text: string): string | undefined {
  const open: (Set<string> | null)[] = []
  let last = ''
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]:]/gs)) {
    if (token === '{') open.push(new Set())
    else if (token === '[') open.push(null)
    else if (token === '}' || token === ']') open.pop()
    else if (token !== ':') last = token
    else {
      const key = JSON.parse(last) as string
      if (open.at(-1)!.has(key)) return key
      open.at(-1)!.add(key)
    }
  }
}

/**
 * Checks the size of the value with every alias written out. The function does not recurse, so that a deep value uses no stack.
 * @throws {ImportRefusal}
 */
function measure(root: unknown): void {
  let chars = 0
  const stack: [value: unknown, depth: number][] = [[root, 0]]
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    const [value, depth] = entry
    chars += typeof value === 'string' ? value.length + 1 : 1
    if (chars > MAX_PLAIN_CHARS)
      throw refusal(
        `The aliases of the document expand to more than ${MAX_PLAIN_CHARS} characters. Use fewer aliases.`,
      )
    if (typeof value !== 'object' || value === null) continue
    if (depth > MAX_DEPTH)
      throw refusal(
        `Expected at most ${MAX_DEPTH} levels of nesting, but the document is deeper, or one of its aliases refers to itself.`,
      )
    for (const child of Object.values(value)) stack.push([child, depth + 1])
  }
}

/** Maximum length of a chain of references. No hand-written document has a longer one. */
const MAX_STEPS = 100

/** Thrown if the operation cannot become a link. The message is for the seller. */
export class SkippedOperation extends Error {
  override readonly name = 'SkippedOperation'
}

/**
 * The value itself, or the target of its `$ref` within the document (RFC 6901, sections 4 and 6). The function fetches nothing.
 *
 * @throws {SkippedOperation} for a reference that leaves the document, has no target or is circular
 */
export const follow = (root: Tree, value: unknown): unknown => walk(root, value, { count: 0 }).target

/**
 * Like {@link follow}, for a path item or an operation. Fields beside the `$ref` override the target's fields, so that a price
 * beside the reference counts.
 */
export function followWithSiblings(root: Tree, value: unknown): unknown {
  const { target, siblings } = walk(root, value, { count: 0 })
  return isTree(target) ? { ...target, ...siblings } : target
}

/** The target of a reference. It may be another reference. @throws {SkippedOperation} */
export const target = (root: Tree, reference: string): unknown => find(root, reference, { count: 0 })

/** How many references were followed so far. */
interface Steps {
  count: number
}

function walk(
  root: Tree,
  value: unknown,
  steps: Steps,
): { readonly target: unknown; readonly siblings: Tree } {
  let target = value
  let siblings: Tree = {}
  while (isTree(target) && typeof target['$ref'] === 'string') {
    const { $ref, ...others } = target
    if (++steps.count > MAX_STEPS) throw new SkippedOperation(`The reference ${shown($ref)} is circular.`)
    siblings = { ...others, ...siblings }
    target = find(root, target['$ref'], steps)
  }
  return { target, siblings }
}

function find(root: Tree, reference: string, steps: Steps): unknown {
  if (!reference.startsWith('#'))
    throw new SkippedOperation(
      `The reference ${shown(reference)} points outside the document, and nothing is fetched. Import its entry file with \`tollgate link import\`, which reads the files next to it, or bundle it into one file.`,
    )
  const nowhere = () =>
    new SkippedOperation(`The reference ${shown(reference)} has no target in the document.`)
  if (reference !== '#' && !reference.startsWith('#/')) throw nowhere()
  let at: unknown = root
  for (const part of reference.slice(2).split('/')) {
    if (reference === '#') break
    const key = decoded(part).replaceAll('~1', '/').replaceAll('~0', '~')
    if (isTree(at) && !Object.hasOwn(at, key)) at = walk(root, at, steps).target
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) throw nowhere()
    at = (at as Tree)[key]
  }
  return at
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

const shown = (reference: unknown): string => JSON.stringify(String(reference).slice(0, 100))

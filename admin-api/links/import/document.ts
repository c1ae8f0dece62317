import { CORE_SCHEMA, load, mergeTag, YAMLException } from 'js-yaml'

/** Of an OpenAPI document as it is sent, in UTF-8. */
export const MAX_OPENAPI_BYTES = 16_000_000
/** Deeper than any document that somebody wrote; what walks a document recurses no further. */
const MAX_DEPTH = 100
/** Aliases repeat what they lead to: written out, a document has no more characters than this. */
const MAX_PLAIN_CHARS = 4 * MAX_OPENAPI_BYTES
/** Keys that `<<` brings in, of all places together. */
const MAX_MERGED_KEYS = 1_000_000

/** YAML 1.2, whose `no` is a word, with the merge keys of 1.1, which hand-written documents use. */
const schema = CORE_SCHEMA.withTags([mergeTag])

export type Tree = { readonly [key: string]: unknown }

/** What can not be imported at all, in words for who sent it. */
export class ImportRefusal extends Error {
  override readonly name = 'ImportRefusal'
  /** The field of the request that is wrong. */
  readonly path: string

  constructor(path: string, message: string) {
    super(message)
    this.path = path
  }
}

/** An OpenAPI document of version 3.0 or 3.1: no key is there twice, no value within itself. */
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

/** The value of a text in YAML or JSON, which has no value within itself. @throws {ImportRefusal} */
export function readTree(text: string): unknown {
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_OPENAPI_BYTES)
    throw refusal(`Expected at most ${MAX_OPENAPI_BYTES} bytes, got ${bytes}. Import a part of it at a time.`)
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

/** undefined for what is no JSON. @throws {ImportRefusal} for a key that is there twice */
function jsonOf(text: string): unknown {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    return undefined
  }
  const twice = keyThatIsTwice(text)
  if (twice !== undefined) throw refusal(`The key ${JSON.stringify(twice)} is there twice in one object.`)
  return json
}

function yamlOf(text: string): unknown {
  if (text.trim() === '') return undefined
  try {
    return load(text, { schema, maxDepth: MAX_DEPTH, maxTotalMergeKeys: MAX_MERGED_KEYS })
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error
    const line = error.mark === undefined ? '' : `Line ${error.mark.line + 1}: `
    throw refusal(`This is neither JSON nor YAML. ${line}${error.reason.slice(0, 200)}.`)
  }
}

/** JSON.parse takes the last of two, other readers the first. @param text is JSON */
function keyThatIsTwice(text: string): string | undefined {
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

/** Walks all that aliases lead to as often as they do, without recursion, so that depth costs no stack. @throws {ImportRefusal} */
function measure(root: unknown): void {
  let chars = 0
  const stack: [value: unknown, depth: number][] = [[root, 0]]
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    const [value, depth] = entry
    chars += typeof value === 'string' ? value.length + 1 : 1
    if (chars > MAX_PLAIN_CHARS) throw refusal('Its aliases repeat more than any document needs.')
    if (typeof value !== 'object' || value === null) continue
    if (depth > MAX_DEPTH)
      throw refusal(
        `The document is nested more than ${MAX_DEPTH} levels deep, or one of its aliases leads to itself.`,
      )
    for (const child of Object.values(value)) stack.push([child, depth + 1])
  }
}

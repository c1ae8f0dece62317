import { parseDocument } from 'yaml'

/** Of an OpenAPI document as it is sent, in UTF-8. */
export const MAX_OPENAPI_BYTES = 2_000_000
/** Deeper than any document that somebody wrote; what walks a document recurses no further. */
const MAX_DEPTH = 100
/** Aliases may repeat what they lead to: as plain JSON a document has no more characters than this. */
const MAX_PLAIN_CHARS = 8_000_000

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

/** An OpenAPI document that is what it says: of version 3.0 or 3.1, no key there twice, no value within itself. */
export interface OpenApiDocument {
  readonly root: Tree
  readonly version: '3.0' | '3.1'
}

/** Reads YAML 1.2 or JSON. @throws {ImportRefusal} */
export function readDocument(text: string): OpenApiDocument {
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_OPENAPI_BYTES)
    throw refusal(`Expected at most ${MAX_OPENAPI_BYTES} bytes, got ${bytes}. Import a part of it at a time.`)
  const root = treeOf(text)
  if (!isTree(root))
    throw refusal('Expected an OpenAPI document: an object that begins with `openapi: 3.1.0`.')
  if (isDeeperThan(root, MAX_DEPTH))
    throw refusal(`The document is nested more than ${MAX_DEPTH} levels deep.`)
  return { root, version: versionOf(root) }
}

export const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const refusal = (message: string): ImportRefusal => new ImportRefusal('document', message)

function versionOf({ openapi, swagger }: Tree): '3.0' | '3.1' {
  if (swagger !== undefined)
    throw refusal(
      `Expected OpenAPI 3.0 or 3.1, got Swagger ${String(swagger).slice(0, 10)}. Convert it first: the Swagger editor (Edit, Convert to OpenAPI 3) and swagger2openapi do that.`,
    )
  // YAML reads `openapi: 3.0` without quotes as the number 3.
  const found = /^3\.([01])(?:\.|$)/.exec(openapi === 3 ? '3.0' : String(openapi ?? ''))
  if (found === null) {
    const given = openapi === undefined ? 'no `openapi` field' : `version ${String(openapi).slice(0, 20)}`
    throw refusal(`Expected a document of OpenAPI 3.0 or 3.1, got ${given}.`)
  }
  return `3.${found[1]}` as '3.0' | '3.1'
}

function treeOf(text: string): unknown {
  const json = jsonOf(text)
  if (json !== undefined) {
    const twice = keyThatIsTwice(text)
    if (twice !== undefined) throw refusal(`The key ${JSON.stringify(twice)} is there twice in one object.`)
    return json
  }
  try {
    const document = parseDocument(text, { version: '1.2', logLevel: 'silent', prettyErrors: false })
    const [error] = document.errors
    if (error !== undefined) {
      const line = text.slice(0, error.pos[0]).split('\n').length
      throw refusal(`This is neither JSON nor YAML. Line ${line}: ${error.message.slice(0, 200)}`)
    }
    // A value that stands within itself has no JSON, and one that an alias repeats is a value of its own there.
    const plain = JSON.stringify(document.toJS()) ?? 'null'
    if (plain.length > MAX_PLAIN_CHARS) throw refusal('Its aliases repeat more than any document needs.')
    return JSON.parse(plain)
  } catch (error) {
    if (error instanceof ImportRefusal) throw error
    if (error instanceof RangeError) throw refusal('The document is nested too deeply to be read.')
    throw refusal('Its aliases repeat more than any document needs, or lead to themselves.')
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
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

/** Walks without recursion, so that depth costs no stack. */
function isDeeperThan(root: unknown, most: number): boolean {
  const stack: [value: unknown, depth: number][] = [[root, 0]]
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    const [value, depth] = entry
    if (typeof value !== 'object' || value === null) continue
    if (depth > most) return true
    for (const child of Object.values(value)) stack.push([child, depth + 1])
  }
  return false
}

import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  visit,
} from 'yaml'
import { childPointer, type Pointer, parentPointer } from './pointer.ts'

/** A range of the file. Offsets are in UTF-16 units. */
export interface Span {
  readonly start: number
  readonly end: number
}

/** A problem that has no line yet. */
export interface SourceProblem {
  /** Undefined for the file itself. */
  readonly span: Span | undefined
  readonly pointer: Pointer
  readonly message: string
  readonly hint?: string
}

/**
 * A configuration file that was read, with its values as written, without replacements and defaults, and with the position of each
 * value.
 */
export interface Source {
  readonly file: string
  readonly text: string
  readonly tree: unknown
  readonly problems: readonly SourceProblem[]
  /**
   * The position of a key or, for an item of a list, of the value. If the key is missing, the position of its nearest parent.
   * Undefined if that parent is the file itself.
   */
  spanOf(pointer: Pointer, part?: 'key' | 'value'): Span | undefined
  lineOf(offset: number): { line: number; column: number }
}

/**
 * Maximum size of a file in bytes, and maximum number of its values, of its nesting levels and of its aliases. No real
 * configuration reaches these limits. They stop a file that grows through aliases ("billion laughs").
 */
const MAX_BYTES = 1_000_000
const MAX_NODES = 20_000
const MAX_DEPTH = 40
const MAX_ALIASES = 1_000

/** Reads YAML 1.2, or JSON if the file's name ends in `.json`. Never throws, because problems of the text are in the result. */
export function readSource(file: string, text: string): Source {
  const reader = new Reader(text, file.toLowerCase().endsWith('.json'))
  reader.read()
  return {
    file,
    text,
    tree: reader.tree,
    problems: reader.problems,
    spanOf: (pointer, part = 'key') => reader.spanOf(pointer, part),
    lineOf: (offset) => {
      const { line, col } = reader.lines.linePos(offset)
      return { line: Math.max(1, line), column: Math.max(1, col) }
    },
  }
}

class Reader {
  readonly lines = new LineCounter()
  readonly problems: SourceProblem[] = []
  tree: unknown = {}
  readonly #locations = new Map<Pointer, { key?: Span; value: Span }>()
  readonly #text: string
  readonly #isJson: boolean
  #resolve: (node: Node) => Node | undefined = (node) => node
  #nodes = 0
  #aliases = 0

  constructor(text: string, isJson: boolean) {
    this.#text = text
    this.#isJson = isJson
  }

  read(): void {
    if (Buffer.byteLength(this.#text) > MAX_BYTES) {
      this.#report('', undefined, `The file is larger than ${MAX_BYTES} bytes.`)
      return
    }
    try {
      this.#parse()
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      this.#report('', undefined, 'The file is nested too deeply to be read.')
    }
  }

  #parse(): void {
    const doc = parseDocument(this.#text, {
      lineCounter: this.lines,
      prettyErrors: false,
      version: '1.2',
      logLevel: 'silent',
      // The option is off, because the library compares each key with all keys before it. `plainMap` checks the keys with a map
      // instead.
      uniqueKeys: false,
    })
    for (const { message, pos } of [...doc.errors, ...doc.warnings]) {
      const hint = this.#isVariableInBrackets(pos[0]) ? { hint: quoteVariable } : {}
      this.problems.push({
        pointer: '',
        span: { start: pos[0], end: pos[1] },
        message: sentence(message),
        ...hint,
      })
    }
    if (this.#isJson) this.#checkJson()
    let targets: ReturnType<typeof targetsIn> | undefined
    this.#resolve = (node) => (isAlias(node) ? (targets ??= targetsIn(doc)).get(node) : node)
    if (doc.contents === null || this.problems.length > 0) return
    const tree = this.#plain(doc.contents, '', 0)
    if (tree === null) return
    if (typeof tree === 'object' && !Array.isArray(tree)) this.tree = tree
    else
      this.#report('', doc.contents, 'Expected options with names (`publicUrl: …`) at the top of the file.')
  }

  /** Whether a problem is a variable within `[ ]` or `{ }`, where YAML reads the brace of `${NAME}` as the beginning of a map. */
  #isVariableInBrackets(at: number): boolean {
    // Only nearby text is searched, because a line may be as long as the file, and each of its characters may cause an error.
    const before = this.#text.slice(Math.max(0, at - 200), at)
    const after = this.#text.slice(at, at + 200)
    const line = before.slice(before.lastIndexOf('\n') + 1) + after.split('\n', 1)[0]
    const opening = line.search(/[[{]/)
    return opening >= 0 && /^[^"'#]*\$\{/.test(line.slice(opening + 1))
  }

  #checkJson(): void {
    try {
      JSON.parse(this.#text)
    } catch (error) {
      // V8's message quotes the file including its secrets, so only the position in it is used.
      const at = Number(/position (\d+)/.exec((error as Error).message)?.[1] ?? 0)
      this.problems.push({
        pointer: '',
        span: { start: at, end: at + 1 },
        message: 'This is not valid JSON.',
      })
    }
  }

  #plain(node: Node | null, pointer: Pointer, depth: number): unknown {
    if (node === null) return null
    this.#locate(pointer, node)
    if (this.#isTooLarge(node, pointer, depth)) return null
    const target = this.#resolve(node)
    if (target === undefined) this.#report(pointer, node, 'This alias has no anchor before it.')
    if (isMap(target)) return this.#plainMap(target.items, pointer, depth)
    if (isSeq(target)) {
      return target.items.map((item, i) =>
        this.#plain(item as Node | null, childPointer(pointer, i), depth + 1),
      )
    }
    if (isScalar(target)) return target.value
    return null
  }

  #plainMap(pairs: readonly { key: unknown; value: unknown }[], pointer: Pointer, depth: number): object {
    const plain: Record<string, unknown> = {}
    for (const { key: keyNode, value } of pairs) {
      const key = this.#keyOf(keyNode as Node | null, pointer)
      if (key === undefined) continue
      const child = childPointer(pointer, key)
      if (Object.hasOwn(plain, key))
        this.#report(child, keyNode as Node, `The key ${JSON.stringify(key)} occurs twice.`)
      this.#locate(child, (value ?? keyNode) as Node, keyNode as Node)
      plain[key] = this.#plain(value as Node | null, child, depth + 1)
    }
    return plain
  }

  #keyOf(node: Node | null, pointer: Pointer): string | undefined {
    if (node !== null && this.#hasTooManyAliases(node, pointer)) return undefined
    const target = node && this.#resolve(node)
    const key = isScalar(target) ? String(target.value) : undefined
    if (key === undefined) this.#report(pointer, node ?? undefined, 'Expected a name as the key.')
    if (key === '<<') {
      this.#report(
        pointer,
        node!,
        'Merge keys (`<<`) are not supported.',
        'Repeat the options, or use an alias for a whole value.',
      )
      return undefined
    }
    // This key would set the object's prototype instead of a property.
    if (key === '__proto__') this.#report(pointer, node!, 'This key is not allowed.')
    return key === '__proto__' ? undefined : key
  }

  #isTooLarge(node: Node, pointer: Pointer, depth: number): boolean {
    if (depth > MAX_DEPTH) this.#reportOnce(pointer, node, `Values are nested more than ${MAX_DEPTH} deep.`)
    else if (++this.#nodes > MAX_NODES)
      this.#reportOnce(pointer, node, `The file has more than ${MAX_NODES} values.`)
    else return this.#hasTooManyAliases(node, pointer)
    return true
  }

  #hasTooManyAliases(node: Node, pointer: Pointer): boolean {
    if (!isAlias(node) || ++this.#aliases <= MAX_ALIASES) return false
    this.#reportOnce(pointer, node, `The file has more than ${MAX_ALIASES} aliases.`)
    return true
  }

  #reportOnce(pointer: Pointer, node: Node, message: string): void {
    if (this.problems.at(-1)?.message !== message) this.#report(pointer, node, message)
  }

  #report(pointer: Pointer, node: Node | undefined, message: string, hint?: string): void {
    this.problems.push({
      pointer,
      span: node && spanOfNode(node),
      message,
      ...(hint === undefined ? {} : { hint }),
    })
  }

  #locate(pointer: Pointer, node: Node, keyNode?: Node): void {
    const key = keyNode === undefined ? this.#locations.get(pointer)?.key : spanOfNode(keyNode)
    this.#locations.set(pointer, { ...(key === undefined ? {} : { key }), value: spanOfNode(node) })
  }

  spanOf(pointer: Pointer, part: 'key' | 'value'): Span | undefined {
    if (pointer === '') return undefined
    const location = this.#locations.get(pointer)
    if (location !== undefined) return part === 'key' ? (location.key ?? location.value) : location.value
    return this.spanOf(parentPointer(pointer), 'key')
  }
}

/**
 * The value of each alias, which is the last value before the alias with the same anchor. The library would search the whole
 * document for each alias.
 */
function targetsIn(doc: Document): ReadonlyMap<Node, Node> {
  const anchored = new Map<string, Node>()
  const targets = new Map<Node, Node>()
  visit(doc as Document.Parsed, {
    Node(_, node) {
      const target = isAlias(node) ? anchored.get(node.source) : undefined
      if (target !== undefined) targets.set(node as Node, target)
      if (!isAlias(node) && node.anchor !== undefined) anchored.set(node.anchor, node as Node)
    },
  })
  return targets
}

const spanOfNode = (node: Node): Span => ({ start: node.range?.[0] ?? 0, end: node.range?.[1] ?? 0 })

const quoteVariable = 'Within [ ] and { }, put a variable in quotes: "${NAME}".'

const sentence = (message: string): string => (message.endsWith('.') ? message : `${message}.`)

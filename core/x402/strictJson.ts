/** Maximum nesting of arrays and objects, if the caller sets no other limit. */
const DEFAULT_MAX_DEPTH = 64

interface StrictJsonOptions {
  /** Maximum nesting of arrays and objects. A scalar alone has depth 0. 64 if absent. */
  readonly maxDepth?: number
}

type StrictJson =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly message: string }

/**
 * Reads JSON that has only one meaning. It follows the grammar of RFC 8259, and refuses what parsers read differently: duplicate
 * keys (section 4), unpaired surrogates (section 8.2), a byte order mark (section 8.1), numbers beyond the range of a double
 * (section 6), deep nesting, and the key `__proto__`, which `Object.assign` would treat as a prototype.
 *
 * Objects have the usual prototype, so a reader that gets a name from outside must check `Object.hasOwn` first. Messages name keys
 * and positions, never values. The work is linear in the text's length, which the caller limits.
 *
 * @example parseStrictJson('{"a":1,"a":2}') // { ok: false, message: 'Expected each key once in an object, got "a" twice.' }
 */
export function parseStrictJson(text: string, options: StrictJsonOptions = {}): StrictJson {
  if (!text.isWellFormed()) return refused('Expected well-formed Unicode, got an unpaired surrogate.')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    // V8's message quotes the text, so only the position in it is passed on.
    const position = / at position (\d+)/.exec((error as Error).message)?.[1]
    return refused(
      `Expected JSON (RFC 8259)${position === undefined ? '' : `, got something else at ${position}`}.`,
    )
  }
  const maxDepth = options.maxDepth ?? DEFAULT_MAX_DEPTH
  if (isPlain(text, value, maxDepth)) return { ok: true, value }
  const problem = findAmbiguity(text, maxDepth)
  return problem === undefined ? { ok: true, value } : refused(problem)
}

const refused = (message: string): StrictJson => ({ ok: false, message })

/**
 * Whether a text without escapes has only one meaning, judged by its parsed value. This takes a fraction of the work of
 * {@link findAmbiguity}, which decides for every other text (bench/paid.ts).
 *
 * Without escapes, equal keys have equal texts. The parsed value keeps only one of two equal keys, so it has fewer keys than the
 * text has colons outside strings.
 */
function isPlain(text: string, value: unknown, maxDepth: number): boolean {
  return !text.includes('\\') && keysOf(value, maxDepth) === colonsOf(text)
}

/** Number of keys of all objects in a value. NaN if the value is too deep, or contains a forbidden number or key. */
function keysOf(value: unknown, depthLeft: number): number {
  if (typeof value === 'number') return Number.isFinite(value) ? 0 : Number.NaN
  if (typeof value !== 'object' || value === null) return 0
  if (depthLeft === 0) return Number.NaN
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) count += keysOf(item, depthLeft - 1)
    return count
  }
  for (const key of Object.keys(value)) {
    if (key === '__proto__') return Number.NaN
    count += 1 + keysOf((value as Record<string, unknown>)[key], depthLeft - 1)
  }
  return count
}

/** Number of colons outside strings, in a JSON text without escapes. */
function colonsOf(text: string): number {
  let count = 0
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c === QUOTE) i = text.indexOf('"', i + 1)
    else if (c === COLON) count++
  }
  return count
}

const QUOTE = 0x22
const COLON = 0x3a
const BACKSLASH = 0x5c

/**
 * The ambiguity of a text. The text is known to be valid JSON, which keeps the scan simple. The scan is iterative, so that no input
 * can exhaust the stack. It skips strings by `indexOf`, which is fast for signatures and transactions.
 */
function findAmbiguity(text: string, maxDepth: number): string | undefined {
  /** One entry per open container, which has the keys so far, or is null for an array. */
  const open: (Set<string> | null)[] = []
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c === 0x7b || c === 0x5b) {
      if (open.length === maxDepth) return `Expected at most ${maxDepth} levels of nesting, got more.`
      open.push(c === 0x7b ? new Set() : null)
    } else if (c === 0x7d || c === 0x5d) {
      open.pop()
    } else if (c === QUOTE) {
      const end = endOfString(text, i)
      const raw = text.slice(i + 1, end)
      const string = raw.includes('\\') ? (JSON.parse(text.slice(i, end + 1)) as string) : raw
      if (string !== raw && !string.isWellFormed())
        return 'Expected well-formed Unicode, got an unpaired surrogate.'
      i = end
      if (isKey(text, end)) {
        if (string === '__proto__') return 'Expected ordinary keys, got "__proto__".'
        const keys = open.at(-1)!
        if (keys.has(string)) return `Expected each key once in an object, got ${shorten(string)} twice.`
        keys.add(string)
      }
    } else if (c === 0x2d || (c >= 0x30 && c <= 0x39)) {
      const end = endOfNumber(text, i)
      if (!Number.isFinite(Number(text.slice(i, end))))
        return `Expected a number in range at ${i}, got a larger one.`
      i = end - 1
    }
  }
}

/** Index of the quote that closes the string that begins at `start`. */
function endOfString(text: string, start: number): number {
  let end = start
  do {
    end = text.indexOf('"', end + 1)
  } while (isEscaped(text, end))
  return end
}

/** Whether an odd number of backslashes precedes the index. */
function isEscaped(text: string, index: number): boolean {
  let first = index
  while (text.charCodeAt(first - 1) === BACKSLASH) first--
  return (index - first) % 2 === 1
}

function endOfNumber(text: string, start: number): number {
  let end = start + 1
  // Digits, signs, `.`, `e` and `E` belong to the number. In valid JSON it ends at whitespace, a comma, a bracket or the end.
  while (end < text.length && /[\d+\-.eE]/.test(text[end]!)) end++
  return end
}

/** Whether a string is a key, which in valid JSON is the case exactly if a colon follows. */
function isKey(text: string, end: number): boolean {
  let next = end + 1
  while (text.charCodeAt(next) <= 0x20) next++
  return text.charCodeAt(next) === COLON
}

const shorten = (key: string): string => JSON.stringify(key.length > 40 ? `${key.slice(0, 40)}…` : key)

/** A property of the object itself, never of its prototype. Undefined if there is none. */
export function own(object: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Reads bytes as strict JSON in UTF-8. Never throws. */
export function parseBody(body: Uint8Array): StrictJson {
  try {
    return parseStrictJson(utf8.decode(body))
  } catch {
    return { ok: false, message: 'Expected UTF-8, got other bytes.' }
  }
}

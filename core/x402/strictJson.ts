/** Deepest nesting of arrays and objects that is accepted unless the caller says otherwise. */
const DEFAULT_MAX_DEPTH = 64

export interface StrictJsonOptions {
  /** Deepest nesting of arrays and objects; a scalar alone has depth 0. Default 64. */
  readonly maxDepth?: number
}

export type StrictJson =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly message: string }

/**
 * Reads JSON that has one meaning only. Beyond the grammar of RFC 8259 it refuses what parsers disagree about: duplicate
 * keys (section 4), unpaired surrogates (section 8.2), a byte order mark (section 8.1), numbers beyond the range of a
 * double (section 6), deep nesting, and the key `__proto__`, which `Object.assign` would take for a prototype.
 *
 * Objects have the usual prototype, so a reader that takes a name from outside asks `Object.hasOwn` first. Messages name
 * keys and positions, never values. The work is linear in the text's length; the caller bounds the length.
 *
 * @example parseStrictJson('{"a":1,"a":2}') // { ok: false, message: 'Expected each key once in an object, got "a" twice.' }
 */
export function parseStrictJson(text: string, options: StrictJsonOptions = {}): StrictJson {
  if (!text.isWellFormed()) return refused('Expected well-formed Unicode, got an unpaired surrogate.')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    // V8's message quotes the text; only the position is safe to pass on.
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
 * Whether a text without escapes has one meaning, told from what was read of it: a fraction of the work of
 * {@link findAmbiguity}, which has the last word on every other text (bench/paid.ts).
 *
 * Without escapes a key is the same text wherever it stands, and of one that is written twice the value keeps one: then it
 * has fewer keys than the text has colons outside strings.
 */
function isPlain(text: string, value: unknown, maxDepth: number): boolean {
  return !text.includes('\\') && keysOf(value, maxDepth) === colonsOf(text)
}

/** How many keys all objects in a value have; NaN when it is too deep, or has a number or a key that is refused. */
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

/** Colons outside strings, in a text of JSON without escapes. */
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
 * What is ambiguous in a text that is known to be JSON: that knowledge keeps the scan simple. Iterative, so that no input
 * can exhaust the stack; strings are skipped by `indexOf`, which is what makes it fast on signatures and transactions.
 */
function findAmbiguity(text: string, maxDepth: number): string | undefined {
  /** One entry per open container: the keys seen so far, null for an array. */
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

/** Index of the quote that closes the string opened at `start`. */
function endOfString(text: string, start: number): number {
  let end = start
  do {
    end = text.indexOf('"', end + 1)
  } while (isEscaped(text, end))
  return end
}

/** True when an odd number of backslashes stands before the index. */
function isEscaped(text: string, index: number): boolean {
  let first = index
  while (text.charCodeAt(first - 1) === BACKSLASH) first--
  return (index - first) % 2 === 1
}

function endOfNumber(text: string, start: number): number {
  let end = start + 1
  // In valid JSON a number ends at whitespace, a comma, a bracket or the end: digits, signs, `.`, `e` and `E` go on.
  while (end < text.length && /[\d+\-.eE]/.test(text[end]!)) end++
  return end
}

/** In valid JSON a string is a key exactly when a colon follows. */
function isKey(text: string, end: number): boolean {
  let next = end + 1
  while (text.charCodeAt(next) <= 0x20) next++
  return text.charCodeAt(next) === COLON
}

const shorten = (key: string): string => JSON.stringify(key.length > 40 ? `${key.slice(0, 40)}…` : key)

/** A property of the object itself, so that nothing is read from a prototype; undefined when it has none. */
export function own(object: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

import { setImmediate as nextTurn } from 'node:timers/promises'
import { VaultError } from '../errors/error.ts'

const mask = '[secret]'
/** How long a search runs before it yields to other work, in ms. */
const TURN_MS = 10
/** Maximum duration of a search, in ms. If a text takes longer, it was crafted to be slow and is refused. */
const MAX_SEARCH_MS = 10_000
/** Characters per step of a search. */
const WINDOW = 32_768

/**
 * Removes a secret from bytes of another party, in every form in which an honest server could return it. These forms are plain,
 * escaped for JSON, URLs, HTML, mail or source code (each character in its own way, once or twice), UTF-16, reversed, hex, a
 * list of numbers, and base64 or base32 at any position inside longer base64, broken into lines. A dishonest server can still
 * pass the secret on, so the rules decide which servers get it.
 *
 * The search of a long text yields every {@link TURN_MS}.
 *
 * No form is a single regular expression. For a long secret, such as a signed token, its compilation could take seconds or
 * fail, and the error would quote the secret.
 *
 * @param secrets the stored text and its derived forms, such as `user:password` in base64
 * @returns Latin-1 text, one character per byte. It throws `UPSTREAM_ERROR` if the search takes too long
 */
export function createMask(secrets: readonly string[]): (latin1: string) => Promise<string> {
  const finders = [...new Set(secrets)].filter((text) => text !== '').flatMap(findersOf)
  return async (text) => {
    // Each form searches the whole text, and overlapping matches are merged. So a form inside another form leaves no remainder.
    const found = (await search(text, finders)).sort((a, b) => a.from - b.from)
    let masked = ''
    let done = 0
    for (const { from, to } of found) {
      if (from >= done) masked += text.slice(done, from) + mask
      done = Math.max(done, to)
    }
    return masked + text.slice(done)
  }
}

interface Range {
  readonly from: number
  readonly to: number
}
/** Yields every match of one form in a text, and undefined between two steps of the search. */
type Find = (text: string) => Iterable<Range | undefined>

async function search(text: string, finders: readonly Find[]): Promise<Range[]> {
  const found: Range[] = []
  let turnBeganMs = performance.now()
  let workedMs = 0
  for (const find of finders) {
    for (const range of find(text)) {
      if (range !== undefined) found.push(range)
      const turnMs = performance.now() - turnBeganMs
      if (turnMs < TURN_MS) continue
      workedMs += turnMs
      if (workedMs > MAX_SEARCH_MS)
        throw new VaultError(
          'UPSTREAM_ERROR',
          'Searching the response for the credential took too long, so the vault does not return the response.',
        )
      await nextTurn()
      turnBeganMs = performance.now()
    }
  }
  return found
}

const literal = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\/-]/g, '\\$&')
const latin1 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')

function findersOf(secret: string): Find[] {
  const bytes = Buffer.from(secret, 'utf8')
  const utf16 = Buffer.from(secret, 'utf16le')
  const raw = [latin1(secret), utf16.toString('latin1'), Buffer.from(utf16).swap16().toString('latin1')]
  // A shorter secret has so few characters that almost any text would match.
  if (bytes.length < 4)
    return [...raw.map(asItIs), escaped(secret), asItIs(bytes.toString('base64').replaceAll('=', ''))]
  const hex = [...bytes].map((byte) => [byte.toString(16).padStart(2, '0')])
  const numbers = [...bytes].map((byte) => [String(byte)])
  return [
    ...raw.map(asItIs),
    escaped(secret),
    escaped([...secret].reverse().join('')),
    spelled(hex, { unit: '[\\s:,;"\'-]{0,64}(?:0x|\\\\{1,4}x)?', least: 1, most: 1 }),
    spelled(numbers, { unit: '[\\s,;]{1,64}', least: 1, most: 1 }),
    ...based(bytes, 6, base64Of),
    ...based(bytes, 5, base32Of),
  ]
}

/** Finds a spelling, ignoring case. */
function asItIs(spelling: string): Find {
  const wanted = spelling.toLowerCase()
  return function* (text) {
    const lower = text.toLowerCase()
    yield
    for (let from = lower.indexOf(wanted); from !== -1; from = lower.indexOf(wanted, from + wanted.length))
      yield { from, to: from + wanted.length }
  }
}

/** The characters that may stand between two parts, and their number. */
interface Gap {
  readonly unit: string
  readonly least: number
  readonly most: number
}

/** Number of parts that are searched for together. After a match, the rest is compared step by step. */
const FIRST_PARTS = 3
/** Maximum length of one character's form and of a gap, in characters. */
const LONGEST_CHARACTER = 40
const LONGEST_GAP = 80

/**
 * Finds parts in sequence, each in any of its forms. A form is a pattern with only one possible end at each position. All
 * positions after a step are followed together, so the time is at most proportional to the text's length times the secret's.
 *
 * @param firstCharacters how many characters the first parts stand for
 */
function spelled(parts: readonly (readonly string[])[], gap: Gap, firstCharacters = FIRST_PARTS): Find {
  const compiled = new Map<string, RegExp>()
  const sticky = (source: string): RegExp => {
    const known = compiled.get(source) ?? new RegExp(source, 'iy')
    compiled.set(source, known)
    return known
  }
  // Each pattern is compiled when a text first reaches it, because most patterns of a long secret are never needed.
  const steps = parts.map((encodings) => {
    let patterns: readonly RegExp[] | undefined
    return { itself: itselfOf(encodings), patterns: () => (patterns ??= encodings.map(sticky)) }
  })
  const between = sticky(gap.unit)
  const longestBeginning = LONGEST_CHARACTER * firstCharacters + LONGEST_GAP * FIRST_PARTS
  const first = parts.slice(0, FIRST_PARTS).map((encodings) => `(?:${encodings.join('|')})`)
  const beginning = new RegExp(first.join(`(?:${gap.unit}){${gap.least},${gap.most}}`), 'i')

  function endOf(text: string, from: number): number | undefined {
    let indexes: readonly number[] = [from]
    for (const [i, { itself, patterns }] of steps.entries()) {
      if (i > 0) indexes = past(text, indexes)
      const [index] = indexes
      // This is the usual case, because most characters stand for themselves.
      if (indexes.length === 1 && text.charCodeAt(index!) === itself) indexes = [index! + 1]
      else indexes = unique(indexes.flatMap((one) => ends(text, one, patterns())))
      if (indexes.length === 0) return undefined
    }
    return Math.max(...indexes)
  }
  function past(text: string, indexes: readonly number[]): readonly number[] {
    let reached = indexes
    if (gap.least === 0 && indexes.length === 1 && ends(text, indexes[0]!, [between]).length === 0)
      return indexes
    const all = gap.least === 0 ? [...indexes] : []
    for (let count = 1; count <= gap.most && reached.length > 0; count++) {
      reached = unique(reached.flatMap((index) => ends(text, index, [between])))
      if (count >= gap.least) all.push(...reached)
    }
    return unique(all)
  }

  return function* (text) {
    for (let at = 0; at < text.length; ) {
      const index = text.slice(at, at + WINDOW + longestBeginning).search(beginning)
      if (index === -1 || index >= WINDOW) {
        at += WINDOW
        yield
        continue
      }
      const from = at + index
      const to = endOf(text, from)
      yield to === undefined ? undefined : { from, to }
      at = to ?? from + 1
    }
  }
}

/** The single character of a part that stands for itself and starts no other form. */
const itselfOf = ([encoding = '']: readonly string[]): number =>
  /^[^%&\\+="']$/.test(encoding) ? encoding.charCodeAt(0) : -1

function ends(text: string, index: number, encodings: readonly RegExp[]): number[] {
  const found: number[] = []
  for (const encoding of encodings) {
    encoding.lastIndex = index
    if (encoding.test(text)) found.push(encoding.lastIndex)
  }
  return found
}

const unique = (indexes: readonly number[]): readonly number[] =>
  indexes.length < 2 ? indexes : [...new Set(indexes)]

/** Finds each character in any of its escaped forms. */
function escaped(text: string): Find {
  // A run of backslashes is one part. Each may be doubled, so their total number must not matter.
  const parts = text.match(/\\+|[^\\]/gsu) ?? []
  const encodings = new Map(
    parts.map((part) => [part, part.startsWith('\\') ? backslashes(part.length) : character(part)]),
  )
  return spelled(
    parts.map((part) => encodings.get(part)!),
    // The gap is a zero byte (UTF-16 and UTF-32), or a soft line break in quoted-printable.
    { unit: '\\x00|=\\r?\\n', least: 0, most: 3 },
    parts.slice(0, FIRST_PARTS).join('').length,
  )
}

const backslashes = (count: number): string[] => [
  ...Array.from({ length: 3 * count + 1 }, (_, more) => `\\\\{${count + more}}`),
  `(?:%(?:25){0,2}5c|&(?:amp;){0,2}(?:#0{0,4}92|#x0{0,4}5c|bsol);|\\\\{1,4}u005c|\\\\{1,4}x5c|\\\\{1,4}134|=5c){${count}}`,
]

/** HTML's names for ASCII characters, without the backslash. */
const namedEntities: Readonly<Record<string, string>> = {
  '\t': 'tab',
  '\n': 'newline',
  '!': 'excl',
  '"': 'quot',
  '#': 'num',
  $: 'dollar',
  '%': 'percnt',
  '&': 'amp',
  "'": 'apos',
  '(': 'lpar',
  ')': 'rpar',
  '*': '(?:mid)?ast',
  '+': 'plus',
  ',': 'comma',
  '.': 'period',
  '/': 'sol',
  ':': 'colon',
  ';': 'semi',
  '<': 'lt',
  '=': 'equals',
  '>': 'gt',
  '?': 'quest',
  '@': 'commat',
  '[': '(?:lsqb|lbrack)',
  ']': '(?:rsqb|rbrack)',
  '^': 'hat',
  _: '(?:lowbar|underbar)',
  '`': '(?:grave|diacriticalgrave)',
  '{': '(?:lcub|lbrace)',
  '|': '(?:verbar|vert|verticalline)',
  '}': '(?:rcub|rbrace)',
}
const shortEscapes: Readonly<Record<string, string>> = {
  '\n': 'n',
  '\r': 'r',
  '\t': 't',
  '\b': 'b',
  '\f': 'f',
}

function character(c: string): string[] {
  const code = c.codePointAt(0)!
  const units = [...Array(c.length).keys()].map((i) => c.charCodeAt(i).toString(16).padStart(4, '0'))
  const bytes = [...Buffer.from(c, 'utf8')].map((byte) => byte.toString(16).padStart(2, '0'))
  const again = [0, 1, 2]
  const encodings = [
    literal(latin1(c)),
    // The escape character also stands for itself, because one position can be the end of a single escape and the middle of a
    // double one.
    ...(c === '%'
      ? again.map((times) => `%(?:25){${times}}25`)
      : [bytes.map((byte) => `%(?:25){0,2}${byte}`).join('')]),
    units.map((unit) => `\\\\{1,4}u${unit}`).join(''),
    `\\\\{1,4}u\\{0{0,4}${code.toString(16)}\\}`,
    bytes.map((byte) => `\\\\{1,4}x${byte}`).join(''),
    bytes.map((byte) => `\\\\{1,4}${Number.parseInt(byte, 16).toString(8).padStart(3, '0')}`).join(''),
    bytes.map((byte) => `=${byte}`).join('(?:=\\r?\\n)?'),
    ...['', ';'].map((end) => `&(?:amp;){0,2}#0{0,4}${code}${end}`),
    ...['', ';'].map((end) => `&(?:amp;){0,2}#x0{0,4}${code.toString(16)}${end}`),
  ]
  if (c === ' ') encodings.push('\\+')
  // Markdown, shells and patterns use this escape too.
  if (/[^0-9A-Za-z\\\x80-\u{10ffff}]/u.test(c)) encodings.push(`\\\\{1,4}${literal(c)}`)
  // CSV and SQL double quotes.
  if (/["']/.test(c)) encodings.push(c + c)
  if (Object.hasOwn(namedEntities, c))
    encodings.push(...again.map((times) => `&(?:amp;){${times}}${namedEntities[c]};`))
  if (Object.hasOwn(shortEscapes, c)) encodings.push(`\\\\{1,4}${shortEscapes[c]}`)
  return encodings
}

/**
 * Base64 and base32 of a secret depend on its offset among the bytes before it. Each possible offset has one pattern, with the
 * letters that only the secret determines.
 */
function based(bytes: Buffer, bits: 5 | 6, encode: (bytes: Buffer) => string): Find[] {
  const indexes = bits === 6 ? [0, 1, 2] : [0, 1, 2, 3, 4]
  return indexes.map((shift) => {
    const whole = encode(Buffer.concat([Buffer.alloc(shift), bytes]))
    const first = Math.ceil((shift * 8) / bits)
    const last = Math.floor(((shift + bytes.length) * 8) / bits)
    const gap = { unit: '[\\r\\n\\t ]|\\\\{1,4}[rnt]|%0[ad]', least: 0, most: 16 }
    return spelled([...whole.slice(first, last)].map(message), gap)
  })
}

/** The forms of base64's two letters that are not alphanumeric, in both variants and escaped. */
function message(c: string): string[] {
  if (c === '+') return ['[+ -]|%(?:25){0,2}2b|\\\\{1,4}u002b|&#43;|&#x2b;']
  if (c === '/') return ['\\\\{0,4}[/]|_|%(?:25){0,2}2f|\\\\{1,4}u002f|&#47;|&#x2f;']
  return [c]
}

const base64Of = (bytes: Buffer): string => bytes.toString('base64').replaceAll('=', '')

const base32Letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** Base32 (RFC 4648, section 6), without padding. */
function base32Of(bytes: Buffer): string {
  let text = ''
  let held = 0
  let bits = 0
  for (const byte of bytes) {
    held = ((held << 8) | byte) & 0xfff
    bits += 8
    for (; bits >= 5; bits -= 5) text += base32Letters[(held >> (bits - 5)) & 31]
  }
  return bits === 0 ? text : text + base32Letters[(held << (5 - bits)) & 31]
}

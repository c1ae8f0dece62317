import { setImmediate as nextTurn } from 'node:timers/promises'
import { VaultError } from '../errors/error.ts'

const mask = '[secret]'
/** How long a search goes on before other work of the vault has its turn, in ms. */
const TURN_MS = 10
/** How long a search may take in all of its turns, in ms: a text that was made to be slow is given up. */
const MAX_SEARCH_MS = 10_000
/** Characters that one step of a search goes through at most. */
const WINDOW = 32_768

/**
 * Removes a secret from bytes that somebody else wrote, in every spelling that an honest server would echo it in: as it
 * is, escaped for JSON, URLs, HTML, mail or source code (each character in its own way, once or twice), in UTF-16, reversed,
 * as hex, as a list of numbers, and as base64 or base32 at any place inside of longer base64, broken into lines. A server that
 * wants to smuggle it out can; the rules say which servers get it.
 *
 * A search of a long text lets other work go on every {@link TURN_MS}.
 *
 * A spelling is never one regular expression: of a long secret, such as a signed token, that takes seconds to compile, or is too
 * large, and the error says what it was.
 *
 * @param secrets the stored text and whatever was made of it, such as `user:password` in base64
 * @returns text of latin1, one character a byte; it throws `UPSTREAM_ERROR` for a text that takes too long to search
 */
export function createMask(secrets: readonly string[]): (latin1: string) => Promise<string> {
  const finders = [...new Set(secrets)].filter((text) => text !== '').flatMap(findersOf)
  return async (text) => {
    // Each searches the whole text, and what overlaps is one: a spelling inside of another leaves no rest behind.
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
/** Every place of one spelling in a text, and undefined between two steps of the search. */
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
          'The answer takes too long to be searched for the credential, so it is not passed on.',
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
  // Of a shorter secret hardly anything is determined, and everything would look like it.
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

/** Whatever the case of its letters. */
function asItIs(spelling: string): Find {
  const wanted = spelling.toLowerCase()
  return function* (text) {
    const lower = text.toLowerCase()
    yield
    for (let from = lower.indexOf(wanted); from !== -1; from = lower.indexOf(wanted, from + wanted.length))
      yield { from, to: from + wanted.length }
  }
}

/** What may stand between two parts: so many of it. */
interface Gap {
  readonly unit: string
  readonly least: number
  readonly most: number
}

/** Parts that are looked for at once; where they stand, the rest is followed step by step. */
const FIRST_PARTS = 3
/** The longest spelling of one character, and the longest gap. */
const LONGEST_CHARACTER = 40
const LONGEST_GAP = 80

/**
 * Parts one after the other, each in any of its ways: patterns without two ends at one place. All places that a step leads to are
 * followed together, so that no text takes longer than its length times that of the secret.
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
  // Of a long secret most patterns are never needed: each is compiled when a text comes that far.
  const steps = parts.map((ways) => {
    let patterns: readonly RegExp[] | undefined
    return { itself: itselfOf(ways), patterns: () => (patterns ??= ways.map(sticky)) }
  })
  const between = sticky(gap.unit)
  const longestBeginning = LONGEST_CHARACTER * firstCharacters + LONGEST_GAP * FIRST_PARTS
  const first = parts.slice(0, FIRST_PARTS).map((ways) => `(?:${ways.join('|')})`)
  const beginning = new RegExp(first.join(`(?:${gap.unit}){${gap.least},${gap.most}}`), 'i')

  function endOf(text: string, from: number): number | undefined {
    let places: readonly number[] = [from]
    for (const [i, { itself, patterns }] of steps.entries()) {
      if (i > 0) places = past(text, places)
      const [place] = places
      // Most of a text is itself.
      if (places.length === 1 && text.charCodeAt(place!) === itself) places = [place! + 1]
      else places = unique(places.flatMap((one) => ends(text, one, patterns())))
      if (places.length === 0) return undefined
    }
    return Math.max(...places)
  }
  function past(text: string, places: readonly number[]): readonly number[] {
    let reached = places
    if (gap.least === 0 && places.length === 1 && ends(text, places[0]!, [between]).length === 0)
      return places
    const all = gap.least === 0 ? [...places] : []
    for (let count = 1; count <= gap.most && reached.length > 0; count++) {
      reached = unique(reached.flatMap((place) => ends(text, place, [between])))
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

/** The character that is a part as it is, and begins nothing else. */
const itselfOf = ([way = '']: readonly string[]): number =>
  /^[^%&\\+="']$/.test(way) ? way.charCodeAt(0) : -1

function ends(text: string, place: number, ways: readonly RegExp[]): number[] {
  const found: number[] = []
  for (const way of ways) {
    way.lastIndex = place
    if (way.test(text)) found.push(way.lastIndex)
  }
  return found
}

const unique = (places: readonly number[]): readonly number[] =>
  places.length < 2 ? places : [...new Set(places)]

/** Each character in any of its escapes. */
function escaped(text: string): Find {
  // A run of backslashes is one part: each may be doubled, and in how many ways that adds up must not matter.
  const parts = text.match(/\\+|[^\\]/gsu) ?? []
  const ways = new Map(
    parts.map((part) => [part, part.startsWith('\\') ? backslashes(part.length) : character(part)]),
  )
  return spelled(
    parts.map((part) => ways.get(part)!),
    // UTF-16 and UTF-32; a line of quoted-printable that goes on.
    { unit: '\\x00|=\\r?\\n', least: 0, most: 3 },
    parts.slice(0, FIRST_PARTS).join('').length,
  )
}

const backslashes = (count: number): string[] => [
  ...Array.from({ length: 3 * count + 1 }, (_, more) => `\\\\{${count + more}}`),
  `(?:%(?:25){0,2}5c|&(?:amp;){0,2}(?:#0{0,4}92|#x0{0,4}5c|bsol);|\\\\{1,4}u005c|\\\\{1,4}x5c|\\\\{1,4}134|=5c){${count}}`,
]

/** The names that HTML has for ASCII, without the backslash. */
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
  const ways = [
    literal(latin1(c)),
    // What escapes stands for itself as well, so one place can be the end of once and the middle of twice.
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
  if (c === ' ') ways.push('\\+')
  // Also in Markdown, in a shell and in patterns.
  if (/[^0-9A-Za-z\\\x80-\u{10ffff}]/u.test(c)) ways.push(`\\\\{1,4}${literal(c)}`)
  // In CSV and in SQL.
  if (/["']/.test(c)) ways.push(c + c)
  if (Object.hasOwn(namedEntities, c))
    ways.push(...again.map((times) => `&(?:amp;){${times}}${namedEntities[c]};`))
  if (Object.hasOwn(shortEscapes, c)) ways.push(`\\\\{1,4}${shortEscapes[c]}`)
  return ways
}

/**
 * Base64 and base32 depend on where the secret stands among the bytes before it: as many places as there are, and of each the
 * letters that the secret alone determines.
 */
function based(bytes: Buffer, bits: 5 | 6, encode: (bytes: Buffer) => string): Find[] {
  const places = bits === 6 ? [0, 1, 2] : [0, 1, 2, 3, 4]
  return places.map((shift) => {
    const whole = encode(Buffer.concat([Buffer.alloc(shift), bytes]))
    const first = Math.ceil((shift * 8) / bits)
    const last = Math.floor(((shift + bytes.length) * 8) / bits)
    const gap = { unit: '[\\r\\n\\t ]|\\\\{1,4}[rnt]|%0[ad]', least: 0, most: 16 }
    return spelled([...whole.slice(first, last)].map(letter), gap)
  })
}

/** The two letters that base64 has besides those of the alphabet, in both alphabets and escaped. */
function letter(c: string): string[] {
  if (c === '+') return ['[+ -]|%(?:25){0,2}2b|\\\\{1,4}u002b|&#43;|&#x2b;']
  if (c === '/') return ['\\\\{0,4}[/]|_|%(?:25){0,2}2f|\\\\{1,4}u002f|&#47;|&#x2f;']
  return [c]
}

const base64Of = (bytes: Buffer): string => bytes.toString('base64').replaceAll('=', '')

const base32Letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** RFC 4648, section 6, without padding. */
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

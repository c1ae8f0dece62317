const mask = '[secret]'
/** Longer secrets are looked for in whole spellings only, because a pattern of each character would be too large. */
const longestByCharacter = 4_096

/**
 * Removes a secret from bytes that somebody else wrote, in every spelling that an honest server would echo it in: as it
 * is, escaped for JSON, URLs, HTML or source code (each character in its own way, once or twice), in UTF-16, reversed, as hex,
 * as a list of numbers, and as base64 or base32 at any place inside of longer base64, broken into lines. A server that
 * wants to smuggle it out can; the rules say which servers get it.
 *
 * @param secrets the stored text and whatever was made of it, such as `user:password` in base64
 * @returns text of latin1, one character a byte
 */
export function createMask(secrets: readonly string[]): (latin1: string) => string {
  const patterns = [...new Set(secrets)].filter((text) => text !== '').flatMap(patternsOf)
  if (patterns.length === 0) return (text) => text
  // The longest first: a shorter one inside of it would leave the rest behind.
  const sorted = [...new Set(patterns)].sort((a, b) => b.length - a.length)
  // One after the other, so that what one leaves whole, such as base64 of base64, is found by another.
  const all = sorted.map((source) => new RegExp(source, 'gi'))
  return (text) => all.reduce((rest, pattern) => rest.replace(pattern, mask), text)
}

const literal = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\/-]/g, '\\$&')
const latin1 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')

function patternsOf(secret: string): string[] {
  const bytes = Buffer.from(secret, 'utf8')
  const utf16 = Buffer.from(secret, 'utf16le')
  const raw = [latin1(secret), utf16.toString('latin1'), Buffer.from(utf16).swap16().toString('latin1')]
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0'))
  // Of a shorter secret hardly anything is determined, and everything would look like it.
  if (bytes.length < 4)
    return [...raw.map(literal), escaped(secret), bytes.toString('base64').replaceAll('=', '')]
  const reversed = [...secret].reverse().join('')
  const spelled = bytes.length > longestByCharacter ? [] : [escaped(secret), escaped(reversed)]
  return [
    ...raw.map(literal),
    ...spelled,
    hex.join(between('[\\s:,;-]|0x|\\\\x|"')),
    [...bytes].join('[\\s,;]{1,4}'),
    ...based(bytes, 6, base64Of),
    ...based(bytes, 5, base32Of),
  ]
}

/** What may stand between two parts, a few of it at most. */
const between = (what: string): string => `(?:${what}){0,6}`

/** Each character in any of its escapes. Every repetition has a bound: the text is somebody else's, and a megabyte long. */
function escaped(text: string): string {
  // A run of backslashes is one part: each may be doubled, and in how many ways that adds up must not matter.
  const parts = text.match(/\\+|[^\\]/gsu) ?? []
  return parts
    .map((part) => (part.startsWith('\\') ? backslashes(part.length) : character(part)))
    .join('\\x00{0,3}')
}

const backslashes = (count: number): string =>
  `(?:\\\\{${count},${count * 4}}|(?:%(?:25){0,2}5c|&#0{0,4}92;|&#x0{0,4}5c;|\\\\{1,4}u005c|\\\\{1,4}x5c){${count}})`

const namedEntities: Readonly<Record<string, string>> = {
  '&': 'amp',
  '<': 'lt',
  '>': 'gt',
  '"': 'quot',
  "'": 'apos',
  '/': 'sol',
  '+': 'plus',
  '=': 'equals',
}
const shortEscapes: Readonly<Record<string, string>> = {
  '\n': 'n',
  '\r': 'r',
  '\t': 't',
  '\b': 'b',
  '\f': 'f',
}

function character(c: string): string {
  const code = c.codePointAt(0)!
  const units = [...Array(c.length).keys()].map((i) => c.charCodeAt(i).toString(16).padStart(4, '0'))
  const bytes = [...Buffer.from(c, 'utf8')].map((byte) => byte.toString(16).padStart(2, '0'))
  const ways = [
    literal(latin1(c)),
    bytes.map((byte) => `%(?:25){0,2}${byte}`).join(''),
    units.map((unit) => `\\\\{1,4}u${unit}`).join(''),
    `\\\\{1,4}u\\{0{0,4}${code.toString(16)}\\}`,
    bytes.map((byte) => `\\\\{1,4}x${byte}`).join(''),
    `&(?:amp;){0,2}#0{0,4}${code};?`,
    `&(?:amp;){0,2}#x0{0,4}${code.toString(16)};?`,
  ]
  if (c === ' ') ways.push('\\+')
  if (/["'/]/.test(c)) ways.push(`\\\\{1,4}${literal(c)}`)
  if (Object.hasOwn(namedEntities, c)) ways.push(`&(?:amp;){0,2}${namedEntities[c]};`)
  if (Object.hasOwn(shortEscapes, c)) ways.push(`\\\\{1,4}${shortEscapes[c]}`)
  return `(?:${ways.join('|')})`
}

/**
 * Base64 and base32 depend on where the secret stands among the bytes before it: as many places as there are, and of each the
 * letters that the secret alone determines.
 */
function based(bytes: Buffer, bits: 5 | 6, encode: (bytes: Buffer) => string): string[] {
  const places = bits === 6 ? [0, 1, 2] : [0, 1, 2, 3, 4]
  return places.map((shift) => {
    const whole = encode(Buffer.concat([Buffer.alloc(shift), bytes]))
    const first = Math.ceil((shift * 8) / bits)
    const last = Math.floor(((shift + bytes.length) * 8) / bits)
    return [...whole.slice(first, last)].map(letter).join('(?:[\\r\\n\\t ]|\\\\{1,4}[rnt]|%0[ad]){0,4}')
  })
}

/** The two letters that base64 has besides those of the alphabet, in both alphabets and escaped. */
function letter(c: string): string {
  if (c === '+') return '(?:[+ -]|%(?:25){0,2}2b|\\\\{1,4}u002b|&#43;|&#x2b;)'
  if (c === '/') return '(?:\\\\{0,4}[/]|_|%(?:25){0,2}2f|\\\\{1,4}u002f|&#47;|&#x2f;)'
  return c
}

const base64Of = (bytes: Buffer): string => bytes.toString('base64').replaceAll('=', '')

/** RFC 4648, section 6, without padding. */
function base32Of(bytes: Buffer): string {
  const digits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const groups = digits.match(/.{1,5}/g) ?? []
  return groups
    .map((group) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'[Number.parseInt(group.padEnd(5, '0'), 2)])
    .join('')
}

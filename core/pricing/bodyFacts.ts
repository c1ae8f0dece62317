import { TollgateError } from '../errors/error.ts'
import { contentTypeOf } from '../http/body.ts'
import { alike } from '../http/headerNames.ts'
import { isObject, parseBody } from '../x402/strictJson.ts'
import { type Fact, folded, foldedName, shown, Unclear } from './ambiguity.ts'

/** Maximum number of keys of an object on the way of a pointer. All of these keys are compared before the call is paid. */
const MAX_KEYS = 1_000

/** A JSON pointer (RFC 6901) as its unescaped tokens. */
export type Pointer = readonly string[]

/** Parses a JSON pointer. @param text begins with `/` */
export const pointerOf = (text: string): Pointer =>
  text
    .slice(1)
    .split('/')
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))

/** A JSON body that has only one meaning. */
export class JsonBody {
  readonly value: unknown
  /** Whether its content type says that it is JSON. If not, another parser may read the body as a form, for example. */
  readonly isDeclared: boolean
  /** The keys of an object by their lenient spelling. All rules share them. */
  readonly #keys = new Map<object, ReadonlyMap<string, readonly string[]>>()
  /** The entries of a list as lenient texts. All rules share them. */
  readonly #entries = new Map<readonly unknown[], ReadonlySet<string>>()

  constructor(value: unknown, isDeclared: boolean) {
    this.value = value
    this.isDeclared = isDeclared
  }

  /**
   * A key of the object that a lenient parser may read like the token. Undefined if there is none besides the token itself.
   *
   * @throws `ambiguous_request` if the object has too many keys
   */
  otherSpelling(object: Readonly<Record<string, unknown>>, token: string): string | undefined {
    let keys = this.#keys.get(object)
    if (keys === undefined) this.#keys.set(object, (keys = keysOf(object, token)))
    return keys.get(foldedName(token))?.find((key) => key !== token)
  }

  /** Whether a list has one of the values. @param values as {@link folded} returns them */
  hasEntryOf(list: readonly unknown[], values: ReadonlySet<string>): boolean {
    let entries = this.#entries.get(list)
    if (entries === undefined) this.#entries.set(list, (entries = entriesOf(list)))
    for (const value of values) if (entries.has(value)) return true
    return false
  }
}

function keysOf(
  object: Readonly<Record<string, unknown>>,
  token: string,
): ReadonlyMap<string, readonly string[]> {
  const names = Object.keys(object)
  if (names.length > MAX_KEYS)
    throw ambiguousBody(`Expected at most ${MAX_KEYS} keys beside ${shown(token)}, got ${names.length}.`)
  return Map.groupBy(names, foldedName)
}

function entriesOf(list: readonly unknown[]): ReadonlySet<string> {
  const entries = new Set<string>()
  for (const entry of new Set(list)) {
    const text = textOf(entry)
    if (text !== undefined) entries.add(typeof entry === 'string' ? folded(text) : text)
  }
  return entries
}

/**
 * Refuses a compressed body, because its bytes show neither its content nor its length.
 *
 * @param raw header names and values in turn, as received
 * @throws `unsupported_encoding`
 */
export function assertUncompressed(raw: readonly string[]): void {
  for (let i = 0; i < raw.length; i += 2) {
    if (alike(raw[i]!) !== 'content-encoding' || /^(?:identity)?$/i.test(raw[i + 1]!.trim())) continue
    throw new TollgateError(
      'unsupported_encoding',
      'The price of this link depends on the body. Send the body without Content-Encoding. You were not charged.',
    )
  }
}

/**
 * Reads the body of a request, if the body decides the price. Many servers parse a body as JSON regardless of its content type, so
 * this function also reads a body of another content type that begins like JSON.
 *
 * @param raw header names and values in turn, as received
 * @returns undefined if the request has no body, and for a body that no JSON parser accepts
 * @throws `ambiguous_request` for JSON that parsers read differently, `unsupported_encoding` for a compressed body
 */
export function readJsonBody(body: Uint8Array | null, raw: readonly string[]): JsonBody | undefined {
  if (body === null || body.length === 0) return undefined
  assertUncompressed(raw)
  let type: string | undefined
  for (let i = 0; i < raw.length; i += 2) {
    const name = alike(raw[i]!)
    if (name !== 'content-type') continue
    if (type !== undefined) throw ambiguousBody('Expected one Content-Type header, got several.')
    type = raw[i + 1]!
  }
  const mediaType = type === undefined ? '' : contentTypeOf(type).mediaType
  if (!/json/i.test(mediaType || (type ?? '')) && !mayBeJson(body)) return undefined
  const charsets = type?.match(/charset[^;]*/gi) ?? []
  if (!charsets.every((charset) => /^charset\s*=\s*"?(?:utf-?8|us-ascii)"?\s*$/i.test(charset)))
    throw ambiguousBody('Expected a JSON body in UTF-8, got a body in another charset.')
  const parsed = parseBody(body)
  if (!parsed.ok)
    throw ambiguousBody(`Expected a JSON body that all parsers read in the same way. ${parsed.message}`)
  return new JsonBody(parsed.value, /^(?:application|text)\/(?:.+\+)?json$/.test(mediaType))
}

const ambiguousBody = (problem: string): TollgateError =>
  new TollgateError(
    'ambiguous_request',
    `The price of this link depends on the body. ${problem} You were not charged.`,
  )

/** Bytes that a lenient parser skips: white space, the NUL bytes of UTF-16, and byte order marks. */
const skipped = new Set([0x00, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x20, 0xef, 0xbb, 0xbf, 0xfe, 0xff])

/** Whether a lenient parser could find an object or a list in the body. */
function mayBeJson(body: Uint8Array): boolean {
  for (const byte of body) if (!skipped.has(byte)) return byte === 0x7b || byte === 0x5b
  return false
}

/**
 * The text of the value at a pointer. A number or a boolean has its JSON text. The value is unclear if a parser that ignores the
 * case of keys could find another value, or if the value is a list that contains a value of the rule.
 *
 * @param fitting the values of a rule, as {@link folded} returns them
 */
export function readPointer(body: JsonBody, pointer: Pointer, fitting: ReadonlySet<string>): Fact {
  let at = body.value
  for (const token of pointer) {
    if (Array.isArray(at)) at = /^(?:0|[1-9]\d{0,8})$/.test(token) ? at[Number(token)] : undefined
    else if (isObject(at)) {
      const other = body.otherSpelling(at, token)
      if (other !== undefined)
        return new Unclear(`Expected the key ${shown(token)} in the body, got ${shown(other)}.`)
      at = Object.hasOwn(at, token) ? at[token] : undefined
    } else return undefined
  }
  const where = shown(`/${pointer.join('/')}`)
  if (Array.isArray(at) && body.hasEntryOf(at, fitting))
    return new Unclear(`Expected one value at ${where} of the body, got a list.`)
  // Only some parsers round such a number.
  if (typeof at === 'number' && Math.abs(at) > Number.MAX_SAFE_INTEGER)
    return new Unclear(`Expected a number below 2^53 at ${where} of the body, got a larger one.`)
  return textOf(at)
}

function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? JSON.stringify(value) : undefined
}

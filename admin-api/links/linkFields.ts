import { hash, randomBytes, randomInt } from 'node:crypto'
import { childPointer, displayPath } from '../../core/config/read/pointer.ts'
import type { Access } from '../../core/domain/access.ts'
import { type Link, linkDefaults } from '../../core/domain/link.ts'
import { isQueried } from '../../core/domain/pricing.ts'
import { type ErrorDetail, isTollgateError } from '../../core/errors/error.ts'
import type { Sealer } from '../../core/ports/sealer.ts'
import type { Api } from '../deps.ts'
import { hiddenCharacterIn, refusalOf, validationError } from '../http/validation.ts'
import type { CreateLinkBody, UpdateLinkBody } from './linkBodies.ts'
import { readPricing } from './readPricing.ts'

/** Maximum size of a schema or an example, in bytes. Both are part of responses and listings. */
export const MAX_SCHEMA_BYTES = 16_384
type LinkFields = Pick<
  Link,
  | 'url'
  | 'title'
  | 'description'
  | 'slug'
  | 'price'
  | 'priceMax'
  | 'pricing'
  | 'linkType'
  | 'isPublic'
  | 'isStealth'
  | 'webhookUrl'
  | 'methods'
  | 'inputSchema'
  | 'outputExample'
  | 'tags'
  | 'iconUrl'
  | 'responseMode'
  | 'settle'
  | 'access'
  | 'upstreamHeadersSealed'
>

/**
 * Checks the amounts, addresses, header names and sizes in the sent fields of a link, because the schema does not. The result has
 * only fields that were sent.
 *
 * @throws `VALIDATION_ERROR` with every invalid field
 */
export function readLinkFields(
  api: Pick<Api, 'egress' | 'sealer'>,
  linkId: string,
  body: UpdateLinkBody | CreateLinkBody,
): Partial<LinkFields> {
  const problems: ErrorDetail[] = []
  const fields: { -readonly [K in keyof LinkFields]?: LinkFields[K] } = {}

  if (body.url !== undefined) fields.url = checkedUrl(api, 'url', body.url, problems)
  if (body.title !== undefined) fields.title = body.title
  if (body.description !== undefined) fields.description = body.description ?? linkDefaults.description
  if (body.slug != null) fields.slug = body.slug
  if (body.price !== undefined) {
    Object.assign(fields, readPricing(body.price, problems))
    const hidden = hiddenIn(body.price, '/price', body)
    if (hidden !== undefined) problems.push(hidden)
    const { pricing } = fields
    if (pricing != null && isQueried(pricing)) checkedUrl(api, 'price.url', pricing.url, problems)
  }
  if (body.linkType !== undefined) fields.linkType = body.linkType ?? linkDefaults.linkType
  if (body.isPublic !== undefined) fields.isPublic = body.isPublic ?? linkDefaults.isPublic
  if (body.isStealth !== undefined) fields.isStealth = body.isStealth ?? linkDefaults.isStealth
  if (body.webhookUrl !== undefined) {
    fields.webhookUrl =
      body.webhookUrl === null || body.webhookUrl === ''
        ? null
        : checkedUrl(api, 'webhookUrl', body.webhookUrl, problems)
  }
  const methods = readMethods(body, problems)
  if (methods !== undefined) fields.methods = methods
  if (body.inputSchema !== undefined) fields.inputSchema = sized('inputSchema', body.inputSchema, problems)
  if (body.outputExample !== undefined) {
    fields.outputExample = sized('outputExample', body.outputExample, problems)
  }
  if (body.tags !== undefined) fields.tags = body.tags ?? linkDefaults.tags
  if (body.iconUrl !== undefined) fields.iconUrl = body.iconUrl || null
  if (body.responseMode !== undefined) fields.responseMode = body.responseMode ?? linkDefaults.responseMode
  if (body.settle !== undefined) fields.settle = body.settle ?? linkDefaults.settle
  if (body.access !== undefined) fields.access = body.access as Access | null
  if (body.upstreamHeaders !== undefined) {
    const read = readUpstreamHeaders(body.upstreamHeaders ?? {})
    if ('headers' in read)
      fields.upstreamHeadersSealed = sealUpstreamHeaders(api.sealer, linkId, read.headers)
    else problems.push(...read.problems)
  }

  if (problems.length > 0) throw validationError(problems)
  return fields
}

function checkedUrl(api: Pick<Api, 'egress'>, path: string, url: string, problems: ErrorDetail[]): string {
  try {
    api.egress.checkUrl(url)
  } catch (error) {
    if (!isTollgateError(error)) throw error
    const code = error.details?.[0]?.code ?? 'url'
    problems.push({
      path,
      code,
      message: error.message + (path === 'url' && code === 'credentials' ? inHeaders : ''),
    })
  }
  return url
}

/** The hint for an API's URL. A webhook has no such hint, because its receiver verifies the signature and needs no headers. */
const inHeaders = ' Put headers that your API needs into upstreamHeaders.'

function readMethods(
  body: Pick<UpdateLinkBody, 'method' | 'methods'>,
  problems: ErrorDetail[],
): readonly string[] | undefined {
  const { method, methods } = body
  if (method !== undefined && methods !== undefined) {
    problems.push({ path: 'method', code: 'conflict', message: 'Send either method or methods, not both.' })
  }
  if (methods !== undefined) return methods ?? linkDefaults.methods
  if (method !== undefined) return method === null ? linkDefaults.methods : [method]
}

function sized(path: string, value: unknown, problems: ErrorDetail[]): unknown {
  const bytes = Buffer.byteLength(JSON.stringify(value))
  if (bytes > MAX_SCHEMA_BYTES) {
    const message = `Expected at most ${MAX_SCHEMA_BYTES} bytes of JSON, got ${bytes}.`
    problems.push({ path, code: 'too_long', message })
    return value
  }
  const hidden = hiddenIn(value, childPointer('', path), { [path]: value })
  if (hidden !== undefined) problems.push(hidden)
  return value
}

/**
 * Finds hidden characters, because agents read schemas, examples and prices like titles. Recursion is safe here, because bodies have a
 * maximum depth.
 */
function hiddenIn(value: unknown, pointer: string, root: object): ErrorDetail | undefined {
  if (typeof value === 'string') {
    const found = hiddenCharacterIn(value, 'many')
    return found && { path: displayPath(pointer, root), code: 'hidden_character', message: refusalOf(found) }
  }
  if (typeof value !== 'object' || value === null) return
  for (const [key, child] of Object.entries(value)) {
    const found = hiddenIn(key, pointer, root) ?? hiddenIn(child, childPointer(pointer, key), root)
    if (found !== undefined) return found
  }
}

const alphabet = 'abcdefghijkmnpqrstuvwxyz23456789'
const MAX_WORDS_CHARS = 48
const SUFFIX_CHARS = 6

/** Makes a slug from the Latin letters and digits of a title. `Weather API (v2)` becomes `weather-api-v2`. */
export function slugOf(title: string): string {
  const words = wordsOf(plainOf(title))
  return words.length >= 3 ? words : withSuffix('link')
}

/**
 * A name in the form of a slug. The same title always has the same name. If a slug cannot express all letters and digits of the
 * title, the name ends with the title's hash, so that `天气 API` and `地图 API` get different names.
 */
export function nameOf(title: string): string {
  const plain = plainOf(title)
  const words = wordsOf(plain)
  const isWhole = plain.length <= MAX_WORDS_CHARS && !/(?![a-z0-9])[\p{L}\p{N}]/u.test(plain)
  if (isWhole && words.length >= 3) return words
  return `${words || 'api'}-${hash('sha256', title).slice(0, 8)}`
}

const plainOf = (title: string): string => title.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()

const wordsOf = (plain: string): string =>
  plain
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, MAX_WORDS_CHARS)
    .replace(/^-+|-+$/g, '')

/** Another slug with the same beginning, for a store that already has the first one. */
export const withSuffix = (slug: string): string =>
  `${slug}-${Array.from({ length: SUFFIX_CHARS }, () => alphabet[randomInt(alphabet.length)]).join('')}`

/** The only address of a stealth link: 128 random bits in hex. */
export const createPrivateSlug = (): string => randomBytes(16).toString('hex')

/**
 * Headers that belong to the connection (RFC 9110, section 7.6.1), to the gateway's framing and routing, or to payments. A seller's
 * fixed value for one of them would break the exchange or forge the gateway's own headers.
 */
const forbidden = new Set([
  'cdn-loop',
  'connection',
  'content-encoding',
  'content-length',
  'date',
  'expect',
  'forwarded',
  'host',
  'http2-settings',
  'keep-alive',
  'payment-required',
  'payment-response',
  'payment-signature',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'sign-in-with-x',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'via',
  'x-payment',
  'x-payment-response',
  'x-signed-in-wallet',
])
const forbiddenStart = /^(?:x-forwarded-|x-payment-|payment-|x-tollgate-)/
/** The form of a header's name (RFC 9110, section 5.6.2). */
const tokenForm = /^[!#$%&'*+.^_`|~0-9a-z-]{1,64}$/
/** The form of a header's value. It is visible ASCII, with spaces and tabs only in between (RFC 9110, section 5.5). */
const valueForm = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/

export type UpstreamHeaders = Readonly<Record<string, string>>

/** Reads the headers that a seller adds. Names are in lower case, none is forbidden, and there are no duplicates. */
export function readUpstreamHeaders(
  given: UpstreamHeaders,
): { headers: UpstreamHeaders } | { problems: ErrorDetail[] } {
  const headers: Record<string, string> = Object.create(null)
  const problems: ErrorDetail[] = []
  for (const [givenName, value] of Object.entries(given)) {
    const name = givenName.toLowerCase()
    const problem = problemOf(name, value, Object.hasOwn(headers, name))
    if (problem === undefined) headers[name] = value
    // The message does not contain the value, because the value may be a credential.
    else problems.push({ path: 'upstreamHeaders', ...problem })
  }
  return problems.length === 0 ? { headers } : { problems }
}

function problemOf(name: string, value: string, isTwice: boolean): Omit<ErrorDetail, 'path'> | undefined {
  const shown = JSON.stringify(name.slice(0, 64))
  if (!tokenForm.test(name)) return { code: 'name', message: `${shown} is not a header name.` }
  if (forbidden.has(name) || forbiddenStart.test(name)) {
    return {
      code: 'forbidden_header',
      message: `The header ${shown} is set by the gateway. Remove it from this list.`,
    }
  }
  if (isTwice)
    return {
      code: 'duplicate',
      message: `The header ${shown} occurs twice. Header names are not case-sensitive.`,
    }
  if (value !== '' && !valueForm.test(value)) {
    return {
      code: 'format',
      message: `The value of ${shown} must be printable ASCII without spaces at its ends.`,
    }
  }
}

/** Encrypts headers, bound to the id of their link. Null if there are none. */
function sealUpstreamHeaders(sealer: Sealer, linkId: string, headers: UpstreamHeaders): string | null {
  return Object.keys(headers).length === 0 ? null : sealer.seal(JSON.stringify(headers), linkId)
}

/** Decrypts the result of {@link sealUpstreamHeaders}. @throws if the server's secret or the link's id differs */
export function openUpstreamHeaders(sealer: Sealer, linkId: string, sealed: string | null): UpstreamHeaders {
  return sealed === null ? {} : JSON.parse(sealer.open(sealed, linkId))
}

import { childPointer, displayPath } from '../../core/config/read/pointer.ts'
import type { Link } from '../../core/domain/link.ts'
import { linkDefaults } from '../../core/domain/linkDefaults.ts'
import { type ErrorDetail, isTollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { hiddenCharacterIn, refusalOf } from '../schema/hiddenCharacter.ts'
import { validationError } from '../schema/validationError.ts'
import type { CreateLinkBody, UpdateLinkBody } from './linkBodies.ts'
import { readUpstreamHeaders, sealUpstreamHeaders } from './upstreamHeaders.ts'

/** Bytes of a schema or an example; they travel in answers and listings. */
export const MAX_SCHEMA_BYTES = 16_384
/** USDC's, on every network. */
const assetDecimals = 6
/** A trillion and more is a slip of the keyboard, and would not fit a token amount on Solana (64 bits). */
const MAX_WHOLE_DIGITS = 12

type LinkFields = Pick<
  Link,
  | 'url'
  | 'title'
  | 'description'
  | 'slug'
  | 'price'
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
  | 'upstreamHeadersSealed'
>

/**
 * Reads what was sent of a link, beyond what the schema checked: amounts, addresses, header names, sizes. Only fields
 * that were sent are in the result.
 *
 * @throws `VALIDATION_ERROR` that names every field that is wrong
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
    const read = readPrice(body.price)
    if ('price' in read) fields.price = read.price
    else problems.push(read.problem)
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
  if (body.upstreamHeaders !== undefined) {
    const read = readUpstreamHeaders(body.upstreamHeaders ?? {})
    if ('headers' in read)
      fields.upstreamHeadersSealed = sealUpstreamHeaders(api.sealer, linkId, read.headers)
    else problems.push(...read.problems)
  }

  if (problems.length > 0) throw validationError(problems)
  return fields
}

/**
 * A price in the form in which it is kept: no leading zeros, no more decimals than USDC has. Trailing zeros beyond them
 * are cut off; anything else there is refused, because rounding somebody's price is never right.
 *
 * @param text has the form `^\d+(\.\d{1,18})?$`
 */
function readPrice(text: string): { price: string } | { problem: ErrorDetail } {
  const problem = (code: string, message: string) => ({ problem: { path: 'price', code, message } })
  const [whole = '', fraction = ''] = text.split('.')
  const digits = whole.replace(/^0+(?=\d)/, '')
  if (digits.length > MAX_WHOLE_DIGITS) return problem('range', 'Prices stay below 1,000,000,000,000 USDC.')
  if (/[1-9]/.test(fraction.slice(assetDecimals))) {
    return problem(
      'too_many_decimals',
      `USDC has ${assetDecimals} decimals; this price has ${fraction.replace(/0+$/, '').length}.`,
    )
  }
  const kept = fraction.slice(0, assetDecimals)
  return { price: kept === '' ? digits : `${digits}.${kept}` }
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

/** A webhook has no headers of its own: its receiver checks the signature. */
const inHeaders = ' What your API wants of its callers goes into upstreamHeaders.'

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
    const message = `At most ${MAX_SCHEMA_BYTES} bytes of JSON are allowed, got ${bytes}.`
    problems.push({ path, code: 'too_long', message })
    return value
  }
  const hidden = hiddenIn(value, childPointer('', path))
  if (hidden !== undefined) problems.push(hidden)
  return value
}

/** Agents read schemas and examples as they read titles. No deeper than bodies may be, so recursion is safe. */
function hiddenIn(value: unknown, pointer: string): ErrorDetail | undefined {
  if (typeof value === 'string') {
    const found = hiddenCharacterIn(value, 'many')
    return found && { path: displayPath(pointer), code: 'hidden_character', message: refusalOf(found) }
  }
  if (typeof value !== 'object' || value === null) return
  for (const [key, child] of Object.entries(value)) {
    const found = hiddenIn(key, pointer) ?? hiddenIn(child, childPointer(pointer, key))
    if (found !== undefined) return found
  }
}

import type { UpstreamRequest } from '../../../core/ports/egress.ts'
import { EgressError } from '../egressError.ts'

const targetForm = /^\/[\x21-\x7e]*$/
const statusForm = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/
const nameForm = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const valueForm = /^[\t\x20-\x7e\x80-\xff]*$/
const lengthForm = /^\d{1,15}$/

/** The body's length is not stated: chunks say it. */
export const chunked = -1
/** The body's length is not stated: the connection's end says it. */
export const untilClose = -2

/** The head of an answer, checked. */
export interface ReadHead {
  readonly status: number
  /** Names and values in turn, as they came. */
  readonly rawHeaders: string[]
  /** Bytes of body that follow, or {@link chunked}, or {@link untilClose}. */
  readonly length: number
  /** Whether the connection may carry another request. */
  readonly isKept: boolean
}

/**
 * Reads an answer's head in its one strict form (RFC 9112, sections 4, 5 and 6.3). What a lenient reader would repair is
 * refused, because the next reader may repair it otherwise: lone CR or LF, folded lines, space before the colon, two
 * lengths, a length beside chunks.
 *
 * @param text status line and fields, latin1, without the empty line
 * @param isHead the request was HEAD, whose answer has no body whatever it states
 * @throws {EgressError} `EGRESS_BAD_ANSWER`
 */
export function readHead(text: string, isHead: boolean): ReadHead {
  let end = text.indexOf('\r\n')
  const status = statusForm.exec(end === -1 ? text : text.slice(0, end))
  if (status === null) throw malformed('a status line')
  const code = Number(status[2])
  // HTTP/1.0 has no interim answers (RFC 9110, section 15.2): what follows could be a body to the next reader.
  if (code < 200 && status[1] === '0') throw malformed('an interim answer of HTTP/1.1')
  const rawHeaders: string[] = []
  let length = untilClose
  let isKept = status[1] === '1'
  while (end !== -1) {
    const start = end + 2
    end = text.indexOf('\r\n', start)
    const lineEnd = end === -1 ? text.length : end
    const colon = text.indexOf(':', start)
    if (colon === -1 || colon > lineEnd) throw malformed('a field with a colon')
    const name = text.slice(start, colon)
    const value = trimmed(text, colon + 1, lineEnd)
    if (!nameForm.test(name) || !valueForm.test(value)) throw malformed('fields of printable characters')
    rawHeaders.push(name, value)
    // Most names are settled by their length alone (bench/free.ts).
    switch (name.length) {
      case 10:
        if (name.toLowerCase() === 'connection' && /\bclose\b/i.test(value)) isKept = false
        break
      case 14:
        if (name.toLowerCase() !== 'content-length') break
        if (length !== untilClose || !lengthForm.test(value)) throw malformed('one length')
        length = Number(value)
        break
      case 17:
        if (name.toLowerCase() !== 'transfer-encoding') break
        if (length !== untilClose || status[1] === '0' || value.toLowerCase() !== 'chunked') {
          throw malformed('one length')
        }
        length = chunked
        break
    }
  }
  if (isHead || code < 200 || code === 204 || code === 304) length = 0
  return { status: code, rawHeaders, length, isKept: isKept && length !== untilClose }
}

/** Optional white space around a value is space and tab, nothing else (RFC 9110, section 5.6.3). */
function trimmed(text: string, from: number, to: number): string {
  while (from < to && isBlank(text.charCodeAt(from))) from++
  while (to > from && isBlank(text.charCodeAt(to - 1))) to--
  return text.slice(from, to)
}

const isBlank = (code: number): boolean => code === 0x20 || code === 0x09

const malformed = (expected: string) =>
  new EgressError('EGRESS_BAD_ANSWER', `The answer is not well-formed HTTP/1.1: expected ${expected}.`)

const plainMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/** Whether the client of this folder speaks the request; the rest (upgrades, streamed bodies) is undici's. */
export function isPlain({ method, body, upgrade, headers }: UpstreamRequest): boolean {
  if (upgrade !== undefined || !plainMethods.has(method)) return false
  if (body !== null && !Buffer.isBuffer(body)) return false
  for (let i = 0; i < headers.length; i += 2) if (isConnectionHeader(headers[i]!)) return false
  return true
}

/** Headers that say how the connection is used: undici knows what to do with them. */
function isConnectionHeader(name: string): boolean {
  switch (name.length) {
    case 4:
      return name.toLowerCase() === 'host'
    case 6:
      return name.toLowerCase() === 'expect'
    case 7:
      return name.toLowerCase() === 'upgrade'
    case 10:
      return name.toLowerCase() === 'connection' || name.toLowerCase() === 'keep-alive'
    case 17:
      return name.toLowerCase() === 'transfer-encoding'
    default:
      return false
  }
}

/**
 * Writes a request's head. Names, values and the target are checked here too, whoever made them: a line break in one
 * would be a second request.
 *
 * @param hostLine `Host: …` with its line end
 * @throws {EgressError} `EGRESS_BAD_REQUEST`
 */
export function writeHead(request: UpstreamRequest, hostLine: string): string {
  const { method, path, headers, body, reset } = request
  if (!targetForm.test(path)) throw unfit('a path of printable characters')
  let head = `${method} ${path} HTTP/1.1\r\n${hostLine}Connection: ${reset ? 'close' : 'keep-alive'}\r\n`
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!
    const value = headers[i + 1]!
    // The length is stated below, by the body that is sent.
    if (name.length === 14 && name.toLowerCase() === 'content-length') continue
    if (!nameForm.test(name) || !valueForm.test(value)) throw unfit('headers of printable characters')
    head += `${name}: ${value}\r\n`
  }
  const length = body === null ? 0 : (body as Buffer).length
  if (length > 0 || method === 'POST' || method === 'PUT' || method === 'PATCH') {
    head += `Content-Length: ${length}\r\n`
  }
  return `${head}\r\n`
}

const unfit = (expected: string) =>
  new EgressError('EGRESS_BAD_REQUEST', `The request can not be sent in this form: expected ${expected}.`)

import type { UpstreamRequest } from '../../../core/ports/egress.ts'
import { EgressError } from '../errors.ts'

const targetForm = /^\/[\x21-\x7e]*$/
const statusForm = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/
const nameForm = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const valueForm = /^[\t\x20-\x7e\x80-\xff]*$/
const lengthForm = /^\d{1,15}$/

/** The head states no length, because each chunk states its own. */
export const chunked = -1
/** The head states no length, because the body ends with the connection. */
export const untilClose = -2

/** The checked head of a response. */
export interface ReadHead {
  readonly status: number
  /** Names and values in turn, as received. */
  readonly rawHeaders: string[]
  /** Number of bytes in the body, or {@link chunked}, or {@link untilClose}. */
  readonly length: number
  /** Whether the connection may carry another request. */
  readonly isKept: boolean
}

/**
 * Reads a response's head in its one strict form (RFC 9112, sections 4, 5 and 6.3). The function refuses malformed heads, because
 * two lenient readers may repair them differently. Examples are a lone CR or LF, folded lines, a space before the colon, two
 * lengths, and a length with chunks.
 *
 * @param text status line and fields, latin1, without the empty line
 * @param isHead whether the request was HEAD, whose response never has a body
 * @throws {EgressError} `EGRESS_BAD_ANSWER`
 */
export function readHead(text: string, isHead: boolean): ReadHead {
  let end = text.indexOf('\r\n')
  const status = statusForm.exec(end === -1 ? text : text.slice(0, end))
  if (status === null) throw malformed('a status line')
  const code = Number(status[2])
  // HTTP/1.0 has no interim responses (RFC 9110, section 15.2), so another reader could parse the following bytes as a body.
  if (code < 200 && status[1] === '0') throw malformed('an interim response of HTTP/1.1')
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
    // The length alone rules out most names, which is faster (bench/free.ts).
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

/** Removes white space around a value, which can only be space and tab (RFC 9110, section 5.6.3). */
function trimmed(text: string, from: number, to: number): string {
  while (from < to && isBlank(text.charCodeAt(from))) from++
  while (to > from && isBlank(text.charCodeAt(to - 1))) to--
  return text.slice(from, to)
}

const isBlank = (code: number): boolean => code === 0x20 || code === 0x09

const malformed = (expected: string) =>
  new EgressError('EGRESS_BAD_ANSWER', `The response is not well-formed HTTP/1.1: expected ${expected}.`)

const plainMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/** Whether the client in this folder supports the request. Other requests (upgrades, streamed bodies) use undici. */
export function isPlain({ method, body, upgrade, headers }: UpstreamRequest): boolean {
  if (upgrade !== undefined || !plainMethods.has(method)) return false
  if (body !== null && !Buffer.isBuffer(body)) return false
  for (let i = 0; i < headers.length; i += 2) if (isConnectionHeader(headers[i]!)) return false
  return true
}

/** Whether the header concerns the use of the connection. Requests with such headers use undici. */
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
 * Writes a request's head. The function checks names, values and the target, because a line break in one of them would begin a
 * second request.
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
    // The code below writes the length of the body that is actually sent.
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
  new EgressError('EGRESS_BAD_REQUEST', `The request cannot be sent in this form: expected ${expected}.`)

/** A size in hex. Its extensions are ignored, such as `;name`, `;name=token` and `;name="text"` (RFC 9112, section 7.1.1). */
const sizeForm =
  /^([0-9a-fA-F]{1,8})(?:;[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:=(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+|"[\t\x20\x21\x23-\x5b\x5d-\x7e]*"))?)*$/
const trailerForm = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*$/
/**
 * Trailer fields that are refused because they decide where a message ends. They belong in the head (RFC 9110, section 6.5.1), and
 * after the body they could contradict it.
 */
const framingForm = /^(?:content-length|transfer-encoding):/i
/** Maximum number of bytes in a size with its extensions, and in all trailers together. */
const MAX_LINE_BYTES = 256
const MAX_TRAILER_BYTES = 16_384
const lf = 0x0a

/** Decodes a chunked body (RFC 9112, section 7.1). It is strict, so only CRLF ends a line. It drops trailers. */
export class ChunkedBody {
  #state: 'size' | 'data' | 'data-end' | 'trailer' | 'done' = 'size'
  #left = 0
  #line = ''
  #trailerBytes = 0

  get isDone(): boolean {
    return this.#state === 'done'
  }

  /**
   * Reads the next bytes. The decoder moves the body's bytes together within `bytes` and emits them as one piece. Otherwise a chunk
   * of one byte would cost a thousand times as much as its content. The caller must not use `bytes` afterwards.
   *
   * @param emit receives the piece, if there is one
   * @returns how much of `bytes` belonged to the body
   * @throws {EgressError} `EGRESS_BAD_ANSWER`
   */
  read(bytes: Buffer, emit: (piece: Buffer) => void): number {
    const data = { from: 0, to: 0 }
    const used = this.#takeApart(bytes, data)
    if (data.to > data.from) emit(bytes.subarray(data.from, data.to))
    return used
  }

  #takeApart(bytes: Buffer, data: { from: number; to: number }): number {
    let at = 0
    while (at < bytes.length && this.#state !== 'done') {
      if (this.#state === 'data') {
        const end = Math.min(bytes.length, at + this.#left)
        this.#left -= end - at
        if (this.#left === 0) this.#state = 'data-end'
        if (data.to === data.from) data.from = data.to = at
        if (data.to !== at) bytes.copyWithin(data.to, at, end)
        data.to += end - at
        at = end
        continue
      }
      const end = bytes.indexOf(lf, at)
      this.#line += bytes.toString('latin1', at, end === -1 ? bytes.length : end)
      if (this.#line.length > (this.#state === 'trailer' ? MAX_TRAILER_BYTES : MAX_LINE_BYTES))
        throw malformedBody()
      if (end === -1) return bytes.length
      at = end + 1
      if (!this.#line.endsWith('\r')) throw malformedBody()
      const line = this.#line.slice(0, -1)
      this.#line = ''
      this.#endOfLine(line)
    }
    return at
  }

  #endOfLine(line: string): void {
    if (this.#state === 'size') {
      const size = sizeForm.exec(line)
      if (size === null) throw malformedBody()
      this.#left = Number.parseInt(size[1]!, 16)
      this.#state = this.#left === 0 ? 'trailer' : 'data'
    } else if (this.#state === 'data-end') {
      if (line !== '') throw malformedBody()
      this.#state = 'size'
    } else if (line === '') {
      this.#state = 'done'
    } else {
      this.#trailerBytes += line.length
      if (this.#trailerBytes > MAX_TRAILER_BYTES) throw malformedBody()
      if (!trailerForm.test(line) || framingForm.test(line)) throw malformedBody()
    }
  }
}

const malformedBody = () =>
  new EgressError('EGRESS_BAD_ANSWER', 'The response is not well-formed HTTP/1.1: expected chunks.')

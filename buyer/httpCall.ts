import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'

/** Longest head of an answer: an offer of 16 KiB beside ordinary headers. */
const MAX_HEAD_BYTES = 48 * 1_024

export interface HttpCall {
  readonly url: URL
  readonly method: string
  /** Flat list of name, value. */
  readonly headers: readonly string[]
  readonly body: Uint8Array | undefined
  readonly maxBodyBytes: number
  readonly signal: AbortSignal
}

export interface HttpAnswer extends Content {
  readonly status: number
  /** Flat list of name, value as received, repetitions included. */
  readonly headers: readonly string[]
}

/** No answer came. `mayHaveLeft` is false when the request can not have reached the server. */
export class HttpFailure extends Error {
  override readonly name = 'HttpFailure'
  readonly mayHaveLeft: boolean

  constructor(message: string, mayHaveLeft: boolean, options?: ErrorOptions) {
    super(message, options)
    this.mayHaveLeft = mayHaveLeft
  }
}

/**
 * Makes one HTTP call on a connection of its own: no redirect is followed, no proxy of the environment is used,
 * certificates are always checked, and no more than `maxBodyBytes` are read. A body is asked for without compression; one
 * that comes with it is decompressed, as far as the same limit, and `Content-Encoding` is then gone from the headers.
 *
 * @throws {HttpFailure} when there is no answer's head
 */
export function callOnce(call: HttpCall): Promise<HttpAnswer> {
  const { url, signal } = call
  if (signal.aborted) return Promise.reject(new HttpFailure(reasonOf(signal), false))
  return new Promise<HttpAnswer>((resolve, reject) => {
    let isConnected = false
    let hasHead = false
    const fail = (why: string, cause?: unknown) =>
      // Once the head is there, the end of the connection is the body's affair.
      hasHead || reject(new HttpFailure(signal.aborted ? reasonOf(signal) : why, isConnected, { cause }))
    const request = open(call)
    request.on('socket', (socket) => {
      socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => {
        isConnected = true
      })
    })
    request.on('error', (error) => fail(`no answer from ${url.host} (${codeOf(error)})`, error))
    request.on('upgrade', (_response, socket) => {
      socket.destroy()
      fail(`${url.host} changed the protocol`)
    })
    request.on('close', () => fail(`${url.host} closed the connection without an answer`))
    request.on('response', (response) => {
      hasHead = true
      readBody(response, call.maxBodyBytes).then(resolve, reject)
    })
    request.end(call.body)
  })
}

function open({ url, method, headers, body, signal }: HttpCall): ClientRequest {
  const length = body === undefined ? [] : ['Content-Length', String(body.length)]
  const all = ['Host', url.host, 'Accept-Encoding', 'identity', 'Connection', 'close', ...length, ...headers]
  // Agents of our own: the global ones can be told by the environment to use a proxy, or not to check certificates.
  if (url.protocol === 'http:') {
    return httpRequest(url, {
      agent: new HttpAgent({ keepAlive: false }),
      method,
      headers: all,
      signal,
      maxHeaderSize: MAX_HEAD_BYTES,
    })
  }
  return httpsRequest(url, {
    agent: new HttpsAgent({ keepAlive: false, rejectUnauthorized: true }),
    method,
    headers: all,
    signal,
    maxHeaderSize: MAX_HEAD_BYTES,
    rejectUnauthorized: true,
  })
}

async function readBody(response: IncomingMessage, maxBodyBytes: number): Promise<HttpAnswer> {
  const chunks: Buffer[] = []
  let room = maxBodyBytes
  let isWithinLimit = true
  let isWhole = true
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      chunks.push(chunk.subarray(0, room))
      room -= chunk.length
      // Leaving the loop destroys the connection.
      if (room < 0) {
        isWithinLimit = false
        break
      }
    }
  } catch {
    // The head is worth having even so: it may hold the receipt.
    isWhole = false
  }
  const { statusCode = 0, rawHeaders } = response
  const raw = { body: Buffer.concat(chunks), isWithinLimit, isWhole }
  const content = await decompress(raw, valuesOf(rawHeaders, 'content-encoding'), maxBodyBytes)
  const headers = content === undefined ? rawHeaders : withoutCoding(rawHeaders)
  return { status: statusCode, headers, ...(content ?? raw) }
}

/** Without the length too, which was that of the compressed body. */
const withoutCoding = (headers: readonly string[]): string[] =>
  headers.filter((_, i) => !/^content-(encoding|length)$/i.test(headers[i - (i % 2)]!))

/** Every value of a header, in order. */
export function valuesOf(headers: readonly string[], name: string): string[] {
  return headers.filter((_, i) => i % 2 === 1 && headers[i - 1]!.toLowerCase() === name)
}

/** Without repetitions: a proxy may add a header that is there already, and says nothing else by it. */
export const distinct = (values: readonly string[]): string[] => [...new Set(values)]

const codeOf = (error: Error): string =>
  String((error as NodeJS.ErrnoException).code ?? error.message).slice(0, 80)

const reasonOf = (signal: AbortSignal): string =>
  (signal.reason as { name?: unknown } | undefined)?.name === 'TimeoutError'
    ? 'the time was up'
    : 'it was interrupted'

/** Content codings (RFC 9110, section 8.4.1; RFC 9659). */
const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
}

/** A body as far as it came. */
interface Content {
  readonly body: Buffer
  /** False when there was more than the limit; the rest is not there. */
  readonly isWithinLimit: boolean
  /** False when it broke off. */
  readonly isWhole: boolean
}

/**
 * The content of a body that came compressed. Never throws.
 *
 * @param contentEncoding the header's values   @param maxBytes most bytes of content; the rest is not decompressed
 * @returns undefined for a body that stays as it came: coded in no way or another, twice, or not as it says
 */
async function decompress(
  raw: Content,
  contentEncoding: readonly string[],
  maxBytes: number,
): Promise<Content | undefined> {
  const codings = contentEncoding
    .flatMap((value) => value.toLowerCase().split(','))
    .map((coding) => coding.trim())
    .filter((coding) => coding !== '' && coding !== 'identity')
  const create = codings.length === 1 && Object.hasOwn(decoders, codings[0]!) && decoders[codings[0]!]
  if (codings.length > 0 && raw.body.length === 0) return raw
  if (!create) return undefined
  const decoder = create()
  decoder.end(raw.body)
  const chunks: Buffer[] = []
  let room = maxBytes
  let { isWithinLimit, isWhole } = raw
  try {
    for await (const chunk of decoder as AsyncIterable<Buffer>) {
      chunks.push(chunk.subarray(0, room))
      room -= chunk.length
      if (room >= 0) continue
      isWithinLimit = false
      break
    }
  } catch {
    if (chunks.length === 0) return undefined
    // Of a body that was cut off at the limit, the end is missing; of another one that breaks off, it never came.
    isWhole = !isWithinLimit && isWhole
  }
  return { body: Buffer.concat(chunks), isWithinLimit, isWhole }
}

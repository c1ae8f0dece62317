import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import { isLoopback } from '../core/http/caller.ts'
import { UsageError } from './buyer.ts'

/** Maximum size of a response head, in bytes. It has room for an offer of 16 KiB and ordinary headers. */
const MAX_HEAD_BYTES = 48 * 1_024

export interface HttpCall {
  readonly url: URL
  readonly method: string
  /** Names and values in turn. */
  readonly headers: readonly string[]
  readonly body: Uint8Array | undefined
  readonly maxBodyBytes: number
  readonly signal: AbortSignal
}

export interface HttpResponse extends Content {
  readonly status: number
  /** Names and values in turn, as received, including repeated headers. */
  readonly headers: readonly string[]
}

/** Thrown if no response arrived. `mayHaveLeft` is false if the request cannot have reached the server. */
export class HttpFailure extends Error {
  override readonly name = 'HttpFailure'
  readonly mayHaveLeft: boolean

  constructor(message: string, mayHaveLeft: boolean, options?: ErrorOptions) {
    super(message, options)
    this.mayHaveLeft = mayHaveLeft
  }
}

/**
 * Makes one HTTP call on its own connection. It follows no redirects, ignores the environment's proxy, always checks certificates,
 * and reads at most `maxBodyBytes`. It requests an uncompressed body. If the body is compressed anyway, the call decompresses it up
 * to the same limit, and removes `Content-Encoding` from the headers.
 *
 * @throws {HttpFailure} if no response head arrives
 */
export function callOnce(call: HttpCall): Promise<HttpResponse> {
  const { url, signal } = call
  if (signal.aborted) return Promise.reject(new HttpFailure(reasonOf(signal), false))
  return new Promise<HttpResponse>((resolve, reject) => {
    let isConnected = false
    let hasHead = false
    const fail = (why: string, cause?: unknown) =>
      // Once the head has arrived, the reader of the body handles the end of the connection.
      hasHead || reject(new HttpFailure(signal.aborted ? reasonOf(signal) : why, isConnected, { cause }))
    const request = open(call)
    request.on('socket', (socket) => {
      socket.once(url.protocol === 'https:' ? 'secureConnect' : 'connect', () => {
        isConnected = true
      })
    })
    request.on('error', (error) => fail(`the connection to ${url.host} failed with ${codeOf(error)}`, error))
    request.on('upgrade', (_response, socket) => {
      socket.destroy()
      fail(`${url.host} switched protocols`)
    })
    request.on('close', () => fail(`${url.host} closed the connection without a response`))
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
  // The call has its own agent, because the environment can make the global agents use a proxy or skip certificate checks.
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

async function readBody(response: IncomingMessage, maxBodyBytes: number): Promise<HttpResponse> {
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
    // The head is still useful, because it may contain the receipt.
    isWhole = false
  }
  const { statusCode = 0, rawHeaders } = response
  const raw = { body: Buffer.concat(chunks), isWithinLimit, isWhole }
  const content = await decompress(raw, valuesOf(rawHeaders, 'content-encoding'), maxBodyBytes)
  const headers = content === undefined ? rawHeaders : withoutCoding(rawHeaders)
  return { status: statusCode, headers, ...(content ?? raw) }
}

/** Removes the content coding, and the length, which was the length of the compressed body. */
const withoutCoding = (headers: readonly string[]): string[] =>
  headers.filter((_, i) => !/^content-(encoding|length)$/i.test(headers[i - (i % 2)]!))

/** All values of a header, in order. */
export function valuesOf(headers: readonly string[], name: string): string[] {
  return headers.filter((_, i) => i % 2 === 1 && headers[i - 1]!.toLowerCase() === name)
}

/** Removes duplicates, because a proxy may repeat a header without changing its meaning. */
export const distinct = (values: readonly string[]): string[] => [...new Set(values)]

const codeOf = (error: Error): string =>
  String((error as NodeJS.ErrnoException).code ?? error.message).slice(0, 80)

const reasonOf = (signal: AbortSignal): string =>
  (signal.reason as { name?: unknown } | undefined)?.name === 'TimeoutError'
    ? 'the time limit passed'
    : 'it was interrupted'

/** Content codings (RFC 9110, section 8.4.1; RFC 9659). */
const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
}

/** The part of a body that has arrived. */
interface Content {
  readonly body: Buffer
  /** False if the body was larger than the limit, so that the rest was dropped. */
  readonly isWithinLimit: boolean
  /** False if the body broke off. */
  readonly isWhole: boolean
}

/**
 * The content of a compressed body. Never throws.
 *
 * @param contentEncoding values of the header
 * @param maxBytes maximum bytes of the content. The rest is not decompressed
 * @returns undefined if the body must stay unchanged, because it is not encoded, is encoded twice or in an unknown way, or is not
 *   encoded as stated
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
    // If the body was cut off at the limit, it has no end to decompress. Any other body without an end broke off.
    isWhole = !isWithinLimit && isWhole
  }
  return { body: Buffer.concat(chunks), isWithinLimit, isWhole }
}

/** Maximum part (1/n) of the time that is reserved for checking the chain at the end. `MAX_CHAIN_MS` is its maximum in ms. */
const CHAIN_SHARE = 3
const MAX_CHAIN_MS = 20_000

export interface Deadline {
  /** Ends first, for the calls to the seller. */
  readonly calls: AbortSignal
  /** Ends last, for checking the chain. */
  readonly all: AbortSignal
}

/**
 * The time limit of a run. Calls must end earlier than the run, by a third of the time (at most 20 s), to leave time for checking
 * the chain.
 */
export function startDeadline(totalMs: number, interrupt: AbortSignal | undefined): Deadline {
  const callsMs = totalMs - Math.min(Math.floor(totalMs / CHAIN_SHARE), MAX_CHAIN_MS)
  const interrupts = interrupt === undefined ? [] : [interrupt]
  return {
    calls: AbortSignal.any([...interrupts, AbortSignal.timeout(callsMs)]),
    all: AbortSignal.any([...interrupts, AbortSignal.timeout(totalMs)]),
  }
}

/** A signal that also ends after `ms`, if `ms` is given. */
export const within = (signal: AbortSignal, ms: number | undefined): AbortSignal =>
  ms === undefined ? signal : AbortSignal.any([signal, AbortSignal.timeout(ms)])

/**
 * Checks the URL that is to be paid. It must be http(s) without credentials. Plain HTTP is allowed only to this machine, because
 * any party that can change the response in transit can change the payee.
 *
 * @throws {UsageError}
 */
export function readTarget(text: string, allowInsecureHttp: boolean): URL {
  if (!URL.canParse(text))
    throw new UsageError('Expected an address such as https://example.com/api/link/demo/hello.')
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new UsageError(`Expected an http or https address, got ${url.protocol}`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError('Expected an address without user name and password. Use --header for credentials.')
  }
  if (url.protocol === 'http:' && !isLoopback(url.hostname) && !allowInsecureHttp) {
    throw new UsageError(
      'Expected https, because over plain HTTP a third party can change who is paid. --insecure-http allows plain HTTP.',
    )
  }
  url.hash = ''
  return url
}

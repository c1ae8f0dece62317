import type { IncomingMessage } from 'node:http'
import { isIPv6, type Socket } from 'node:net'
import { requestIdOf } from '../core/http/requestId.ts'

/** What one pass over a request's head finds. */
export interface HeadFacts {
  /** Why the request can't be routed safely, in words for the caller; null when it can. */
  problem: string | null
  /** Raw `PAYMENT-SIGNATURE` or `X-PAYMENT`; several are joined by a comma, which no payment header can hold. */
  paymentHeader: string | null
  x402Version: 1 | 2
  /** `CDN-Loop`: the gateways that the request has passed; several are joined by a comma. */
  passed: string | null
  /** The caller's, where it has the form of one, or a new one. */
  requestId: string
  hasBody: boolean
  /** Stated length of the body in bytes; -1 when it is chunked. */
  contentLength: number
  hasOrigin: boolean
  /** The caller waits for `100 Continue` before it sends its body. */
  expectsContinue: boolean
}

/** More names than any client sends. Node drops what comes after 2,000 without a word, so they have to be refused. */
const MAX_HEADERS = 500
/** Of a `Host`: RFC 3986, section 3.2.2, on names, and a port. */
const MAX_HOST_CHARS = 255 + 6
const MAX_KNOWN_HOSTS = 256

/**
 * Reads the head once: what must be refused because two readers could understand it differently (RFC 9112, sections 3.2,
 * 6.1 and 11.2), and the few headers that the gateway itself listens to. Node's parser has refused the rest already.
 */
export function readHead(req: IncomingMessage): HeadFacts {
  const facts: HeadFacts = {
    problem: null,
    paymentHeader: null,
    x402Version: 2,
    passed: null,
    requestId: '',
    hasBody: false,
    contentLength: 0,
    hasOrigin: false,
    expectsContinue: false,
  }
  const raw = req.rawHeaders
  let hosts = 0
  let hasBadHost = false
  let givenId: string | undefined
  // `METHOD target HTTP/1.1`, CRLF, and the CRLF of the empty line.
  let headBytes = req.method!.length + req.url!.length + 14
  for (let i = 0; i < raw.length; i += 2) {
    headBytes += raw[i]!.length + raw[i + 1]!.length + 4
    // Most names are settled by their length alone (bench/free.ts).
    switch (raw[i]!.length) {
      case 4:
        if (raw[i]!.toLowerCase() !== 'host') break
        hosts++
        if (!isHost(raw[i + 1]!)) hasBadHost = true
        break
      case 6:
        readShort(facts, raw[i]!.toLowerCase(), req.httpVersionMinor)
        break
      case 8:
        if (raw[i]!.toLowerCase() !== 'cdn-loop') break
        facts.passed = facts.passed === null ? raw[i + 1]! : `${facts.passed},${raw[i + 1]!}`
        break
      case 9:
        if (raw[i]!.toLowerCase() === 'x-payment') addPayment(facts, raw[i + 1]!, 1)
        break
      case 12:
        if (raw[i]!.toLowerCase() === 'x402-version') {
          if (raw[i + 1] === '1') facts.x402Version = 1
        } else if (raw[i]!.toLowerCase() === 'x-request-id') {
          // Several are none.
          givenId = givenId === undefined ? raw[i + 1]! : ''
        }
        break
      case 14:
        if (raw[i]!.toLowerCase() === 'content-length') readLength(facts, raw[i + 1]!)
        break
      case 17:
        readLong(facts, raw[i]!.toLowerCase(), raw[i + 1]!, req.httpVersionMinor)
        break
    }
  }
  facts.requestId = requestIdOf(givenId)
  if (hasWideRequestLine(req, headBytes, facts.contentLength)) {
    facts.problem = 'Expected one space between the parts of the request line.'
  }
  if (raw.length > 2 * MAX_HEADERS) facts.problem = `Expected at most ${MAX_HEADERS} headers.`
  if (hosts > 1) facts.problem = 'Expected one Host header, got several.'
  else if (hasBadHost) facts.problem = 'Expected Host to be one host name or address, with or without a port.'
  else if (hosts === 0 && req.httpVersionMinor > 0) facts.problem = 'Expected a Host header, got none.'
  if (req.httpVersionMajor !== 1 || req.httpVersionMinor > 1) facts.problem = 'Expected HTTP/1.1.'
  if (req.method === 'TRACE' || req.method === 'CONNECT')
    facts.problem = `Method ${req.method} is not served here.`
  return facts
}

function readShort(facts: HeadFacts, name: string, httpMinor: number): void {
  if (name === 'origin') facts.hasOrigin = true
  // HTTP/1.0 knows no answer that another one follows (RFC 9110, section 10.1.1).
  else if (name === 'expect' && httpMinor > 0) facts.expectsContinue = true
}

function addPayment(facts: HeadFacts, value: string, version: 1 | 2): void {
  facts.x402Version = version
  facts.paymentHeader = facts.paymentHeader === null ? value : `${facts.paymentHeader},${value}`
}

function readLength(facts: HeadFacts, value: string): void {
  if (!/^\d{1,15}$/.test(value)) facts.problem = 'Expected Content-Length to be a decimal number.'
  facts.contentLength = Number(value)
  facts.hasBody = facts.contentLength > 0
}

function readLong(facts: HeadFacts, name: string, value: string, httpMinor: number): void {
  if (name === 'payment-signature') return addPayment(facts, value, 2)
  if (name !== 'transfer-encoding') return
  facts.hasBody = true
  facts.contentLength = -1
  if (value.toLowerCase() !== 'chunked' || httpMinor === 0) {
    facts.problem = 'Expected Transfer-Encoding: chunked, or none.'
  }
}

/** Registered name or IPv4 address, and a port (RFC 3986, section 3.2.2). A comma is what joined Host headers look like. */
const named = /^(?:[\w\-.~!$&'()*+;=]|%[\da-f]{2})+(?::(\d{0,5}))?$/i
/** An IPv6 address in brackets, and a port; a zone means something on the caller's machine only. */
const bracketed = /^\[([\da-f:.]+)\](?::(\d{0,5}))?$/i
/** Values of `Host` that were found well-formed: a gateway is called by few names. */
const knownHosts = new Set<string>()

/** Whether a value of `Host` is one host, with or without a port (RFC 9112, section 3.2); an empty one is not. */
export function isHost(value: string): boolean {
  if (knownHosts.has(value)) return true
  if (!isOneHost(value)) return false
  if (knownHosts.size === MAX_KNOWN_HOSTS) knownHosts.clear()
  knownHosts.add(value)
  return true
}

function isOneHost(value: string): boolean {
  if (value.length > MAX_HOST_CHARS) return false
  const literal = bracketed.exec(value)
  const port = literal === null ? named.exec(value) : isIPv6(literal[1]!) ? literal.slice(1) : null
  return port !== null && Number(port[1] ?? 0) <= 65_535
}

/** What of node's connection is used here beyond its types: the bytes that are being parsed, and a note of our own. */
interface Connection extends Socket {
  parser?: { getCurrentBuffer?(): Buffer | undefined }
  [bytesSeen]?: number
}

/** How much a connection had read when its last request was looked at. */
const bytesSeen = Symbol('bytes seen')

/**
 * Whether a request line separates its parts by more than one space, which node's parser skips without a word and other
 * readers split in other places (RFC 9112, section 3).
 *
 * Only a request whose length on the wire is not that of its parts is looked at more closely, because a look copies the
 * bytes (0.9 µs). A line whose packet is gone when the head is complete can't be looked at; it is forwarded rebuilt.
 *
 * @param headBytes length of the head as it is usually written, `Name: value` and CRLF
 * @param bodyBytes stated length of the body; -1 when it is chunked
 */
function hasWideRequestLine(req: IncomingMessage, headBytes: number, bodyBytes: number): boolean {
  const connection = req.socket as Connection
  const read = connection.bytesRead
  const fresh = read - (connection[bytesSeen] ?? 0)
  connection[bytesSeen] = read
  if (fresh === headBytes || fresh === headBytes + bodyBytes) return false
  const bytes = connection.parser?.getCurrentBuffer?.()
  return bytes !== undefined && isWide(bytes.toString('latin1'), ` ${req.url} `)
}

function isWide(text: string, target: string): boolean {
  for (let at = text.indexOf(target); at !== -1; at = text.indexOf(target, at + 1)) {
    const behind = at + target.length
    const isLine = text.startsWith('HTTP/1.', behind + countSpaces(text, behind))
    if (isLine && (text[at - 1] === ' ' || text[behind] === ' ')) return true
  }
  return false
}

function countSpaces(text: string, from: number): number {
  let to = from
  while (text.charCodeAt(to) === 0x20) to++
  return to - from
}

/** The parts of `/api/link/<seller>/<slug>[/rest][?query]`. */
export interface LinkTarget {
  /** `<seller>/<slug>`: the key of the route table. */
  readonly key: string
  /** Empty, or what follows the slug, with its leading slash; not decoded. */
  readonly subPath: string
  /** With its leading `?`, or empty; without the gateway's own `x402Version`. */
  readonly query: string
  /** The caller asked for the v1 form of the 402 by `?x402Version=1`. */
  readonly asksForV1: boolean
}

export const linkPrefix = '/api/link/'

/**
 * Takes a request target apart. One spelling of every path is served: what is priced is what is forwarded, so anything
 * that another reader could resolve to another path is refused, not repaired (RFC 3986, sections 3.3 and 5.2.4).
 *
 * @returns the parts; a string that says what is wrong; undefined when it is no address of a link
 */
export function parseTarget(url: string): LinkTarget | string | undefined {
  const mark = url.indexOf('?')
  const path = mark === -1 ? url : url.slice(0, mark)
  const problem = pathProblem(path) ?? queryProblem(url, mark)
  if (problem !== undefined) return problem
  const nameEnd = path.indexOf('/', linkPrefix.length)
  if (nameEnd === -1 || nameEnd === linkPrefix.length) return
  const slash = path.indexOf('/', nameEnd + 1)
  const slugEnd = slash === -1 ? path.length : slash
  if (slugEnd === nameEnd + 1) return
  const query = mark === -1 ? '' : url.slice(mark)
  const key = path.slice(linkPrefix.length, slugEnd)
  const subPath = path.slice(slugEnd)
  if (!query.includes('x402Version')) return { key, subPath, query, asksForV1: false }
  return { key, subPath, ...withoutVersion(query) }
}

/** Why a path has more than one reading; undefined when it has not. */
export function pathProblem(path: string): string | undefined {
  let hasEscape = false
  let previous = 0
  for (let i = 0; i < path.length; i++) {
    const c = path.charCodeAt(i)
    if (c <= 0x20 || c >= 0x7f || c === 0x5c || c === 0x23)
      return 'Expected a path of printable ASCII without \\ and #.'
    if (c === 0x25) hasEscape = true
    else if (c === 0x2f && previous === 0x2f) return 'Expected a path without empty segments.'
    else if (c === 0x2e && previous === 0x2f && isDotSegment(path, i))
      return 'Expected a path without . and .. segments.'
    previous = c
  }
  return hasEscape ? escapeProblem(path) : undefined
}

function isDotSegment(path: string, at: number): boolean {
  const next = path.charCodeAt(at + 1)
  return endsSegment(next) || (next === 0x2e && endsSegment(path.charCodeAt(at + 2)))
}

/** The end, a slash, or the `;` of a path parameter, which some servers cut off before they resolve `..`. */
const endsSegment = (c: number) => Number.isNaN(c) || c === 0x2f || c === 0x3b

function escapeProblem(path: string): string | undefined {
  if (/%(?![0-9a-fA-F]{2})/.test(path)) return 'Expected two hexadecimal digits after each % of the path.'
  if (/%(?:2f|5c|2e|0|1|7f)/i.test(path)) {
    return 'Expected a path without escaped slashes, backslashes, dots and control characters.'
  }
  try {
    decodeURIComponent(path)
  } catch {
    return 'Expected escaped bytes of the path to be UTF-8.'
  }
}

function queryProblem(url: string, mark: number): string | undefined {
  if (mark === -1) return
  for (let i = mark; i < url.length; i++) {
    const c = url.charCodeAt(i)
    if (c <= 0x20 || c >= 0x7f || c === 0x23) return 'Expected a query of printable ASCII without #.'
  }
}

function withoutVersion(query: string): { query: string; asksForV1: boolean } {
  const parts = query.slice(1).split('&')
  const kept = parts.filter((part) => !part.startsWith('x402Version='))
  return {
    query: kept.length === 0 ? '' : `?${kept.join('&')}`,
    asksForV1: parts.includes('x402Version=1'),
  }
}

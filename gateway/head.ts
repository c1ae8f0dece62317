import type { IncomingMessage } from 'node:http'
import { isIPv6, type Socket } from 'node:net'
import ipaddr from 'ipaddr.js'
import { forwardedAddress, requestIdOf, unknownAddress } from '../core/http/caller.ts'
import type { Log } from '../core/ports/log.ts'

/** The result of one pass over a request's head. */
export interface HeadFacts {
  /** Why the gateway cannot route the request safely, as a message for the caller. Null if there is no problem. */
  problem: string | null
  /**
   * Raw value of `PAYMENT-SIGNATURE` or `X-PAYMENT`. Several headers are joined by a comma, which no valid payment header contains.
   */
  paymentHeader: string | null
  x402Version: 1 | 2
  /**
   * Value of `CDN-Loop`, which names the gateways that have already forwarded the request. Several headers are joined by a comma.
   */
  passed: string | null
  /** The caller's request id if it has the form of an id, otherwise a new id. */
  requestId: string
  hasBody: boolean
  /** Stated length of the body in bytes, -1 when the body is chunked. */
  contentLength: number
  hasOrigin: boolean
  /** True when the caller waits for `100 Continue` before it sends its body. */
  expectsContinue: boolean
}

/**
 * Maximum headers of a request, which is more than any client sends. Node silently drops headers beyond 2,000, so the gateway has
 * to refuse such a request.
 */
const MAX_HEADERS = 500
/** Maximum length of a `Host` value in characters, which is a name by RFC 3986, section 3.2.2, and a port. */
const MAX_HOST_CHARS = 255 + 6
const MAX_KNOWN_HOSTS = 256

/**
 * Reads the head in one pass. It finds the few headers that the gateway itself uses. It also finds input that two readers could
 * interpret differently (RFC 9112, sections 3.2, 6.1 and 11.2), which the gateway must refuse. Node's parser has already refused
 * other malformed input.
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
  // Length of `METHOD target HTTP/1.1`, its CRLF, and the CRLF of the empty line.
  let headBytes = req.method!.length + req.url!.length + 14
  for (let i = 0; i < raw.length; i += 2) {
    headBytes += raw[i]!.length + raw[i + 1]!.length + 4
    // Most names have another length, so they are not compared (bench/free.ts).
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
          // If a request has several ids, the gateway uses none of them.
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
  // HTTP/1.0 has no interim responses (RFC 9110, section 10.1.1).
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

/**
 * A registered name or IPv4 address with an optional port (RFC 3986, section 3.2.2). The form allows no comma, because Node joins
 * several Host headers by commas.
 */
const named = /^(?:[\w\-.~!$&'()*+;=]|%[\da-f]{2})+(?::(\d{0,5}))?$/i
/** An IPv6 address in brackets with an optional port. A zone is refused, because it has a meaning only on the caller's machine. */
const bracketed = /^\[([\da-f:.]+)\](?::(\d{0,5}))?$/i
/** Values of `Host` that were found well-formed. The set stays small, because a gateway has few host names. */
const knownHosts = new Set<string>()

/** Whether a value of `Host` is one host, with or without a port (RFC 9112, section 3.2). An empty value is no host. */
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

/**
 * Parts of Node's connection that its types lack, and this module's own field. The parser has the bytes that are being parsed.
 * `bytesSeen` is stored on the connection, which is faster than a map, because every call reads it (bench/free.ts,
 * `free1k_vs_bare_dispatch`).
 */
interface Connection extends Socket {
  parser?: { getCurrentBuffer?(): Buffer | undefined }
  [bytesSeen]?: number
}

/** How many bytes a connection had read when its last request was checked. */
const bytesSeen = Symbol('bytes seen')

/**
 * Whether a request line separates its parts by more than one space. Node's parser silently skips the additional spaces, and other
 * readers split the line differently (RFC 9112, section 3).
 *
 * The check copies the bytes (0.9 µs), so it runs only if the request's length on the wire differs from the length of its parts.
 * The check is impossible if the packet with the line is gone when the head is complete. Such a line is safe, because the gateway
 * rebuilds the line before it forwards the request.
 *
 * @param headBytes length of the head as it is usually written, with `Name: value` and CRLF, in bytes
 * @param bodyBytes stated length of the body in bytes, -1 if the body is chunked
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
  /** The path after the slug, with its leading slash, not decoded. Empty if the path ends with the slug. */
  readonly subPath: string
  /** The query with its leading `?`, without the gateway's own parameter `x402Version`. Empty if there is no query. */
  readonly query: string
  /** True if the caller requested the v1 form of the 402 by `?x402Version=1`. */
  readonly asksForV1: boolean
}

export const linkPrefix = '/api/link/'

/**
 * Splits a request target into its parts. The gateway serves only one spelling of every path, so that it forwards exactly the path
 * that it has priced. It refuses a target that another reader could resolve to another path (RFC 3986, sections 3.3 and 5.2.4), and
 * never corrects it.
 *
 * @returns the parts. A string that names the problem if the gateway must refuse the target. Undefined if no link can have this
 *   address
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

/** The problem of a path that can be read in more than one way. Undefined if it has only one reading. */
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

/**
 * Whether a character ends a segment. NaN, which marks the end of the path, and a slash end it. So does the `;` of a path
 * parameter, because some servers remove the parameter before they resolve `..`.
 */
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

/**
 * Minimum pause between two warnings about unreadable entries, in ms. Without a pause, each request through a misconfigured proxy
 * would write the same warning.
 */
const WARN_EVERY_MS = 60_000
/**
 * Maximum entries of `X-Forwarded-For` that the gateway reads, from the right. A chain of trusted proxies is short, and each entry
 * takes microseconds to read.
 */
const MAX_ENTRIES = 32
/** Maximum characters of an unreadable entry that are logged. */
const MAX_SHOWN_CHARS = 64

const unreadable =
  'a trusted proxy has written an entry into X-Forwarded-For that is not an IP address, so its caller has no limit of its own. Have the proxy append the address that it sees (IPv4 or IPv6, with or without a port). Remove a proxy that cannot do so from gateway.trustedProxyCidrs'

/**
 * Makes the function that finds the address of a request's caller. It reads `X-Forwarded-For` only if the connection comes from one
 * of the operator's proxies. The caller is the right-most address that is not one of these proxies, because the caller may have
 * written everything left of it. If the function finds an unreadable entry first, the caller stays unknown, because any other
 * address would combine many callers into one. The operator then gets a warning, because an unknown caller has no rate limit of its
 * own.
 *
 * @param trustedCidrs addresses of the operator's proxies, such as `10.0.0.0/8`. If the list is empty, the caller's address is
 *   always that of the connection
 */
export function createClientIp(
  trustedCidrs: readonly string[],
  log: Pick<Log, 'warn'>,
): (req: IncomingMessage) => string {
  if (trustedCidrs.length === 0) return (req) => req.socket.remoteAddress ?? ''
  const ranges = trustedCidrs.map((cidr) => ipaddr.parseCIDR(cidr))
  const isTrusted = (address: string) => {
    if (!ipaddr.isValid(address)) return false
    const ip = ipaddr.process(address)
    return ranges.some(([base, bits]) => ip.kind() === base.kind() && ip.match(base as never, bits))
  }
  let warnedAtMs = Number.NEGATIVE_INFINITY
  const warn = (entry: string, proxy: string) => {
    if (performance.now() - warnedAtMs < WARN_EVERY_MS) return
    warnedAtMs = performance.now()
    log.warn({ entry: entry.trim().slice(0, MAX_SHOWN_CHARS), proxy }, unreadable)
  }
  return (req) => {
    const remote = req.socket.remoteAddress ?? ''
    const forwarded = req.headers['x-forwarded-for']
    if (forwarded === undefined || !isTrusted(remote)) return remote
    let client = remote
    for (const entry of String(forwarded).split(',').slice(-MAX_ENTRIES).reverse()) {
      const address = forwardedAddress(entry)
      if (address === undefined) {
        warn(entry, remote)
        return unknownAddress()
      }
      // One spelling for each address, so that a caller has only one rate limit bucket.
      client = ipaddr.process(address).toString()
      if (!isTrusted(client)) return client
    }
    // All addresses that were read belong to trusted proxies, so the left-most of them is the caller.
    return client
  }
}

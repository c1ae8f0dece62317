import { randomUUID } from 'node:crypto'
import { isIP, isIPv4 } from 'node:net'

/** How proxies write addresses, which is IPv4 with or without a port, or IPv6, in brackets if a port follows. */
const withPort = /^(?:\[(?<bracketed>[^\]]*)\]|(?<plain>\d+\.\d+\.\d+\.\d+))(?::(?:\d{0,5}|_[\w.-]+))?$/

/**
 * The address in one entry of `X-Forwarded-For`, without the port, brackets and quotes that some proxies add (RFC 7239, section 6).
 *
 * @returns undefined if the entry is not an address, such as `unknown` or an obfuscated name
 */
export function forwardedAddress(entry: string): string | undefined {
  let text = entry.trim()
  if (text.length > 1 && text.startsWith('"') && text.endsWith('"')) text = text.slice(1, -1).trim()
  // A zone (`fe80::1%eth0`) names an interface of the machine that wrote the entry, so the address is useless here.
  if (text.includes('%')) return undefined
  if (isIP(text) !== 0) return text
  const { bracketed, plain } = withPort.exec(text)?.groups ?? {}
  const address = bracketed ?? plain ?? ''
  return isIP(address) === 0 || (bracketed !== undefined && isIP(address) === 4) ? undefined : address
}

const unknownPrefix = 'unknown-'

/**
 * Replaces the address of a caller whose proxy does not report the address. Each request gets another value, so that two requests
 * never share what depends on an address, such as a stored response or a limit.
 */
export const unknownAddress = (): string => unknownPrefix + randomUUID()

/** Whether an address is one of {@link unknownAddress}. */
export const isUnknownAddress = (address: string): boolean => address.startsWith(unknownPrefix)

/**
 * The rate limit bucket of an address. It is the address itself for IPv4, and the /64 for IPv6, because one subscriber has a whole
 * /64. An IPv4 address in IPv6 form counts as IPv4.
 */
export function callerOf(ip: string): string {
  if (!ip.includes(':')) return ip
  if (ip.includes('.') && /^::ffff:/i.test(ip)) return ip.slice(7)
  const [head = '', tail] = ip.split('::', 2) as [string, string?]
  const left = head === '' ? [] : head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : 8 - left.length - right.length
  const groups = [...left, ...Array<string>(Math.max(zeros, 0)).fill('0'), ...right]
  return groups
    .slice(0, 4)
    .map((g) => Number.parseInt(g, 16).toString(16))
    .join(':')
}

/**
 * Whether a name or an address can be reached only from this machine. These are `localhost`, 127.0.0.0/8 and `::1`, also in a URL's
 * brackets, and in the form in which a dual-stack socket reports IPv4 (`::ffff:127.0.0.1`). Names below `.localhost` are not among
 * them, because a resolver need not keep them local (RFC 6761, section 6.3).
 *
 * @param host a URL's `hostname`, a host of a configuration, or a socket's `remoteAddress`
 */
export function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1' || host === '[::1]') return true
  const v4 = host.replace(/^::ffff:/i, '')
  return isIPv4(v4) && v4.startsWith('127.')
}

/**
 * Ids as callers' tools generate them, such as UUIDs, ULIDs and trace ids of clouds. They are short and contain no character that
 * could break a log line.
 */
const requestIdForm = /^[\w.:=+/@-]{8,64}$/

/**
 * The id of a request. It is in `X-Request-Id` of the response and of the request to the seller, in `error.requestId`, and in the
 * log.
 *
 * @param given the caller's `X-Request-Id`, which is used if it has the form of an id
 */
export function requestIdOf(given: string | undefined): string {
  return given !== undefined && requestIdForm.test(given) ? given : randomUUID()
}

import { randomUUID } from 'node:crypto'
import { isIP } from 'node:net'

/** What proxies write: an IPv4 address with or without a port, or an IPv6 address; in brackets where a port follows. */
const withPort = /^(?:\[(?<bracketed>[^\]]*)\]|(?<plain>\d+\.\d+\.\d+\.\d+))(?::(?:\d{0,5}|_[\w.-]+))?$/

/**
 * The address in one entry of `X-Forwarded-For`, without the port, brackets and quotes that some proxies write
 * (RFC 7239, section 6).
 *
 * @returns undefined for an entry that is no address, such as `unknown` or a name that hides one
 */
export function forwardedAddress(entry: string): string | undefined {
  let text = entry.trim()
  if (text.length > 1 && text.startsWith('"') && text.endsWith('"')) text = text.slice(1, -1).trim()
  // A zone (`fe80::1%eth0`) names an interface of the machine that wrote it.
  if (text.includes('%')) return undefined
  if (isIP(text) !== 0) return text
  const { bracketed, plain } = withPort.exec(text)?.groups ?? {}
  const address = bracketed ?? plain ?? ''
  return isIP(address) === 0 || (bracketed !== undefined && isIP(address) === 4) ? undefined : address
}

const unknownPrefix = 'unknown-'

/**
 * Stands for the address of a caller whose proxy does not say it. Each request has its own, so that nothing that is bound to an address
 * (a stored answer, a limit) is shared by two of them.
 */
export const unknownAddress = (): string => unknownPrefix + randomUUID()

/** Whether an address is one of {@link unknownAddress}. */
export const isUnknownAddress = (address: string): boolean => address.startsWith(unknownPrefix)

/**
 * The bucket of an address: IPv4 as it is, IPv6 by its /64, because one subscriber has a whole one.
 * An IPv4 address in IPv6 form counts as the IPv4 one.
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

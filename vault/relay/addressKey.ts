import { isIPv4, isIPv6 } from 'node:net'

/**
 * What one network is counted by: an IPv4 address, also where it is written as IPv6, and the first 64 bits of an IPv6 address, of
 * which whoever has one has all the rest (RFC 6177).
 */
export function addressKey(address: string): string {
  const mapped = /^::ffff:(.+)$/i.exec(address)?.[1]
  if (mapped !== undefined && isIPv4(mapped)) return mapped
  const [bare = ''] = address.split('%')
  if (!isIPv6(bare)) return address
  const [head = '', tail] = bare.toLowerCase().split('::')
  const first = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  const groups =
    tail === undefined ? first : [...first, ...Array(8 - first.length - last.length).fill('0'), ...last]
  const network = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16))
  return `${network.join(':')}::/64`
}

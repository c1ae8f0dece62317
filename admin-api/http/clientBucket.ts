import ipaddr from 'ipaddr.js'

/**
 * Whom an address stands for when requests are counted: an IPv4 address itself, of an IPv6 address the /64 that one
 * customer is given (RFC 6177), because its owner has 2^64 of them.
 *
 * @example clientBucket('2001:db8::1') // '2001:db8:0:0/64'
 */
export function clientBucket(address: string): string {
  if (!ipaddr.isValid(address)) return 'unknown'
  const parsed = ipaddr.process(address)
  if (parsed.kind() === 'ipv4') return parsed.toString()
  return `${(parsed as ipaddr.IPv6).parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':')}/64`
}

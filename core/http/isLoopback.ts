import { isIPv4 } from 'node:net'

/**
 * True for a name or an address that only this machine can reach: `localhost`, 127.0.0.0/8, `::1`, also in a URL's brackets,
 * and IPv4 as a socket of both families names it (`::ffff:127.0.0.1`). False for names below `.localhost`: a resolver need
 * not keep those to itself (RFC 6761, section 6.3).
 *
 * @param host a URL's `hostname`, a host of a configuration, or a socket's `remoteAddress`
 */
export function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1' || host === '[::1]') return true
  const v4 = host.replace(/^::ffff:/i, '')
  return isIPv4(v4) && v4.startsWith('127.')
}

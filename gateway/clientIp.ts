import type { IncomingMessage } from 'node:http'
import ipaddr from 'ipaddr.js'

/**
 * Makes the function that says whom a request comes from. `X-Forwarded-For` counts only when the connection comes from
 * one of the operator's proxies, and then the right-most address that is not one of them: everything left of it may
 * have been written by the caller.
 *
 * @param trustedCidrs such as `10.0.0.0/8`; empty: the connection's own address, always
 */
export function createClientIp(trustedCidrs: readonly string[]): (req: IncomingMessage) => string {
  if (trustedCidrs.length === 0) return (req) => req.socket.remoteAddress ?? ''
  const ranges = trustedCidrs.map((cidr) => ipaddr.parseCIDR(cidr))
  const isTrusted = (address: string) => {
    if (!ipaddr.isValid(address)) return false
    const ip = ipaddr.process(address)
    return ranges.some(([base, bits]) => ip.kind() === base.kind() && ip.match(base as never, bits))
  }
  return (req) => {
    const remote = req.socket.remoteAddress ?? ''
    const forwarded = req.headers['x-forwarded-for']
    if (forwarded === undefined || !isTrusted(remote)) return remote
    const chain = String(forwarded)
      .split(',')
      .map((part) => part.trim())
    const client = chain.findLast((address) => !isTrusted(address))
    // In its usual spelling, so that one caller is one bucket of the rate limit.
    return client !== undefined && ipaddr.isValid(client) ? ipaddr.process(client).toString() : remote
  }
}

import type { IncomingMessage } from 'node:http'
import ipaddr from 'ipaddr.js'
import { forwardedAddress, unknownAddress } from '../core/http/callerAddress.ts'
import type { Log } from '../core/ports/log.ts'

/** Every call of such a caller would say the same. */
const WARN_EVERY_MS = 60_000
/** Entries of `X-Forwarded-For` that are read, from the right: a chain of trusted proxies is short, and each entry takes microseconds. */
const MAX_ENTRIES = 32
/** Of an entry that is no address. */
const MAX_SHOWN_CHARS = 64

const unreadable =
  'a trusted proxy has written an entry into X-Forwarded-For that is no IP address: its caller has no limit of its own. Have the proxy append the address that it sees (IPv4 or IPv6, with or without a port); a proxy that cannot does not belong in gateway.trustedProxyCidrs'

/**
 * Makes the function that says whom a request comes from. `X-Forwarded-For` counts only when the connection comes from
 * one of the operator's proxies, and then the right-most address that is not one of them: everything left of it may
 * have been written by the caller. An entry on the way there that can't be read leaves the caller unknown: what stands left of it,
 * and the proxy's own address, would make one caller of many. The operator is told, because such a caller has no limit of its own.
 *
 * @param trustedCidrs such as `10.0.0.0/8`; empty: the connection's own address, always
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
      // In canonical spelling, so that a caller has one rate-limit bucket.
      client = ipaddr.process(address).toString()
      if (!isTrusted(client)) return client
    }
    // A trusted address itself: the first one that was noted, of those that are read.
    return client
  }
}

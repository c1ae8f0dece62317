import { isIP } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AddressPolicy } from './addressPolicy.ts'
import { hostOf, isLocalhost, loopback, refuse } from './checkUrl.ts'
import type { ResolveHost } from './names/resolveHost.ts'

export interface UrlJudgement {
  readonly isAllowed: AddressPolicy
  /** Whether the operator named the address's range. */
  readonly isListed: AddressPolicy
  readonly resolve: ResolveHost
  /** The longest that a name is waited for, in milliseconds. */
  readonly timeoutMs: number
  /** Ports that may be named on addresses that the operator did not list. */
  readonly publicPorts: readonly number[]
}

/**
 * Refuses a URL whose host has an address, now, that no connection would be made to, or whose port is not one of a web
 * server. A name without an answer passes as public: what it will stand for is judged on each connection.
 *
 * @param url that `checkUrl` let through
 * @throws {TollgateError} `VALIDATION_ERROR`, with the rule in `details`
 */
export async function judgeUrl(url: URL, judgement: UrlJudgement): Promise<void> {
  const { isAllowed, isListed, publicPorts } = judgement
  const addresses = await addressesOf(hostOf(url), judgement)
  if (!addresses.every(isAllowed)) {
    refuse(
      'private_address',
      "The URL's host has an address that is not public; use one that is, or ask the operator to allow it.",
    )
  }
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80)
  if (publicPorts.includes(port) || (addresses.length > 0 && addresses.every(isListed))) return
  refuse(
    'port',
    `The URL has port ${port}; expected one of ${publicPorts.join(', ')}, or ask the operator to allow it.`,
  )
}

async function addressesOf(
  host: string,
  { isAllowed, resolve, timeoutMs }: UrlJudgement,
): Promise<readonly string[]> {
  if (isLocalhost(host)) return loopback.filter(isAllowed)
  if (isIP(host) !== 0) return [host]
  const enough = new AbortController()
  const found = resolve(host).catch(() => [])
  try {
    return await Promise.race([found, sleep(timeoutMs, [], { signal: enough.signal })])
  } finally {
    enough.abort()
  }
}

import { Resolver } from 'node:dns/promises'
import { askServers } from './askServers.ts'
import { type CreateResolver, createNameServers } from './nameServers.ts'
import { createSystemLookup, type SystemNames, systemNames } from './systemLookup.ts'

/** What a name stands for, as canonical IP addresses in the order to try them. Never empty. */
export type ResolveHost = (host: string) => Promise<readonly string[]>

export interface HostResolver {
  readonly resolve: ResolveHost
  close(): void
}

/**
 * Makes the resolver: the system's (hosts file included) when no servers are named, otherwise these servers only.
 *
 * Questions for one name that are asked at the same moment share one answer, so a burst of new connections is one
 * look-up; nothing is kept once it is answered, because every new connection has to be judged by a fresh answer.
 * What getaddrinfo is asked has no time limit: the caller sets one.
 *
 * @param dnsServers `IP` or `IP:port` (`[IPv6]:port`)
 * @param timeoutMs a quarter of what the caller waits for a name
 * @param system what is asked when no servers are named
 */
export function createHostResolver(
  dnsServers: readonly string[],
  timeoutMs: number,
  system: SystemNames = systemNames,
): HostResolver {
  const pending = new Map<string, Promise<readonly string[]>>()
  const source =
    dnsServers.length === 0
      ? createSystemLookup(timeoutMs, system)
      : createServerLookup(dnsServers, timeoutMs)

  return {
    resolve(host) {
      const shared = pending.get(host)
      if (shared !== undefined) return shared
      const answer = source.resolve(host).finally(() => pending.delete(host))
      pending.set(host, answer)
      return answer
    },
    close: () => source.close(),
  }
}

function createServerLookup(dnsServers: readonly string[], timeoutMs: number): HostResolver {
  const createResolver: CreateResolver = (options) => {
    const resolver = new Resolver(options)
    resolver.setServers(dnsServers)
    return resolver
  }
  const servers = createNameServers(createResolver, timeoutMs)
  return { resolve: (host) => askServers(servers, host), close: () => servers.cancel() }
}

import { Resolver } from 'node:dns/promises'
import { type CreateResolver, createNameServers, queryServers, type ResolveHost } from './nameServers.ts'
import { createSystemLookup, type SystemNames, systemNames } from './systemLookup.ts'

export interface HostResolver {
  readonly resolve: ResolveHost
  close(): void
}

/**
 * Creates the resolver. It uses only the configured servers. If none are configured, it uses the system's lookup, including the
 * hosts file. Concurrent queries for a name share one response, so a burst of new connections needs one lookup. Nothing is cached,
 * because the address policy must judge every new connection by a fresh response. The caller sets a time limit, because calls of
 * getaddrinfo have none.
 *
 * @param dnsServers `IP` or `IP:port` (`[IPv6]:port`)
 * @param timeoutMs a quarter of the caller's time for a name
 * @param system used when no servers are configured
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
      const response = source.resolve(host).finally(() => pending.delete(host))
      pending.set(host, response)
      return response
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
  return { resolve: (host) => queryServers(servers, host), close: () => servers.cancel() }
}

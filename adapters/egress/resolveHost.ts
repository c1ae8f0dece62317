import { lookup, Resolver } from 'node:dns/promises'

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
 * The system's resolver has no time limit of its own: the caller sets one.
 *
 * @param dnsServers `IP` or `IP:port` (`[IPv6]:port`)
 * @param timeoutMs for one question to one server
 */
export function createHostResolver(dnsServers: readonly string[], timeoutMs: number): HostResolver {
  const pending = new Map<string, Promise<readonly string[]>>()
  const resolver = dnsServers.length === 0 ? undefined : new Resolver({ timeout: timeoutMs, tries: 2 })
  resolver?.setServers(dnsServers)
  const ask = resolver === undefined ? askSystem : (host: string) => askServers(resolver, host)

  return {
    resolve(host) {
      const shared = pending.get(host)
      if (shared !== undefined) return shared
      const answer = ask(host).finally(() => pending.delete(host))
      pending.set(host, answer)
      return answer
    },
    close: () => resolver?.cancel(),
  }
}

async function askSystem(host: string): Promise<readonly string[]> {
  const found = await lookup(host, { all: true, order: 'verbatim' })
  return found.map(({ address }) => address)
}

async function askServers(resolver: Resolver, host: string): Promise<readonly string[]> {
  // Most names lack one of the two families, so one failure is no failure.
  const [v4, v6] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
  const found = [v4, v6].flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  if (found.length > 0) return found
  throw v4.status === 'rejected' ? v4.reason : new Error(`No address for ${host}`)
}

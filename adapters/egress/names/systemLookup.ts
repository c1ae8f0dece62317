import { lookup, Resolver } from 'node:dns/promises'
import { isLocalhost, loopback } from '../checkUrl.ts'
import { askServers } from './askServers.ts'
import { createHostsFile, systemHostsFile } from './hostsFile.ts'
import { LookupLane } from './lookupLane.ts'
import { type CreateResolver, createNameServers, isUnknown, type NameServers } from './nameServers.ts'

/** Whether the system has other name servers is looked at no more often than this. */
const LOOK_MS = 3_000

/**
 * The places in the whole process for questions to getaddrinfo. Each holds a thread until it is answered, and of Node's
 * four libuv gives it two: what else is looked up by name, nodes and databases, has to find one. So names without a dot have
 * a place of their own, and those of domains, whose servers a seller can keep silent, hold the one other at most.
 */
const plainNames = new LookupLane({ atOnce: 1, waiting: 256 })
const dottedNames = new LookupLane({ atOnce: 1, waiting: 256 })

/** What the system offers to look up names; a test puts its own in the place. */
export interface SystemNames {
  readonly hostsFile: string
  /** Makes a resolver that asks the system's name servers, those of now. */
  readonly createResolver: CreateResolver
  /** getaddrinfo. */
  readonly lookup: (host: string) => Promise<readonly string[]>
}

export const systemNames: SystemNames = {
  hostsFile: systemHostsFile,
  createResolver: (options) => new Resolver(options),
  async lookup(host) {
    const found = await lookup(host, { all: true, order: 'verbatim' })
    return found.map(({ address }) => address)
  },
}

/**
 * Makes the look-up of names as the system knows them: the hosts file first, then its name servers, and getaddrinfo for
 * names that these do not know: those of a search domain, of mDNS, or of a plug-in of the system.
 *
 * The name servers are not asked by getaddrinfo, because that has one of two threads wait for each answer: a seller whose
 * servers answer nobody would hold both, and with them the names of everybody else. For the same reason a name that
 * got no answer is not asked once more that way.
 *
 * @param timeoutMs a quarter of what the caller waits for a name
 */
export function createSystemLookup(timeoutMs: number, system: SystemNames) {
  const inHostsFile = createHostsFile(system.hostsFile)
  const closing = new AbortController()
  const addressesOfNow = () => String(system.createResolver().getServers())
  let addresses = addressesOfNow()
  let servers = createNameServers(system.createResolver, timeoutMs)
  let lookedAtMs = performance.now()

  /** They stay while their addresses do: it is known which of them answer. What earlier ones were asked is answered there. */
  function serversOfNow(): NameServers {
    if (performance.now() - lookedAtMs < LOOK_MS) return servers
    lookedAtMs = performance.now()
    const now = addressesOfNow()
    if (now !== addresses) servers = createNameServers(system.createResolver, timeoutMs)
    addresses = now
    return servers
  }

  function byLookup(host: string): Promise<readonly string[]> {
    const lane = host.includes('.') ? dottedNames : plainNames
    return lane.run(() => system.lookup(host), timeoutMs * 4, closing.signal)
  }

  return {
    async resolve(host: string): Promise<readonly string[]> {
      if (isLocalhost(host)) return loopback
      const listed = inHostsFile(host)
      if (listed.length > 0) return listed
      if (!host.includes('.')) return byLookup(host)
      try {
        return await askServers(serversOfNow(), host)
      } catch (error) {
        if (!isUnknown(error)) throw error
        return byLookup(host)
      }
    },
    close() {
      closing.abort()
      servers.cancel()
    },
  }
}

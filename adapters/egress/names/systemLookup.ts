import { lookup, Resolver } from 'node:dns/promises'
import { isLocalhost, loopback } from '../addressPolicy.ts'
import { createHostsFile, systemHostsFile } from './hostsFile.ts'
import {
  type CreateResolver,
  createNameServers,
  isUnknown,
  type NameServers,
  queryServers,
} from './nameServers.ts'

/**
 * Runs a limited number of tasks at once and lets a limited number wait. Further tasks fail, and so do tasks that wait too long.
 * Its tasks block one of Node's few threads, which the whole process shares.
 */
class LookupLane {
  readonly #limits: LaneLimits
  readonly #waiting = new Set<() => void>()
  #running = 0

  constructor(limits: LaneLimits) {
    this.#limits = limits
  }

  /**
   * @param waitMs how long the task may wait for its turn, in ms, after which its caller gives up
   * @param signal ends the wait, but not a task that has begun
   * @throws {Error} the error of `work`; `EAI_AGAIN` when its turn did not come
   */
  async run<T>(work: () => Promise<T>, waitMs: number, signal: AbortSignal): Promise<T> {
    if (this.#running >= this.#limits.atOnce) await this.#turn(waitMs, signal)
    else this.#running++
    try {
      return await work()
    } finally {
      const next = this.#waiting.values().next().value
      if (next === undefined) this.#running--
      else next()
    }
  }

  /** Resolves once a slot is free. */
  #turn(waitMs: number, signal: AbortSignal): Promise<void> {
    if (this.#waiting.size >= this.#limits.waiting) {
      throw tooBusy(`${this.#limits.waiting} names are already waiting for the system's resolver`)
    }
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', aborted)
        this.#waiting.delete(take)
      }
      const take = () => {
        end()
        resolve()
      }
      const giveUp = (why: string) => {
        end()
        reject(tooBusy(why))
      }
      const aborted = () => giveUp('the egress is closed')
      const timer = setTimeout(
        giveUp,
        waitMs,
        `the system's resolver had no free slot for it in ${waitMs} ms`,
      )
      signal.addEventListener('abort', aborted)
      this.#waiting.add(take)
      if (signal.aborted) aborted()
    })
  }
}

/** How often the system's list of name servers is checked, in ms. */
const CHECK_MS = 3_000

/**
 * Slots of the whole process for calls of getaddrinfo. Each call blocks a thread until it returns. Node gives getaddrinfo two of
 * its four libuv threads, and the gateway needs one of these to find its chain nodes and database. So names without a dot have a
 * slot of their own. Names with a dot use only the other slot, because a seller can keep the servers of its domain silent.
 */
const plainNames = new LookupLane({ atOnce: 1, waiting: 256 })
const dottedNames = new LookupLane({ atOnce: 1, waiting: 256 })

/** The system's functions for looking up names. Tests replace them. */
export interface SystemNames {
  readonly hostsFile: string
  /** Creates a resolver that queries the system's current name servers. */
  readonly createResolver: CreateResolver
  /** Looks up a name by getaddrinfo. */
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
 * Creates the system's lookup of names. It uses the hosts file first, then the system's name servers. It uses getaddrinfo only for
 * names that these do not have, such as names of a search domain, of mDNS or of a plug-in of the system. It does not use
 * getaddrinfo to query the name servers, because each call blocks one of two threads. A seller whose servers never respond would
 * block both, and then no name could be looked up. For the same reason, it does not retry a name without a response by getaddrinfo.
 *
 * @param timeoutMs a quarter of the caller's time for a name
 */
export function createSystemLookup(timeoutMs: number, system: SystemNames) {
  const inHostsFile = createHostsFile(system.hostsFile)
  const closing = new AbortController()
  const addressesOfNow = () => String(system.createResolver().getServers())
  let addresses = addressesOfNow()
  let servers = createNameServers(system.createResolver, timeoutMs)
  let checkedAtMs = performance.now()

  /**
   * Returns the name servers. The object stays the same while the addresses do, because it records which servers respond. When the
   * addresses change, queries to the earlier servers end.
   */
  function serversOfNow(): NameServers {
    if (performance.now() - checkedAtMs < CHECK_MS) return servers
    checkedAtMs = performance.now()
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
        return await queryServers(serversOfNow(), host)
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

interface LaneLimits {
  readonly atOnce: number
  readonly waiting: number
}

function tooBusy(why: string): Error {
  return Object.assign(new Error(`The name was not resolved: ${why}.`), { code: 'EAI_AGAIN' })
}

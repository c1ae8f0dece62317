import type { ResolverOptions } from 'node:dns'
import type { Resolver } from 'node:dns/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { systemError } from '../errors.ts'

/** Resolves a name to canonical IP addresses in the order in which to try them. Never empty. */
export type ResolveHost = (host: string) => Promise<readonly string[]>

/** Number of queries to each server. The last query can find a slow name, because its server has been searching since the first. */
const TRIES = 4
/**
 * How long a silent server is queried after the others, in ms. Then it is queried in its usual order again, until it fails again.
 */
const PASSED_OVER_MS = 30_000
/** Maximum number of names for which the server that found them is remembered. */
const MAX_KNOWN = 1_000

/** Error codes for a name that servers do not have. `ECONNREFUSED` means that no server runs. */
const unknownCodes: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA', 'ECONNREFUSED'])

/** Error codes after which no other server is queried, because the name does not exist or the query was cancelled. */
const finalCodes: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA', 'ECANCELLED'])

/** One query, such as for the IPv4 addresses of a name. */
type Question = (resolver: Resolver) => Promise<readonly string[]>

/** Creates a resolver that queries all the configured servers. */
export type CreateResolver = (options?: ResolverOptions) => Resolver

export interface NameServers {
  /** @throws {Error} the system's error; it is one of {@link isUnknown} only if no server was silent or failed */
  queryHost(host: string, question: Question): Promise<readonly string[]>
  /** Fails the queries in flight with `ECANCELLED`. */
  cancel(): void
}

interface Server {
  readonly resolver: Resolver
  /**
   * Send time of the oldest query without a response, by `performance.now()`, since the server's last response. Undefined if there
   * is none.
   */
  unansweredSinceMs: number | undefined
}

/**
 * Creates the queries of name servers. They query the servers in order. The next server is queried when the previous one has failed
 * or has not responded in its share of the time. The first response counts, even if it is "does not exist". A query takes at most
 * three quarters of the caller's time, regardless of the number of servers.
 *
 * Each server has a resolver of its own. With one resolver for all, c-ares would count the queries without a response and then
 * prefer another server. So an attacker with silent names could make it query a dead server for all other names. With separate
 * resolvers, silent names count against all servers equally, and not against a server that responds to other queries.
 *
 * @param timeoutMs a quarter of the caller's time for a name
 */
export function createNameServers(createResolver: CreateResolver, timeoutMs: number): NameServers {
  const addresses = createResolver().getServers()
  // The limit is less than the whole time, so that the caller has time left for the connection.
  const tryMs = Math.ceil(timeoutMs * 0.75)
  const patienceMs = tryMs * TRIES
  // Several servers are queried in two rounds, so that the second server gets its query soon and the first gets another in time.
  const rounds = addresses.length > 1 ? 2 : 1
  const questions = rounds * Math.max(1, addresses.length)
  const nextMs = patienceMs / questions
  const create = () => createResolver({ timeout: tryMs, maxTimeout: tryMs, tries: TRIES / rounds })
  const servers = createResolvers(addresses, create).map(
    (resolver): Server => ({ resolver, unansweredSinceMs: undefined }),
  )

  /**
   * The server that found a name for which the first server had no response. This happens, for example, in a zone that not every
   * server reaches.
   */
  const finders = new LRUCache<string, Server>({ max: MAX_KNOWN, ttl: PASSED_OVER_MS })

  /** Returns the servers in the order of the queries. Silent servers come after two rounds of the others. */
  function inOrder(host: string): Server[] {
    const nowMs = performance.now()
    const isSilent = (server: Server) => {
      const silentMs = nowMs - (server.unansweredSinceMs ?? nowMs)
      if (silentMs > PASSED_OVER_MS) server.unansweredSinceMs = undefined
      // A server counts as silent only after the next one was queried, because its response shows which servers are silent.
      return silentMs > nextMs / 2 && silentMs <= PASSED_OVER_MS
    }
    const silent = servers.filter(isSilent)
    const others = servers.filter((server) => !silent.includes(server))
    const finder = finders.get(host)
    return [...(finder === undefined ? [] : [finder]), ...others, ...others, ...silent]
  }

  async function queryOne(server: Server, question: Question): Promise<readonly string[]> {
    server.unansweredSinceMs ??= performance.now()
    try {
      const found = await question(server.resolver)
      server.unansweredSinceMs = undefined
      return found
    } catch (error) {
      if (isFinal(error)) server.unansweredSinceMs = undefined
      throw error
    }
  }

  return {
    queryHost: (host, question) =>
      new Promise((resolve, reject) => {
        const order = inOrder(host)
        const failures: unknown[] = []
        let queried = 0
        let nextTimer: NodeJS.Timeout | undefined
        const end = () => {
          clearTimeout(nextTimer)
          clearTimeout(endTimer)
          queried = questions
        }
        const fail = (error: unknown) => {
          end()
          reject(error)
        }
        const queryNext = () => {
          clearTimeout(nextTimer)
          if (queried === questions) return
          const server = order[queried++ % order.length]!
          // The pause has a random part. Some of many simultaneous queries are lost, and without it they would be sent
          // simultaneously again.
          if (queried < questions) nextTimer = setTimeout(queryNext, nextMs * (0.75 + Math.random() / 2))
          queryOne(server, question).then(
            (found) => {
              end()
              if (server !== order[0]) finders.set(host, server)
              resolve(found)
            },
            (error) => {
              failures.push(error)
              if (isFinal(error)) fail(error)
              else if (failures.length === questions) fail(worstOf(failures))
              else queryNext()
            },
          )
        }
        const endTimer = setTimeout(() => fail(worstOf([...failures, silence(patienceMs)])), patienceMs)
        queryNext()
      }),
    cancel() {
      for (const { resolver } of servers) resolver.cancel()
    },
  }
}

function createResolvers(addresses: readonly string[], create: () => Resolver): Resolver[] {
  // A single resolver is used as created, because copying its list of servers would lose the zone of a link-local server.
  if (addresses.length < 2) return [create()]
  return addresses.map((address) => {
    const resolver = create()
    resolver.setServers([address])
    return resolver
  })
}

/**
 * Returns the failure that counts. It is one of a server that was silent or failed, because that server may have a name that others
 * do not have.
 */
function worstOf(failures: readonly unknown[]): unknown {
  return failures.find((error) => !isUnknown(error)) ?? failures[0]
}

/** Whether the error says that the name is unknown, so another source may have it. False if a server was silent or failed. */
export function isUnknown(error: unknown): boolean {
  return unknownCodes.has(systemError(error).code)
}

function isFinal(error: unknown): boolean {
  return finalCodes.has(systemError(error).code)
}

function silence(afterMs: number): Error {
  return Object.assign(new Error(`No name server responded within ${afterMs} ms.`), { code: 'ETIMEOUT' })
}

/**
 * How long the lookup waits for IPv6 addresses after IPv4 addresses have arrived, in ms. RFC 8305 (section 3, "resolution delay")
 * recommends 50 ms for clients that use later responses. This lookup ignores later responses, and a DNS64 looks up IPv4 addresses
 * itself before it responds, so the wait is longer.
 */
const LATE_FAMILY_MS = 500

type Outcome = PromiseSettledResult<readonly string[]>

/**
 * Queries name servers for the addresses of both families, IPv4 first. Late IPv6 addresses are left out.
 * @throws {Error} the system's error; it is one of `isUnknown` only if both families failed with one
 */
export async function queryServers(servers: NameServers, host: string): Promise<readonly string[]> {
  const outcomeOf = async (question: Question): Promise<Outcome> =>
    (await Promise.allSettled([servers.queryHost(host, question)]))[0]!
  const four = outcomeOf((resolver) => resolver.resolve4(host))
  const six = outcomeOf((resolver) => resolver.resolve6(host))
  const responses: Outcome[] = [await four]
  // Most names lack one of the two families, so the query succeeds if only one family fails.
  const late: Outcome = { status: 'fulfilled', value: [] }
  const isFound = responses[0]!.status === 'fulfilled'
  responses.push(await (isFound ? Promise.race([six, sleep(LATE_FAMILY_MS, late, { ref: false })]) : six))
  const found = responses.flatMap((response) => (response.status === 'fulfilled' ? response.value : []))
  if (found.length > 0) return found
  const failures = responses.flatMap((response) => (response.status === 'rejected' ? [response.reason] : []))
  throw worstOf(failures) ?? new Error(`No address for ${host}`)
}

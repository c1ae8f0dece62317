import type { ResolverOptions } from 'node:dns'
import type { Resolver } from 'node:dns/promises'
import { LRUCache } from 'lru-cache'
import { systemError } from '../systemError.ts'

/** Questions to each server. A slow name is found by the last of them: its server has been looking since the first. */
const TRIES = 4
/** A server that answers nothing gives way to the others for so long; then its place is its own again, until it is seen that it answers nothing. */
const PASSED_OVER_MS = 30_000
/** Names of which is known which server has them. */
const MAX_KNOWN = 1_000

/** What name servers say of a name that they do not know; the last one, that there is no server. */
const unknownCodes: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA', 'ECONNREFUSED'])

/** What ends a question, whatever another server would say: that the name is not there, and that nobody asks any more. */
const finalCodes: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA', 'ECANCELLED'])

/** One question, such as that for the IPv4 addresses of a name. */
export type Question = (resolver: Resolver) => Promise<readonly string[]>

/** Makes a resolver that asks all the servers that are meant. */
export type CreateResolver = (options?: ResolverOptions) => Resolver

export interface NameServers {
  /** @throws {Error} the system's; one of {@link isUnknown} only when no server was silent or failed */
  ask(host: string, question: Question): Promise<readonly string[]>
  /** Fails what is asked with `ECANCELLED`. */
  cancel(): void
}

interface Server {
  readonly resolver: Resolver
  /** When it was asked for the first time since its last answer; undefined until then. */
  unansweredSinceMs: number | undefined
}

/**
 * Makes the way to ask name servers: in their order, the next one when the one before has failed, or has not
 * answered in its share of the time. The first answer counts, and that a name does not exist is one. However many they are,
 * all of it takes three quarters of what the caller waits at most.
 *
 * Each has a resolver of its own. c-ares counts what a server leaves unanswered, and asks another one first after that: names
 * that are silent on purpose would have it ask a dead server for everybody else's. Here they count against all alike, and
 * against none that answers anything.
 *
 * @param timeoutMs a quarter of what the caller waits for a name
 */
export function createNameServers(createResolver: CreateResolver, timeoutMs: number): NameServers {
  const addresses = createResolver().getServers()
  // Short of a quarter, so that some of what the caller waits is left for the connection.
  const tryMs = Math.ceil(timeoutMs * 0.75)
  const patienceMs = tryMs * TRIES
  // Several are gone round twice: the next server is not long in coming, and the first is asked anew in time.
  const rounds = addresses.length > 1 ? 2 : 1
  const questions = rounds * Math.max(1, addresses.length)
  const nextMs = patienceMs / questions
  const create = () => createResolver({ timeout: tryMs, maxTimeout: tryMs, tries: TRIES / rounds })
  const servers = createResolvers(addresses, create).map(
    (resolver): Server => ({ resolver, unansweredSinceMs: undefined }),
  )

  /** Who has found a name that the first one asked had no answer for, such as one of a zone that not every server reaches. */
  const finders = new LRUCache<string, Server>({ max: MAX_KNOWN, ttl: PASSED_OVER_MS })

  /** The order to ask them in, over and over. Those that are silent come when the others were asked twice. */
  function inOrder(host: string): Server[] {
    const nowMs = performance.now()
    const isSilent = (server: Server) => {
      const silentMs = nowMs - (server.unansweredSinceMs ?? nowMs)
      if (silentMs > PASSED_OVER_MS) server.unansweredSinceMs = undefined
      // Before the next server is asked at the earliest: its answer shows who is silent.
      return silentMs > nextMs / 2 && silentMs <= PASSED_OVER_MS
    }
    const silent = servers.filter(isSilent)
    const others = servers.filter((server) => !silent.includes(server))
    const finder = finders.get(host)
    return [...(finder === undefined ? [] : [finder]), ...others, ...others, ...silent]
  }

  async function askOne(server: Server, question: Question): Promise<readonly string[]> {
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
    ask: (host, question) =>
      new Promise((resolve, reject) => {
        const order = inOrder(host)
        const failures: unknown[] = []
        let asked = 0
        let nextTimer: NodeJS.Timeout | undefined
        const end = () => {
          clearTimeout(nextTimer)
          clearTimeout(endTimer)
          asked = questions
        }
        const fail = (error: unknown) => {
          end()
          reject(error)
        }
        const askNext = () => {
          clearTimeout(nextTimer)
          if (asked === questions) return
          const server = order[asked++ % order.length]!
          // Not to the millisecond: of what is asked all at once some is lost, and would be once more.
          if (asked < questions) nextTimer = setTimeout(askNext, nextMs * (0.75 + Math.random() / 2))
          askOne(server, question).then(
            (found) => {
              end()
              if (server !== order[0]) finders.set(host, server)
              resolve(found)
            },
            (error) => {
              failures.push(error)
              if (isFinal(error)) fail(error)
              else if (failures.length === questions) fail(worstOf(failures))
              else askNext()
            },
          )
        }
        const endTimer = setTimeout(() => fail(worstOf([...failures, silence(patienceMs)])), patienceMs)
        askNext()
      }),
    cancel() {
      for (const { resolver } of servers) resolver.cancel()
    },
  }
}

function createResolvers(addresses: readonly string[], create: () => Resolver): Resolver[] {
  // Left as it is made: the zone of a link-local server is not among what it tells.
  if (addresses.length < 2) return [create()]
  return addresses.map((address) => {
    const resolver = create()
    resolver.setServers([address])
    return resolver
  })
}

/** Of several failures the one that counts: a server that was silent or failed may know what others do not. */
export function worstOf(failures: readonly unknown[]): unknown {
  return failures.find((error) => !isUnknown(error)) ?? failures[0]
}

/** Whether the name may be known elsewhere. A server that was silent or failed says nothing of that. */
export function isUnknown(error: unknown): boolean {
  return unknownCodes.has(systemError(error).code)
}

function isFinal(error: unknown): boolean {
  return finalCodes.has(systemError(error).code)
}

function silence(afterMs: number): Error {
  return Object.assign(new Error(`No name server answered within ${afterMs} ms.`), { code: 'ETIMEOUT' })
}

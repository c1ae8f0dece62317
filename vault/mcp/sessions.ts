import type { Server } from '@modelcontextprotocol/sdk/server/index.js'
import type { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { VaultClock } from '../ports/clock.ts'

/** One client's session: of one agent, over as many HTTP requests as it likes. */
export interface Session {
  readonly id: string
  readonly agentId: string
  readonly transport: StreamableHTTPServerTransport
  readonly server: Server
  /** HTTP requests that are not answered to their end, an open event stream among them. */
  openRequests: number
  /**
   * Ids of JSON-RPC requests under way, each with how many came in the same message: a second request of the same id
   * could not be told from the first.
   */
  readonly idsUnderWay: Map<string | number, number>
  lastUsedMs: number
}

/** Sessions of one agent at a time; a program that crashes again and again must not fill the memory. */
export const MOST_SESSIONS_PER_AGENT = 32
/** How long a session lives that nobody uses. Its client gets 404 then and begins another one, as the protocol says. */
export const IDLE_SESSION_MS = 30 * 60_000
const SWEEP_MS = 60_000

export interface Sessions {
  get(id: string): Session | undefined
  /** @returns false when the agent has as many as it may, all of them in use */
  add(session: Session): boolean
  /** Forgets a session; closing it is the caller's work. */
  delete(id: string): void
  /** Ends every session of an agent: its open streams close. */
  endOf(agentId: string): Promise<void>
  /** Ends those that nobody used for a while. */
  sweep(): Promise<void>
  readonly size: number
  close(): Promise<void>
}

export function createSessions(clock: VaultClock): Sessions {
  const byId = new Map<string, Session>()
  const timer = setInterval(() => void sweep(), SWEEP_MS)
  timer.unref()

  const end = async (ending: readonly Session[]): Promise<void> => {
    for (const { id } of ending) byId.delete(id)
    await Promise.all(ending.map(({ server }) => server.close()))
  }
  const all = (): Session[] => [...byId.values()]
  const isIdle = ({ openRequests, lastUsedMs }: Session): boolean =>
    openRequests === 0 && clock.monotonicMs() - lastUsedMs >= IDLE_SESSION_MS
  const sweep = (): Promise<void> => end(all().filter(isIdle))

  return {
    get: (id) => byId.get(id),
    add(session) {
      const own = all().filter(({ agentId }) => agentId === session.agentId)
      if (own.length >= MOST_SESSIONS_PER_AGENT) {
        // Clients vanish without a word; the one that was silent longest is the likeliest to have.
        const unused = own.filter(({ openRequests }) => openRequests === 0)
        const [oldest] = unused.sort((a, b) => a.lastUsedMs - b.lastUsedMs)
        if (oldest === undefined) return false
        void end([oldest])
      }
      byId.set(session.id, session)
      return true
    },
    delete: (id) => void byId.delete(id),
    endOf: (agentId) => end(all().filter((session) => session.agentId === agentId)),
    sweep,
    get size() {
      return byId.size
    },
    async close() {
      clearInterval(timer)
      await end(all())
    },
  }
}

import { createHash, randomBytes } from 'node:crypto'
import type { Clock } from '../../core/ports/clock.ts'
import { VaultError } from '../errors/error.ts'
import type { Records } from '../ports/records.ts'
import { type Grant, parseGrantLine } from './grant.ts'

type TokenKind = 'vat' | 'vow'

const form = /^(?:vat|vow)_[A-Za-z0-9_-]{43}$/

/** A new credential: `vat_` for agents or `vow_` for the owner, and 256 random bits. It is shown once and stored hashed. */
export const createToken = (kind: TokenKind): string => `${kind}_${randomBytes(32).toString('base64url')}`

/** Whether a text has the form of a token. The vault may still not know the token. */
export const isToken = (text: string, kind: TokenKind): boolean => form.test(text) && text.startsWith(kind)

/**
 * The form in which a token is stored and looked up. A plain SHA-256 is enough, because 256 random bits cannot be guessed, and
 * a lookup by the hash reveals nothing through its timing.
 */
export const hashToken = (token: string): string => createHash('sha256').update(token).digest('base64url')

/** Default limit on an agent's requests per minute, and on its requests at once. An agent can poll twice a second with it. */
export const DEFAULT_REQUESTS_PER_MINUTE = 120

/** An agent as stored, with the hash of its token instead of the token. */
export interface AgentRecord {
  readonly id: string
  /** Unique name that the owner chose. The log and every approval show it. */
  readonly name: string
  readonly tokenHash: string
  /** Grant lines, as the owner wrote them. */
  readonly scopes: readonly string[]
  /** Requests per minute. Null for {@link DEFAULT_REQUESTS_PER_MINUTE}. */
  readonly requestsPerMinute: number | null
  /** ISO 8601. */
  readonly createdAt: string
  readonly revokedAt: string | null
  /**
   * When a restore suspended the agent. It stays suspended until the owner resumes it. Null or absent if it is not suspended.
   */
  readonly suspendedAt?: string | null
}

/** An agent with parsed grants. */
export interface Agent extends AgentRecord {
  readonly grants: readonly Grant[]
}

/** What the owner sees of an agent. */
export interface AgentView {
  readonly id: string
  readonly name: string
  readonly scopes: readonly string[]
  readonly requests_per_minute: number
  readonly created_at: string
  readonly revoked_at: string | null
  /** True after a restore, until the owner resumes the agent. */
  readonly suspended: boolean
}

export const viewAgent = (agent: AgentRecord): AgentView => ({
  id: agent.id,
  name: agent.name,
  scopes: agent.scopes,
  requests_per_minute: agent.requestsPerMinute ?? DEFAULT_REQUESTS_PER_MINUTE,
  created_at: agent.createdAt,
  revoked_at: agent.revokedAt,
  suspended: isSuspended(agent),
})

/** Whether an agent is suspended and not revoked. */
export const isSuspended = ({ suspendedAt, revokedAt }: AgentRecord): boolean =>
  revokedAt === null && typeof suspendedAt === 'string'

export interface NewAgent {
  readonly name: string
  readonly scopes: readonly string[]
  readonly requestsPerMinute?: number | null
}

/** The fields of an agent that the owner may change. Only a restore suspends an agent. */
export type AgentChange = Partial<Omit<NewAgent, 'name'>> & { readonly suspended?: false }

/**
 * The agents that the owner registered. They are loaded from the vault's records at each unlock. Their names and token hashes
 * stay in memory after a lock, so that an unknown caller gets 401 and a known agent 423.
 */
export interface Agents {
  /** Reads the records. Called after each unlock. */
  load(): void
  /** The agent to which a token belongs. Undefined for an unknown token, and for a revoked agent. */
  byToken(token: string): Agent | undefined
  get(id: string): Agent | undefined
  byName(name: string): Agent | undefined
  list(): readonly Agent[]
  /** False until the first unlock, because no token can be recognized before that. */
  readonly isLoaded: boolean
  /** @returns the token, which is shown once. @throws `ALREADY_EXISTS`, `VALIDATION_ERROR`, `UNKNOWN_SCOPE` */
  add(agent: NewAgent): Promise<{ agent: Agent; token: string }>
  /**
   * Replaces the grants or the rate, or resumes a suspended agent.
   *
   * @param assertMay gets the current agent just before the change. If it throws, nothing is changed
   * @throws `NOT_FOUND`
   */
  update(id: string, change: AgentChange, assertMay?: (agent: Agent) => void): Promise<Agent>
  /** Creates a new token. The old token is invalid from then on. @param assertMay as for `update` */
  rotate(id: string, assertMay?: (agent: Agent) => void): Promise<{ agent: Agent; token: string }>
  /** Revokes an agent permanently. Returns the same for an agent that is already revoked. */
  revoke(id: string): Promise<Agent>
  /**
   * Calls the listener with the agent's id when its token ends, by a revocation or a new token. Returns a function that removes
   * the listener.
   */
  onTokenEnd(listener: (agentId: string) => void): () => void
}

const namePattern = /^[A-Za-z0-9](?:[A-Za-z0-9 ._@-]{0,62}[A-Za-z0-9])?$/
/** Names that the log and the rules use for another purpose than one agent. */
const reserved = new Set(['all', 'default', 'owner', 'unknown', 'vault'])
const MAX_SCOPES = 100

export function createAgents(records: Records, clock: Clock): Agents {
  let byId = new Map<string, Agent>()
  let byHash = new Map<string, Agent>()
  let isLoaded = false
  const listeners = new Set<(agentId: string) => void>()
  const tokenEnded = ({ id }: Agent): void => {
    for (const listener of listeners) listener(id)
  }

  const index = (agent: Agent): void => {
    const old = byId.get(agent.id)
    if (old !== undefined) byHash.delete(old.tokenHash)
    byId.set(agent.id, agent)
    if (agent.revokedAt === null) byHash.set(agent.tokenHash, agent)
  }
  const find = (id: string): Agent => {
    const agent = byId.get(id) ?? byName(id)
    if (agent === undefined) throw new VaultError('NOT_FOUND', 'No agent has this name or id.')
    return agent
  }
  const byName = (name: string): Agent | undefined => {
    const named = [...byId.values()].filter((agent) => agent.name === name)
    return named.find((agent) => agent.revokedAt === null) ?? named.at(-1)
  }
  const save = async (agent: AgentRecord): Promise<Agent> => {
    const { grants: _grants, ...record } = agent as Agent
    await records.putJson('agent', agent.id, record)
    const full = { ...record, grants: grantsOf(record.scopes) }
    index(full)
    return full
  }
  // Changes run one at a time, because two concurrent changes would overwrite each other.
  let last: Promise<unknown> = Promise.resolve()
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const next = last.then(work, work)
    last = next.catch(() => undefined)
    return next
  }

  return {
    get isLoaded() {
      return isLoaded
    },
    load() {
      byId = new Map()
      byHash = new Map()
      for (const { id } of records.list('agent')) {
        const record = records.getJson<AgentRecord>('agent', id)
        if (record !== undefined) index({ ...record, grants: grantsOf(record.scopes) })
      }
      isLoaded = true
    },
    byToken: (token) => byHash.get(hashToken(token)),
    get: (id) => byId.get(id),
    byName,
    list: () => [...byId.values()].sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1)),
    add: ({ name, scopes, requestsPerMinute = null }) =>
      inTurn(async () => {
        checkName(name)
        checkScopes(scopes)
        checkRate(requestsPerMinute)
        if (byName(name)?.revokedAt === null)
          throw new VaultError(
            'ALREADY_EXISTS',
            'Expected a new name, because an agent with this name is already registered.',
          )
        const token = createToken('vat')
        const agent = await save({
          id: `agt_${randomBytes(9).toString('base64url')}`,
          name,
          tokenHash: hashToken(token),
          scopes: [...scopes],
          requestsPerMinute,
          createdAt: new Date(clock.now()).toISOString(),
          revokedAt: null,
        })
        return { agent, token }
      }),
    update: (id, change, assertMay) =>
      inTurn(() => {
        const agent = live(find(id))
        if (change.scopes !== undefined) checkScopes(change.scopes)
        assertMay?.(agent)
        if (change.requestsPerMinute !== undefined) checkRate(change.requestsPerMinute)
        return save({
          ...agent,
          scopes: change.scopes === undefined ? agent.scopes : [...change.scopes],
          requestsPerMinute:
            change.requestsPerMinute === undefined ? agent.requestsPerMinute : change.requestsPerMinute,
          suspendedAt: change.suspended === false ? null : (agent.suspendedAt ?? null),
        })
      }),
    rotate: (id, assertMay) =>
      inTurn(async () => {
        const now = live(find(id))
        assertMay?.(now)
        const token = createToken('vat')
        const agent = await save({ ...now, tokenHash: hashToken(token) })
        tokenEnded(agent)
        return { agent, token }
      }),
    revoke: (id) =>
      inTurn(async () => {
        const agent = find(id)
        if (agent.revokedAt !== null) return agent
        // The token is removed from memory first, so that it is invalid even while the disk is slow.
        byHash.delete(agent.tokenHash)
        const revoked = await save({ ...agent, revokedAt: new Date(clock.now()).toISOString() })
        tokenEnded(revoked)
        return revoked
      }),
    onTokenEnd(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}

const grantsOf = (scopes: readonly string[]): readonly Grant[] => scopes.flatMap(parseGrantLine)

function live(agent: Agent): Agent {
  if (agent.revokedAt === null) return agent
  throw new VaultError('NOT_FOUND', 'This agent is revoked. Register the agent again.')
}

function checkName(name: string): void {
  if (typeof name === 'string' && namePattern.test(name) && !reserved.has(name.toLowerCase())) return
  throw new VaultError(
    'VALIDATION_ERROR',
    `Expected a name of 1 to 64 letters, digits, spaces and . _ - @, but not a reserved one: ${[...reserved].join(', ')}.`,
  )
}

function checkScopes(scopes: readonly string[]): void {
  if (!Array.isArray(scopes) || scopes.length > MAX_SCOPES || !scopes.every((s) => typeof s === 'string')) {
    throw new VaultError('VALIDATION_ERROR', `Expected scopes to be a list of at most ${MAX_SCOPES} strings.`)
  }
  grantsOf(scopes)
}

function checkRate(rate: number | null): void {
  if (rate === null || (Number.isSafeInteger(rate) && rate >= 1)) return
  throw new VaultError(
    'VALIDATION_ERROR',
    'Expected requests_per_minute to be a whole number from 1, or null for the default.',
  )
}

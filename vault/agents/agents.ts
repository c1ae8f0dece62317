import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/ports/clock.ts'
import { VaultError } from '../errors/error.ts'
import type { Records } from '../ports/records.ts'
import type { Agent, AgentRecord } from './agent.ts'
import { type Grant, parseGrantLine } from './grant.ts'
import { createToken, hashToken } from './token.ts'

export interface NewAgent {
  readonly name: string
  readonly scopes: readonly string[]
  readonly requestsPerMinute?: number | null
}

/** What may be changed of an agent. Only a restore suspends. */
export type AgentChange = Partial<Omit<NewAgent, 'name'>> & { readonly suspended?: false }

/**
 * The agents that the owner let in. They are read from the vault's records when it is unlocked; their names and token
 * hashes stay in memory while it is locked again, so that a stranger hears 401 and a known agent 423.
 */
export interface Agents {
  /** Reads the records; called after each unlock. */
  load(): void
  /** The agent that a token belongs to; undefined for revoked ones too. */
  byToken(token: string): Agent | undefined
  get(id: string): Agent | undefined
  byName(name: string): Agent | undefined
  list(): readonly Agent[]
  /** False until the vault was unlocked once: then nobody can be told apart. */
  readonly isLoaded: boolean
  /** @returns the token, which is shown once. @throws `ALREADY_EXISTS`, `VALIDATION_ERROR`, `UNKNOWN_SCOPE` */
  add(agent: NewAgent): Promise<{ agent: Agent; token: string }>
  /**
   * Replaces the grants or the rate, or lets a suspended one go on.
   *
   * @param assertMay gets the agent as it is when its turn comes; nothing is changed where it throws
   * @throws `NOT_FOUND`
   */
  update(id: string, change: AgentChange, assertMay?: (agent: Agent) => void): Promise<Agent>
  /** A new token; the old one is worth nothing from then on. @param assertMay as of `update` */
  rotate(id: string, assertMay?: (agent: Agent) => void): Promise<{ agent: Agent; token: string }>
  /** For good. Answers the same for an agent that is revoked already. */
  revoke(id: string): Promise<Agent>
  /** Calls back when an agent's token ends, by a revocation or a new one, with its id. Returns how to stop. */
  onTokenEnd(listener: (agentId: string) => void): () => void
}

const namePattern = /^[A-Za-z0-9](?:[A-Za-z0-9 ._@-]{0,62}[A-Za-z0-9])?$/
/** Names that the log and the rules use for others than one agent. */
const reserved = new Set(['all', 'default', 'owner', 'unknown', 'vault'])
const MOST_SCOPES = 100

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
    if (agent === undefined) throw new VaultError('NOT_FOUND', 'There is no agent of this name or id.')
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
  // One change after the other: two at once would each write what they read.
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
          throw new VaultError('ALREADY_EXISTS', 'Expected a new name; an agent of this name is registered.')
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
        // From memory first: nobody gets in while the disk is slow.
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
  throw new VaultError('NOT_FOUND', 'This agent is revoked; register it again.')
}

function checkName(name: string): void {
  if (typeof name === 'string' && namePattern.test(name) && !reserved.has(name.toLowerCase())) return
  throw new VaultError(
    'VALIDATION_ERROR',
    `Expected a name of 1 to 64 letters, digits, spaces and . _ - @, and none of ${[...reserved].join(', ')}.`,
  )
}

function checkScopes(scopes: readonly string[]): void {
  if (!Array.isArray(scopes) || scopes.length > MOST_SCOPES || !scopes.every((s) => typeof s === 'string')) {
    throw new VaultError('VALIDATION_ERROR', `Expected scopes to be a list of at most ${MOST_SCOPES} texts.`)
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

import type { Grant } from './grant.ts'

/** What an agent may ask in a minute, and at once, unless its owner says otherwise: to poll twice a second is within it. */
export const DEFAULT_REQUESTS_PER_MINUTE = 120

/** An agent as it is stored. Its token is not here, only the hash of it. */
export interface AgentRecord {
  readonly id: string
  /** Chosen by the owner, unique; what the log and every question show. */
  readonly name: string
  readonly tokenHash: string
  /** Lines of grants, as the owner wrote them. */
  readonly scopes: readonly string[]
  /** Requests a minute; null for {@link DEFAULT_REQUESTS_PER_MINUTE}. */
  readonly requestsPerMinute: number | null
  /** ISO 8601. */
  readonly createdAt: string
  readonly revokedAt: string | null
  /** Since when a restored vault waits for the owner's word about this agent; absent and null when it does not. */
  readonly suspendedAt?: string | null
}

/** An agent with its grants read. */
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
  /** True after a restore, until the owner says that it goes on. */
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

/** Whether a live agent waits for the owner's word. */
export const isSuspended = ({ suspendedAt, revokedAt }: AgentRecord): boolean =>
  revokedAt === null && typeof suspendedAt === 'string'

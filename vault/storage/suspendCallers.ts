import type { AgentRecord } from '../agents/agent.ts'
import type { Records } from '../ports/records.ts'
import type { PairingRecord } from '../remote/pairingRecord.ts'

/** How many were suspended. */
export interface Suspended {
  readonly agents: number
  readonly pairings: number
}

/**
 * Suspends every agent and every pairing that a backup says may call: what the owner revoked, and which tokens were changed,
 * after the backup is not known in it.
 */
export async function suspendCallers(records: Records, nowMs: number): Promise<Suspended> {
  let agents = 0
  let pairings = 0
  for (const { id } of records.list('agent')) {
    const agent = records.getJson<AgentRecord>('agent', id)!
    if (typeof agent.revokedAt === 'string') continue
    await records.putJson('agent', id, { ...agent, suspendedAt: new Date(nowMs).toISOString() })
    agents++
  }
  for (const { id } of records.list('pairing')) {
    const pairing = records.getJson<PairingRecord>('pairing', id)!
    if (pairing.state === 'revoked' || pairing.state === 'refused') continue
    await records.putJson('pairing', id, { ...pairing, suspendedAtMs: nowMs })
    pairings++
  }
  return { agents, pairings }
}

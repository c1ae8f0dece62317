import type { Clock } from '../../core/ports/clock.ts'
import { defaultRequestsPerMinute, isSuspended } from '../agents/agent.ts'
import { VaultError } from '../errors/error.ts'
import type { KnownCaller } from './caller.ts'
import { createRate } from './rate.ts'

/** Lets a caller in. @throws `UNAUTHORIZED` for a revoked agent, `AGENT_SUSPENDED` after a restore, `RATE_LIMIT_EXCEEDED` */
export type AssertAdmitted = (caller: KnownCaller) => void

/** One count of an agent's requests, whatever they ask for: what the owner set as requests a minute, or the default. */
export function createAssertAdmitted(clock: Clock): AssertAdmitted {
  const takeOne = createRate(clock)
  return (caller) => {
    if (caller.kind !== 'agent') return
    const { id, requestsPerMinute, revokedAt } = caller.agent
    if (revokedAt !== null) throw new VaultError('UNAUTHORIZED')
    if (isSuspended(caller.agent)) throw new VaultError('AGENT_SUSPENDED')
    takeOne(id, requestsPerMinute ?? defaultRequestsPerMinute)
  }
}

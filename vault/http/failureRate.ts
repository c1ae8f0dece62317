import type { Clock } from '../../core/ports/clock.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { createRate } from '../host/rate.ts'

/** Wrong tokens a minute from one address; a token can't be guessed, and the log of attempts can be filled. */
const mostFailures = 120

export function createFailureRate(clock: Clock = systemClock): { count(address: string): void } {
  const take = createRate(clock)
  return { count: (address) => take(address, mostFailures) }
}

import { CLOCK_BEHIND_MS } from '../../core/ports/store/leases.ts'

/** Whether a lease runs: the condition on a row of `leases` at the time that stands for `now` in the statement. */
export const leaseRuns = (now: string): string =>
  `(expires_at_ms > ${now} AND expires_at_ms <= ${now} + ttl_ms + ${CLOCK_BEHIND_MS})`

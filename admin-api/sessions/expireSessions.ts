import { setTimeout as sleep } from 'node:timers/promises'
import type { Api } from '../deps.ts'

const PAUSE_MS = 1_000
/** While there is more to delete. */
const SHORT_PAUSE_MS = 200
/** So few that no payment waits long behind them: each takes the writer a twentieth of a millisecond. */
const AT_ONCE = 100

/**
 * Writes of sessions that their time is over, so that whoever listens hears of it, and deletes those that ended unpaid long
 * ago. What a session is does not wait for this.
 */
export async function expireSessions(
  { sessions, clock, log }: Pick<Api, 'sessions' | 'clock' | 'log'>,
  stopped: AbortSignal,
): Promise<void> {
  while (!stopped.aborted) {
    let pauseMs = PAUSE_MS
    try {
      if ((await sessions.expire(clock.now(), AT_ONCE)) === AT_ONCE) pauseMs = 0
      else if ((await sessions.forget(clock.now(), AT_ONCE)) === AT_ONCE) pauseMs = SHORT_PAUSE_MS
    } catch (err) {
      log.warn({ err }, 'could not look for payment sessions that have expired; trying again')
    }
    if (pauseMs > 0) await sleep(pauseMs, undefined, { signal: stopped }).catch(() => undefined)
  }
}

import { setTimeout as sleep } from 'node:timers/promises'
import type { Api } from '../deps.ts'

const PAUSE_MS = 1_000
const AT_ONCE = 500
/** More than stores make in a second, and few enough that no payment waits behind them for the disk. */
const FORGOTTEN_AT_ONCE = 100

/**
 * Writes of sessions that their time is over, so that whoever listens hears of it, and deletes those that ended unpaid long
 * ago. What a session is does not wait for this.
 */
export async function expireSessions(
  { sessions, clock, log }: Pick<Api, 'sessions' | 'clock' | 'log'>,
  stopped: AbortSignal,
): Promise<void> {
  while (!stopped.aborted) {
    let isMore = false
    try {
      isMore = (await sessions.expire(clock.now(), AT_ONCE)) === AT_ONCE
      if (!isMore) await sessions.forget(clock.now(), FORGOTTEN_AT_ONCE)
    } catch (err) {
      log.warn({ err }, 'could not look for payment sessions that have expired; trying again')
    }
    if (!isMore) await sleep(PAUSE_MS, undefined, { signal: stopped }).catch(() => undefined)
  }
}

import { setTimeout as sleep } from 'node:timers/promises'
import type { ProbeReport } from '../../core/health/probe.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import {
  CHECKS_AT_ONCE,
  type Check,
  checkQueues,
  type DueCheck,
  type HealthChecks,
} from '../../core/ports/store/healthChecks.ts'

export interface ProberParts {
  readonly healthChecks: Pick<HealthChecks, 'due' | 'note' | 'putOff'>
  readonly clock: Clock
  readonly log: Log
  readonly intervalMs: number
  readonly probesPerSecond: number
  readonly calledForMs: number
  /** Waits; another one in tests whose time is not the world's. */
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>
  /** Whether this process is the one of the installation that asks, by now. */
  isMine(): boolean
  /** Asks the link's API, and judges what it saw. `isFailing` puts it before links that nobody calls. */
  probe(link: DueCheck): Promise<{ report: ProbeReport; isFailing: boolean }>
}

/** Who is due is looked up so often. */
const TURN_MS = 1_000
/** So much of what is left of a turn's places goes to a queue at first, so that none starves the ones behind it. */
const SHARE = 0.8
/** Checks under way; APIs that hang keep a place for as long as a check may take. */
const MAX_ASKING = 256
/** Checks under way at one origin for one seller. */
const MAX_AT_ORIGIN = 8

/**
 * Asks links' APIs by turns: each `intervalMs` after its last check, and where that is more than `probesPerSecond` allows,
 * whoever waits longest, of those first that are called, then of those that failed. One that has not answered yet is left
 * out: verdicts come in the order of the questions.
 */
export async function runProber(parts: ProberParts, signal: AbortSignal): Promise<void> {
  const { healthChecks, clock, log, intervalMs, pause: wait = pause } = parts
  const turnMs = Math.min(TURN_MS, intervalMs / 2)
  const places = Math.max(1, Math.round((parts.probesPerSecond * turnMs) / 1_000))
  /** Until what they found is written: before that, they are still due. */
  const asking = new Set<string>()
  const atOrigin = new Map<string, number>()
  const seen: Check[] = []

  /** With jitter, so that no seller is asked in step with others. */
  const nextMs = () => clock.now() + Math.round(intervalMs * (0.9 + Math.random() * 0.2))

  async function dueNow(): Promise<DueCheck[]> {
    const found: DueCheck[] = []
    const nowMs = clock.now()
    async function take(count: number, queue: (typeof checkQueues)[number]): Promise<void> {
      const query = { queue, nowMs, latestMs: nowMs + 2 * intervalMs }
      // Those that are being asked stand first among those that are due.
      const due = await healthChecks.due({ ...query, limit: count + asking.size + found.length })
      const isNew = ({ linkId }: DueCheck) =>
        !asking.has(linkId) && !found.some((one) => one.linkId === linkId)
      found.push(...due.filter(isNew).slice(0, count))
    }
    const free = Math.min(places, MAX_ASKING - asking.size)
    for (const queue of checkQueues) {
      const left = free - found.length
      // Rounded by chance: of a single place each has its part, too.
      if (left > 0) await take(queue === 'rest' ? left : Math.floor(left * SHARE + Math.random()), queue)
    }
    for (const queue of checkQueues) if (found.length < free) await take(free - found.length, queue)
    return found
  }

  async function ask(link: DueCheck, origin: string): Promise<void> {
    const { linkId } = link
    asking.add(linkId)
    atOrigin.set(origin, (atOrigin.get(origin) ?? 0) + 1)
    try {
      const { report, isFailing } = await parts.probe(link)
      const { ok, status, latencyMs, detail } = report
      const next = { atMs: nextMs(), isFailing, calledSinceMs: clock.now() - parts.calledForMs }
      seen.push({ linkId, atMs: clock.now(), ok, status, latencyMs, detail, next })
    } catch (err) {
      log.warn({ err, linkId }, 'could not ask a link')
      asking.delete(linkId)
      await putOff([linkId])
    } finally {
      const others = atOrigin.get(origin)! - 1
      if (others === 0) atOrigin.delete(origin)
      else atOrigin.set(origin, others)
    }
  }

  const putOff = (linkIds: readonly string[]) =>
    healthChecks
      .putOff(linkIds, nextMs())
      .catch((err: unknown) => log.warn({ err }, 'could not put health checks off'))

  /** What can not be written is tried again, and only that: as long, its links are not asked. */
  async function write(): Promise<void> {
    try {
      while (seen.length > 0) {
        const some = seen.slice(0, CHECKS_AT_ONCE)
        await healthChecks.note(some)
        seen.splice(0, some.length)
        for (const { linkId } of some) asking.delete(linkId)
      }
    } catch (err) {
      log.warn({ err }, 'could not note what health checks saw; trying again')
    }
  }

  while (!signal.aborted) {
    const due = !parts.isMine()
      ? []
      : await dueNow().catch((err: unknown) => {
          log.warn({ err }, 'could not read whose API is to be asked')
          return []
        })
    const isCrowded: string[] = []
    for (const link of due) {
      await wait((turnMs / due.length) * (0.5 + Math.random()), signal)
      if (signal.aborted) break
      const origin = `${link.storeId} ${new URL(link.url).origin}`
      // Not awaited: one slow API must not hold up the others' turn.
      if ((atOrigin.get(origin) ?? 0) < MAX_AT_ORIGIN) void ask(link, origin)
      else isCrowded.push(link.linkId)
    }
    if (isCrowded.length > 0) await putOff(isCrowded)
    if (due.length === 0) await wait(turnMs, signal)
    await write()
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  sleep(ms, undefined, { signal, ref: false }).catch(() => undefined)

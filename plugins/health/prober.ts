import { setTimeout as sleep } from 'node:timers/promises'
import type { ProbeReport } from '../../core/health/probe.ts'
import { type Job, startJob } from '../../core/jobs/job.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { Log } from '../../core/ports/log.ts'
import {
  CHECKS_AT_ONCE,
  type Check,
  checkQueues,
  type DueCheck,
  type HealthChecks,
} from '../../core/ports/store/healthChecks.ts'

export interface ProberDeps {
  readonly healthChecks: Pick<HealthChecks, 'due' | 'note' | 'putOff'>
  readonly clock: Clock
  readonly log: Log
  readonly intervalMs: number
  readonly probesPerSecond: number
  readonly calledForMs: number
  /** Waits. Tests replace it to simulate time. */
  readonly pause?: (ms: number, signal: AbortSignal) => Promise<void>
  /** Whether this process is the one process of the installation that probes. */
  isMine(): boolean
  /** Probes the link's API and judges the result. If `isFailing`, the prober checks the link before links without calls. */
  probe(link: DueCheck): Promise<{ report: ProbeReport; isFailing: boolean }>
}

/** Pause between two queries for the links that are due, in ms. */
const TURN_MS = 1_000
/** Share of a turn's remaining slots that each queue gets first. The rest remains for the queues after it. */
const SHARE = 0.8
/** Maximum checks in flight. A check of an API that hangs keeps its slot as long as a check may take. */
const MAX_PROBING = 256
/** Maximum checks in flight at one origin for one seller. */
const MAX_AT_ORIGIN = 8

/**
 * Probes links' APIs, each `intervalMs` after its last check. If `probesPerSecond` is too low for that, called links come first,
 * then failing links, then all others, and in each queue the links that have waited longest. The prober leaves out a link whose API
 * has not responded yet, so that results come in the order of the probes.
 */
export function createProber(parts: ProberDeps) {
  const { healthChecks, clock, log, intervalMs, pause: wait = pause } = parts
  const turnMs = Math.min(TURN_MS, intervalMs / 2)
  const places = Math.max(1, Math.round((parts.probesPerSecond * turnMs) / 1_000))
  /** Links whose check is running, or whose result is not written yet. The database still lists these links as due. */
  const asking = new Set<string>()
  const atOrigin = new Map<string, number>()
  const seen: Check[] = []

  /** When to check a link next. The random part spreads the probes of sellers over time. */
  const nextMs = () => clock.now() + Math.round(intervalMs * (0.9 + Math.random() * 0.2))

  async function dueNow(): Promise<DueCheck[]> {
    const found: DueCheck[] = []
    const nowMs = clock.now()
    async function take(count: number, queue: (typeof checkQueues)[number]): Promise<void> {
      const query = { queue, nowMs, latestMs: nowMs + 2 * intervalMs }
      // The database lists links whose check is running first, so the query asks for that many more.
      const due = await healthChecks.due({ ...query, limit: count + asking.size + found.length })
      const isNew = ({ linkId }: DueCheck) =>
        !asking.has(linkId) && !found.some((one) => one.linkId === linkId)
      found.push(...due.filter(isNew).slice(0, count))
    }
    const free = Math.min(places, MAX_PROBING - asking.size)
    for (const queue of checkQueues) {
      const left = free - found.length
      // Rounded at random, so that on average each queue gets its share even of a single slot.
      if (left > 0) await take(queue === 'rest' ? left : Math.floor(left * SHARE + Math.random()), queue)
    }
    for (const queue of checkQueues) if (found.length < free) await take(free - found.length, queue)
    return found
  }

  async function probeOnce(link: DueCheck, origin: string): Promise<void> {
    const { linkId } = link
    asking.add(linkId)
    atOrigin.set(origin, (atOrigin.get(origin) ?? 0) + 1)
    try {
      const { report, isFailing } = await parts.probe(link)
      const { ok, status, latencyMs, detail } = report
      const next = { atMs: nextMs(), isFailing, calledSinceMs: clock.now() - parts.calledForMs }
      seen.push({ linkId, atMs: clock.now(), ok, status, latencyMs, detail, next })
    } catch (err) {
      log.warn({ err, linkId }, 'could not probe a link')
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
      .catch((err: unknown) => log.warn({ err }, 'could not postpone health checks'))

  /** Writes results to the database. If a write fails, the prober retries it, and does not probe those links meanwhile. */
  async function write(): Promise<void> {
    try {
      while (seen.length > 0) {
        const some = seen.slice(0, CHECKS_AT_ONCE)
        await healthChecks.note(some)
        seen.splice(0, some.length)
        for (const { linkId } of some) asking.delete(linkId)
      }
    } catch (err) {
      log.warn({ err }, 'could not write the results of health checks and tries again')
    }
  }

  /** @returns ms until the next turn */
  async function turn(signal: AbortSignal): Promise<number> {
    await write()
    const due = parts.isMine() ? await dueNow() : []
    const isCrowded: string[] = []
    for (const link of due) {
      await wait((turnMs / due.length) * (0.5 + Math.random()), signal)
      if (signal.aborted) break
      const origin = `${link.storeId} ${new URL(link.url).origin}`
      // Not awaited, because a slow API must not delay the checks of other APIs.
      if ((atOrigin.get(origin) ?? 0) < MAX_AT_ORIGIN) void probeOnce(link, origin)
      else isCrowded.push(link.linkId)
    }
    if (isCrowded.length > 0) await putOff(isCrowded)
    return due.length === 0 ? turnMs : 0
  }

  return { turnMs, turn, write }
}

/** Starts a job that probes. When the job is stopped, it writes the results of its last probes. */
export function startProber(parts: ProberDeps): Pick<Job, 'stop'> {
  const { turnMs, turn, write } = createProber(parts)
  const job = startJob({
    name: 'probe the APIs of links',
    everyMs: turnMs,
    startsNow: true,
    log: parts.log,
    run: async (signal) => ({ inMs: await turn(signal) }),
  })
  return {
    async stop() {
      await job.stop()
      await write()
    },
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  sleep(ms, undefined, { signal, ref: false }).catch(() => undefined)

import { setTimeout as sleep } from 'node:timers/promises'
import type { Link } from '../../core/domain/link.ts'
import {
  callWindowMs,
  confirmSpanMs,
  freshHealth,
  type HealthObservation,
  type HealthState,
  observe,
  PROBES_TO_CONFIRM,
  suspensionAfter,
  suspensionMemoryMs,
} from '../../core/domain/suspension.ts'
import type { TrafficCounts } from '../../core/figures/trafficCounts.ts'
import type { ProbeReport } from '../../core/health/probe.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { JobLine } from '../../core/ports/jobLine.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Change, Changes } from '../../core/ports/store/changes.ts'
import type { Links } from '../../core/ports/store/links.ts'
import { type CallNote, CallNotes, GATHER_CALLS_MS } from './callNotes.ts'

const MINUTE_MS = 60_000
/** A batch waits for those that other processes gather meanwhile: what began there counts before what failed here. */
const settleMs = 2 * GATHER_CALLS_MS

export interface JudgeParts {
  readonly links: Pick<Links, 'find' | 'setSuspension' | 'suspensionCount' | 'addHealthEvent'>
  readonly counts: TrafficCounts
  readonly changes: Changes
  readonly jobLine: JobLine
  readonly clock: Clock
  readonly log: Log
  /** Asks the link's API now, and writes down what it saw. */
  probe(link: Link): Promise<ProbeReport>
  isWayOutDown(): boolean
  /** In place of `confirmSpanMs.manyCallers`, and in proportion of the other. */
  readonly confirmMs: number
}

/** A link as it is announced to caches: by the address that callers use. */
export interface JudgedLink {
  readonly linkId: string
  readonly username: string
  readonly slug: string
}

interface Judged {
  link: JudgedLink
  state: HealthState
}

/** Decides for the whole installation which links are suspended, on the calls of all its processes and on the probes. */
export class Judge {
  readonly #parts: JudgeParts
  readonly #judged = new Map<string, Judged>()
  readonly #ends: (() => void)[]
  #waiting: CallNote[] = []
  #timer: NodeJS.Timeout | undefined
  readonly #stopping = new AbortController()

  constructor(parts: JudgeParts) {
    this.#parts = parts
    this.#ends = [
      CallNotes.hear(parts.jobLine, (batch) => this.#gather(batch)),
      parts.changes.subscribe((change) => this.#lookAgain(change)),
    ]
  }

  /** @param isWayOutDown whether the gateway itself did not get out: a failure is not the seller's then */
  probed({ linkId, username, slug }: JudgedLink, failed: boolean, isWayOutDown: boolean): void {
    // Of a link that is well and that nobody calls there is nothing to remember.
    if (!failed && !this.#judged.has(linkId)) return
    const judged = this.#of({ linkId, username, slug })
    this.#wayOut(judged, !isWayOutDown)
    this.#take(judged, { kind: 'probe', failed })
    const { callMinutes, isSuspended, isEgressUp } = judged.state
    const sinceMs = this.#parts.clock.now() - callWindowMs
    const isIdle = callMinutes.every(({ minute }) => minute * MINUTE_MS < sinceMs)
    if (!failed && isIdle && !isSuspended && isEgressUp) this.#judged.delete(linkId)
  }

  stop(): void {
    this.#stopping.abort()
    for (const end of this.#ends) end()
    clearTimeout(this.#timer)
    this.#waiting = []
  }

  #gather(batch: readonly CallNote[]): void {
    this.#waiting.push(...batch)
    this.#timer ??= setTimeout(() => this.#decide(), settleMs).unref()
  }

  /** All that began counts before anything that failed: see `calls` in core/domain/suspension.ts. */
  #decide(): void {
    const notes = this.#waiting
    this.#waiting = []
    this.#timer = undefined
    for (const note of notes) {
      const judged = this.#of(note)
      for (const { minute, begun: count, served } of note.minutes) {
        const startedAtMs = minute * MINUTE_MS
        if (count !== 0) this.#take(judged, { kind: 'calls', count, startedAtMs })
        for (const caller of served) this.#take(judged, { kind: 'payer-served', startedAtMs, caller })
      }
      if (note.hasAnswered && judged.state.failedProbesInARow > 0)
        this.#take(judged, { kind: 'call-answered' })
    }
    for (const note of notes) {
      const judged = this.#of(note)
      if (!note.isWayOutDown) this.#count(note)
      for (const { minute, failed, failedBy } of note.minutes) {
        if (failed > 0) this.#wayOut(judged, !note.isWayOutDown)
        for (let i = 0; i < failed; i++) {
          const by = failedBy[i] ?? { caller: [] }
          this.#take(judged, { kind: 'call-failed', startedAtMs: minute * MINUTE_MS, ...by })
        }
      }
    }
  }

  /** For the history of its health; what failed for the gateway's own way out is no part of it. */
  #count({ linkId, minutes }: CallNote): void {
    const { counts } = this.#parts
    for (const { minute, begun, failed } of minutes) {
      const atMs = minute * MINUTE_MS
      if (begun !== 0) counts.add(linkId, 'calls', atMs, begun)
      if (failed !== 0) counts.add(linkId, 'failedCalls', atMs, failed)
    }
  }

  /** Only a change is told: failures are forgotten when the way out comes back. */
  #wayOut(judged: Judged, up: boolean): void {
    if (judged.state.isEgressUp !== up) this.#take(judged, { kind: 'egress', up })
  }

  #take(judged: Judged, observation: HealthObservation): void {
    const { state, suspend, confirmOverMs } = observe(judged.state, observation, this.#parts.clock.now())
    judged.state = state
    if (suspend === null) return
    this.#suspend(judged.link, suspend, confirmOverMs)
      .catch((err: unknown) => {
        this.#parts.log.error({ err, linkId: judged.link.linkId }, 'could not suspend a link')
        return false
      })
      .then((isSuspended) => {
        // Judged anew, so that the next failures try again.
        if (!isSuspended) this.#take(judged, { kind: 'cleared' })
      })
  }

  /** @returns false when it was found healthy after all */
  async #suspend({ linkId, username, slug }: JudgedLink, reason: string, overMs: number): Promise<boolean> {
    const { links, changes, clock, log } = this.#parts
    if (overMs > 0 && !(await this.#fails(linkId, overMs))) {
      log.info({ linkId, reason }, 'calls failed, and the API answers: the link is not suspended')
      return false
    }
    const link = await links.find(linkId)
    // Calls that were under way when it was suspended do not make its cooldown longer.
    if (link === undefined || !link.isActive || link.suspension !== null) return true
    const nowMs = clock.now()
    const earlier = await links.suspensionCount(linkId, nowMs - suspensionMemoryMs)
    await links.setSuspension(linkId, suspensionAfter(earlier, reason, nowMs), nowMs)
    const event = {
      linkId,
      atMs: nowMs,
      kind: 'suspended',
      ok: false,
      status: null,
      latencyMs: null,
    } as const
    await links.addHealthEvent({ ...event, detail: reason })
    log.warn({ linkId, reason }, 'link suspended')
    changes.publish({ kind: 'link', username, slug })
    return true
  }

  /** Whether all probes fail, at times that nobody can foresee, and none of them for the gateway's own way out. */
  async #fails(linkId: string, overMs: number): Promise<boolean> {
    const { signal } = this.#stopping
    const pauseMs = (overMs * this.#parts.confirmMs) / confirmSpanMs.manyCallers / (PROBES_TO_CONFIRM - 1)
    for (let i = 0; i < PROBES_TO_CONFIRM; i++) {
      const waitMs = i === 0 ? 0 : pauseMs * (0.5 + Math.random())
      if (i > 0) await sleep(waitMs, undefined, { signal, ref: false }).catch(() => undefined)
      const link = signal.aborted ? undefined : await this.#parts.links.find(linkId)
      if (link === undefined || (await this.#parts.probe(link)).ok || this.#parts.isWayOutDown()) return false
    }
    return !signal.aborted
  }

  /** A link that is served again is judged from the start, and one that is gone is forgotten. */
  #lookAgain(change: Change): void {
    for (const judged of this.#judged.values()) {
      const { linkId, username, slug } = judged.link
      if (username !== change.username || (change.kind === 'link' && slug !== change.slug)) continue
      this.#parts.links.find(linkId).then(
        (link) => {
          if (link === undefined || !link.isActive) this.#judged.delete(linkId)
          else if (link.suspension === null && judged.state.isSuspended)
            this.#take(judged, { kind: 're-enabled' })
        },
        (err: unknown) => this.#parts.log.warn({ err, linkId }, 'could not look at a link that changed'),
      )
    }
  }

  #of({ linkId, username, slug }: JudgedLink): Judged {
    let judged = this.#judged.get(linkId)
    if (judged === undefined) {
      this.#judged.set(linkId, (judged = { link: { linkId, username, slug }, state: freshHealth }))
    } else if (judged.link.slug !== slug || judged.link.username !== username) {
      judged.link = { linkId, username, slug }
    }
    return judged
  }
}

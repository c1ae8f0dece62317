import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { Link } from '../../core/domain/link.ts'
import {
  CALL_WINDOW_MS,
  confirmationSpansMs,
  freshHealth,
  type HealthObservation,
  type HealthState,
  observe,
  PROBES_TO_CONFIRM,
  SUSPENSION_MEMORY_MS,
  suspensionAfter,
} from '../../core/domain/suspension.ts'
import type { ProbeReport } from '../../core/health/probe.ts'
import type { Clock } from '../../core/ports/clock.ts'
import type { JobChannel } from '../../core/ports/jobChannel.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Change, Changes } from '../../core/ports/store/changes.ts'
import type { Links } from '../../core/ports/store/links.ts'
import type { TrafficCounts } from '../../core/stats/trafficCounts.ts'
import { type CallNote, CallNotes, GATHER_CALLS_MS } from './callNotes.ts'

const MINUTE_MS = 60_000
/**
 * How long a batch waits before its failed calls count, in ms. Meanwhile the other processes post the calls that began, which must
 * count first.
 */
const settleMs = 2 * GATHER_CALLS_MS
/** Maximum remembered links that are checked in one turn of the event loop for whether they can be forgotten. */
const ROWS_PER_TURN = 1_000

export interface JudgeDeps {
  readonly links: Pick<Links, 'find' | 'setSuspension' | 'suspensionCount' | 'addHealthEvent'>
  readonly counts: TrafficCounts
  readonly changes: Changes
  readonly jobChannel: JobChannel
  readonly clock: Clock
  readonly log: Log
  /** Probes the link's API now, and records the result. */
  probe(link: Link): Promise<ProbeReport>
  isOffline(): boolean
  /** Replaces `confirmationSpansMs.manyCallers`, in ms. The other span of `confirmationSpansMs` is scaled in proportion. */
  readonly confirmMs: number
}

/** A link, and its address, by which other processes and caches are notified of a change. */
export interface JudgedLink {
  readonly linkId: string
  readonly username: string
  readonly slug: string
}

interface Judged {
  link: JudgedLink
  state: HealthState
  /**
   * Calls that began in one minute (minutes since 1970) and are not in `state` yet. Two plain numbers suffice for most links, which
   * have no other observations. They are added to `state` before any other observation.
   */
  minute: number
  begun: number
}

/** Decides for the whole installation which links are suspended, from the probes and the calls of all its processes. */
export class Judge {
  readonly #parts: JudgeDeps
  readonly #judged = new Map<string, Judged>()
  /** Links that are suspended or about to be. The judge rechecks only these links when other processes change links. */
  readonly #suspended = new Set<Judged>()
  readonly #changed = new Set<Judged>()
  #isChecking = false
  #forgotAtMs = 0
  readonly #ends: (() => void)[]
  /** Notes with failed calls, which wait until the other processes have posted theirs. */
  #failing: CallNote[] = []
  #timer: NodeJS.Timeout | undefined
  readonly #stopping = new AbortController()

  constructor(parts: JudgeDeps) {
    this.#parts = parts
    this.#ends = [
      CallNotes.listen(parts.jobChannel, (batch) => this.#gather(batch)),
      parts.changes.subscribe((change) => this.#lookAgain(change)),
    ]
  }

  /** The number of links with remembered state. */
  get size(): number {
    return this.#judged.size
  }

  /** @param isOffline true if the gateway itself had no connectivity, so that a failure is not the seller's fault */
  probed({ linkId, username, slug }: JudgedLink, failed: boolean, isOffline: boolean): void {
    // A healthy link without recent calls is not kept in memory.
    if (!failed && !this.#judged.has(linkId)) return
    const judged = this.#of({ linkId, username, slug })
    this.#connectivity(judged, !isOffline)
    this.#take(judged, { kind: 'probe', failed })
    if (this.#isIdle(judged) && isWell(judged.state)) this.#judged.delete(linkId)
  }

  stop(): void {
    this.#stopping.abort()
    for (const end of this.#ends) end()
    clearTimeout(this.#timer)
    this.#failing = []
  }

  /**
   * Adds the calls that began to the state. They count at once, before any failed call. See `calls` in core/domain/suspension.ts.
   */
  #gather(batch: readonly CallNote[]): void {
    for (const note of batch) {
      this.#wellOf(this.#of(note), note)
      if (note.minutes.some(({ failed }) => failed > 0)) this.#failing.push(note)
      if (!note.isOffline) this.#count(note)
    }
    if (this.#failing.length > 0) this.#timer ??= setTimeout(() => this.#decide(), settleMs).unref()
    const nowMs = this.#parts.clock.now()
    // The difference is absolute, because the clock may have been set back.
    if (Math.abs(nowMs - this.#forgotAtMs) < CALL_WINDOW_MS) return
    this.#forgotAtMs = nowMs
    void this.#forget()
  }

  #decide(): void {
    const notes = this.#failing
    this.#failing = []
    this.#timer = undefined
    for (const note of notes) this.#illOf(this.#of(note), note)
  }

  #wellOf(judged: Judged, { minutes, hasAnswered }: CallNote): void {
    for (const { minute, begun, served } of minutes) {
      this.#begin(judged, minute, begun)
      const startedAtMs = minute * MINUTE_MS
      for (const caller of served) this.#take(judged, { kind: 'payer-served', startedAtMs, caller })
    }
    if (hasAnswered && judged.state.failedProbesInARow > 0) this.#take(judged, { kind: 'call-answered' })
  }

  #illOf(judged: Judged, { minutes, isOffline }: CallNote): void {
    for (const { minute, failed, failedBy } of minutes) {
      if (failed > 0) this.#connectivity(judged, !isOffline)
      for (let i = 0; i < failed; i++) {
        const by = failedBy[i] ?? { caller: [] }
        this.#take(judged, { kind: 'call-failed', startedAtMs: minute * MINUTE_MS, ...by })
      }
    }
  }

  #begin(judged: Judged, minute: number, begun: number): void {
    if (begun === 0) return
    // `begun` is negative if more calls were removed from the count than began, for example because callers disconnected.
    // The difference is subtracted from the calls in the link's health state.
    if (begun < 0) return this.#take(judged, { kind: 'calls', count: begun, startedAtMs: minute * MINUTE_MS })
    if (judged.minute !== minute) this.#addBegun(judged)
    judged.minute = minute
    judged.begun += begun
  }

  #addBegun(judged: Judged): void {
    const { begun: count, minute } = judged
    if (count === 0) return
    judged.begun = 0
    this.#take(judged, { kind: 'calls', count, startedAtMs: minute * MINUTE_MS })
  }

  /** Counts calls for the history of a link's health. Failures while the gateway itself had no connectivity are not counted. */
  #count({ linkId, minutes }: CallNote): void {
    const { counts } = this.#parts
    for (const { minute, begun, failed } of minutes) {
      const atMs = minute * MINUTE_MS
      if (begun !== 0) counts.add(linkId, 'calls', atMs, begun)
      if (failed !== 0) counts.add(linkId, 'failedCalls', atMs, failed)
    }
  }

  /** Records a change of the gateway's own connectivity. When connectivity returns, the state forgets earlier failures. */
  #connectivity(judged: Judged, up: boolean): void {
    if (judged.state.isEgressUp !== up) this.#take(judged, { kind: 'egress', up })
  }

  #take(judged: Judged, observation: HealthObservation): void {
    this.#addBegun(judged)
    const { state, suspend, confirmOverMs } = observe(judged.state, observation, this.#parts.clock.now())
    if (state.isSuspended) this.#suspended.add(judged)
    else if (judged.state.isSuspended) this.#suspended.delete(judged)
    judged.state = state
    if (suspend === null) return
    this.#suspend(judged.link, suspend, confirmOverMs)
      .catch((err: unknown) => {
        this.#parts.log.error({ err, linkId: judged.link.linkId }, 'could not suspend a link')
        return false
      })
      .then((isSuspended) => {
        // The state counts from zero again, so that the next failures start another attempt to suspend the link.
        if (!isSuspended) this.#take(judged, { kind: 'cleared' })
      })
  }

  /** @returns false if the probes found the link healthy */
  async #suspend({ linkId, username, slug }: JudgedLink, reason: string, overMs: number): Promise<boolean> {
    const { links, changes, clock, log } = this.#parts
    if (overMs > 0 && !(await this.#fails(linkId, overMs))) {
      log.info({ linkId, reason }, 'calls failed, but the API responds, so the link is not suspended')
      return false
    }
    const link = await links.find(linkId)
    // The link may already be suspended. Calls that were still running at that time do not lengthen its cooldown.
    if (link === undefined || !link.isActive || link.suspension !== null) return true
    const nowMs = clock.now()
    const earlier = await links.suspensionCount(linkId, nowMs - SUSPENSION_MEMORY_MS)
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

  /** Probes the link at unpredictable times. @returns true if every probe fails although the gateway itself has connectivity */
  async #fails(linkId: string, overMs: number): Promise<boolean> {
    const { signal } = this.#stopping
    const pauseMs =
      (overMs * this.#parts.confirmMs) / confirmationSpansMs.manyCallers / (PROBES_TO_CONFIRM - 1)
    for (let i = 0; i < PROBES_TO_CONFIRM; i++) {
      const waitMs = i === 0 ? 0 : pauseMs * (0.5 + Math.random())
      if (i > 0) await sleep(waitMs, undefined, { signal, ref: false }).catch(() => undefined)
      const link = signal.aborted ? undefined : await this.#parts.links.find(linkId)
      if (link === undefined || (await this.#parts.probe(link)).ok || this.#parts.isOffline()) return false
    }
    return !signal.aborted
  }

  /** Rechecks the suspended links that a change may concern. A link that serves calls again starts with an empty state. */
  #lookAgain(change: Change): void {
    for (const judged of this.#suspended) {
      const { username, slug } = judged.link
      if (username === change.username && (change.kind === 'store' || slug === change.slug))
        this.#changed.add(judged)
    }
    if (!this.#isChecking) void this.#checkChanged()
  }

  /**
   * Checks one link in each turn of the event loop, because a store may have thousands of links, and its seller may change it at
   * any rate.
   */
  async #checkChanged(): Promise<void> {
    this.#isChecking = true
    for (const judged of this.#changed) {
      if (this.#stopping.signal.aborted) break
      this.#changed.delete(judged)
      const link = await this.#find(judged)
      if (link?.suspension === null && judged.state.isSuspended) this.#take(judged, { kind: 're-enabled' })
      await nextTurn()
    }
    this.#isChecking = false
  }

  /**
   * @returns the link. Undefined if the database does not respond, or if the link is deleted, which also makes the judge forget the
   *   link
   */
  async #find(judged: Judged): Promise<Link | undefined> {
    const { linkId } = judged.link
    try {
      const link = await this.#parts.links.find(linkId)
      if (link?.isActive) return link
      this.#judged.delete(linkId)
      this.#suspended.delete(judged)
    } catch (err) {
      this.#parts.log.warn({ err, linkId }, 'could not read a link')
    }
  }

  /** Forgets links without recent calls that are healthy or deleted. */
  async #forget(): Promise<void> {
    let inTurn = 0
    for (const [linkId, judged] of this.#judged) {
      if (++inTurn % ROWS_PER_TURN === 0) await nextTurn()
      if (this.#stopping.signal.aborted) return
      if (!this.#isIdle(judged)) continue
      if (isWell(judged.state)) this.#judged.delete(linkId)
      else {
        await this.#find(judged)
        await nextTurn()
      }
    }
  }

  /** Whether all calls of the link are older than the window. */
  #isIdle({ state, begun, minute }: Judged): boolean {
    const sinceMs = this.#parts.clock.now() - CALL_WINDOW_MS
    const isOver = (minute: number) => minute * MINUTE_MS < sinceMs
    return (begun === 0 || isOver(minute)) && state.callMinutes.every((calls) => isOver(calls.minute))
  }

  #of({ linkId, username, slug }: JudgedLink): Judged {
    let judged = this.#judged.get(linkId)
    if (judged === undefined) {
      this.#judged.set(
        linkId,
        (judged = { link: { linkId, username, slug }, state: freshHealth, minute: 0, begun: 0 }),
      )
    } else if (judged.link.slug !== slug || judged.link.username !== username) {
      judged.link = { linkId, username, slug }
    }
    return judged
  }
}

/** Whether a state may be forgotten, because it has no failed probes, suspension or lost connectivity. */
const isWell = ({ failedProbesInARow, isSuspended, isEgressUp }: HealthState): boolean =>
  failedProbesInARow === 0 && !isSuspended && isEgressUp

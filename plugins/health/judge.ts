import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
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
/** Links that are looked through in one turn of the event loop, for those of which nothing is to be remembered any more. */
const IN_A_TURN = 1_000

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
  /**
   * Calls that began in one minute, since 1970, and are not in the state yet: numbers that are added to, because of most links that is
   * all there ever is to tell. They are in the state before anything else is observed.
   */
  minute: number
  begun: number
}

/** Decides for the whole installation which links are suspended, on the calls of all its processes and on the probes. */
export class Judge {
  readonly #parts: JudgeParts
  readonly #judged = new Map<string, Judged>()
  /** Those that are suspended, or about to be: the only ones that somebody else's change says something about. */
  readonly #suspended = new Set<Judged>()
  readonly #changed = new Set<Judged>()
  #isLooking = false
  #forgotAtMs = 0
  readonly #ends: (() => void)[]
  /** Notes of calls that failed, which wait for what other processes say. */
  #failing: CallNote[] = []
  #timer: NodeJS.Timeout | undefined
  readonly #stopping = new AbortController()

  constructor(parts: JudgeParts) {
    this.#parts = parts
    this.#ends = [
      CallNotes.hear(parts.jobLine, (batch) => this.#gather(batch)),
      parts.changes.subscribe((change) => this.#lookAgain(change)),
    ]
  }

  /** Links of which something is remembered. */
  get size(): number {
    return this.#judged.size
  }

  /** @param isWayOutDown whether the gateway itself did not get out: a failure is not the seller's then */
  probed({ linkId, username, slug }: JudgedLink, failed: boolean, isWayOutDown: boolean): void {
    // Of a link that is well and that nobody calls there is nothing to remember.
    if (!failed && !this.#judged.has(linkId)) return
    const judged = this.#of({ linkId, username, slug })
    this.#wayOut(judged, !isWayOutDown)
    this.#take(judged, { kind: 'probe', failed })
    if (this.#isIdle(judged) && isWell(judged.state)) this.#judged.delete(linkId)
  }

  stop(): void {
    this.#stopping.abort()
    for (const end of this.#ends) end()
    clearTimeout(this.#timer)
    this.#failing = []
  }

  /** What began counts at once, and so before anything that failed: see `calls` in core/domain/suspension.ts. */
  #gather(batch: readonly CallNote[]): void {
    for (const note of batch) {
      this.#wellOf(this.#of(note), note)
      if (note.minutes.some(({ failed }) => failed > 0)) this.#failing.push(note)
      if (!note.isWayOutDown) this.#count(note)
    }
    if (this.#failing.length > 0) this.#timer ??= setTimeout(() => this.#decide(), settleMs).unref()
    const nowMs = this.#parts.clock.now()
    // Also after a clock that was put back.
    if (Math.abs(nowMs - this.#forgotAtMs) < callWindowMs) return
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

  #illOf(judged: Judged, { minutes, isWayOutDown }: CallNote): void {
    for (const { minute, failed, failedBy } of minutes) {
      if (failed > 0) this.#wayOut(judged, !isWayOutDown)
      for (let i = 0; i < failed; i++) {
        const by = failedBy[i] ?? { caller: [] }
        this.#take(judged, { kind: 'call-failed', startedAtMs: minute * MINUTE_MS, ...by })
      }
    }
  }

  #begin(judged: Judged, minute: number, begun: number): void {
    if (begun === 0) return
    // Calls that are taken back are taken from what is in the state.
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

  /** A link that is served again is judged from the start. */
  #lookAgain(change: Change): void {
    for (const judged of this.#suspended) {
      const { username, slug } = judged.link
      if (username === change.username && (change.kind === 'store' || slug === change.slug))
        this.#changed.add(judged)
    }
    if (!this.#isLooking) void this.#lookAtChanged()
  }

  /** One in a turn of the event loop: a store may have thousands, and its seller may change it as often as he likes. */
  async #lookAtChanged(): Promise<void> {
    this.#isLooking = true
    for (const judged of this.#changed) {
      if (this.#stopping.signal.aborted) break
      this.#changed.delete(judged)
      const link = await this.#find(judged)
      if (link?.suspension === null && judged.state.isSuspended) this.#take(judged, { kind: 're-enabled' })
      await nextTurn()
    }
    this.#isLooking = false
  }

  /** @returns the link; undefined of one that is gone, which is forgotten, and where it is not known */
  async #find(judged: Judged): Promise<Link | undefined> {
    const { linkId } = judged.link
    try {
      const link = await this.#parts.links.find(linkId)
      if (link?.isActive) return link
      this.#judged.delete(linkId)
      this.#suspended.delete(judged)
    } catch (err) {
      this.#parts.log.warn({ err, linkId }, 'could not look at a link')
    }
  }

  /** Of links that nobody calls any more, those that are well and those that are gone. */
  async #forget(): Promise<void> {
    let inTurn = 0
    for (const [linkId, judged] of this.#judged) {
      if (++inTurn % IN_A_TURN === 0) await nextTurn()
      if (this.#stopping.signal.aborted) return
      if (!this.#isIdle(judged)) continue
      if (isWell(judged.state)) this.#judged.delete(linkId)
      else {
        await this.#find(judged)
        await nextTurn()
      }
    }
  }

  /** Whether none of its calls is looked at any more. */
  #isIdle({ state, begun, minute }: Judged): boolean {
    const sinceMs = this.#parts.clock.now() - callWindowMs
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

/** Nothing that the next call or health check does not find out. */
const isWell = ({ failedProbesInARow, isSuspended, isEgressUp }: HealthState): boolean =>
  failedProbesInARow === 0 && !isSuspended && isEgressUp

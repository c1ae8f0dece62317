import type { LinkSuspension } from './link.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** Failed probes in a row that suspend a link, and the least time from the first to the last of them. */
export const PROBE_FAILURES_TO_SUSPEND = 5
export const probeFailureSpanMs = 5 * minuteMs
/** Calls that are looked at: of this many or more within the window, half failed. */
export const CALLS_TO_JUDGE = 20
export const callWindowMs = 10 * minuteMs
/** Different callers whose calls failed, from which on they are taken for many. */
export const MANY_CALLERS = 4
/**
 * Calls only raise a suspicion: somebody may have looked for inputs that fail. So many probes have to fail as well, all of them, and
 * spread out, because one input may keep an API down for some seconds; when few callers met the failures, for as long as it takes
 * without any call.
 */
export const PROBES_TO_CONFIRM = 5
export const confirmSpanMs = { manyCallers: minuteMs, fewCallers: probeFailureSpanMs } as const
/**
 * Different payers who were charged for calls that failed, from which on no probe speaks for the seller: it is easy to answer
 * health checks well and buyers badly. They have to be as many as those who were served. Whoever was not charged has lost
 * nothing, and can make as many failures as he likes for nothing: then the probes have the last word.
 */
export const CHARGED_PAYERS_TO_JUDGE = 5
/** Callers that are remembered for each minute; more can't make them more different. */
const CALLERS_PER_MINUTE = 50
/** Good probes, one after the other, that a link needs to be re-enabled. */
export const PROBES_TO_RE_ENABLE = 2
/** How far back earlier suspensions count. */
export const suspensionMemoryMs = 30 * 24 * hourMs
/** Cooldown of the first, second, third and fourth suspension within that time; the fifth is permanent. */
export const cooldownsMs: readonly number[] = [15 * minuteMs, hourMs, 6 * hourMs, 24 * hourMs]

/** Calls that began in one minute. */
export interface CallMinute {
  /** Minutes since 1970. */
  readonly minute: number
  /** Calls that the seller's API was asked, those that are still under way among them. */
  readonly calls: number
  readonly failed: number
  /** Who met the failures; at most 50. */
  readonly failedBy: readonly Caller[]
  /** Those of them who were charged; kept when a good probe ends a suspicion. */
  readonly chargedPayers: readonly Caller[]
  /** Who paid and got an answer; at most 50. */
  readonly servedPayers: readonly Caller[]
}

/**
 * Who made a call, by everything that is known: the address, and the wallet of one that was paid for. Two callers are the same when
 * they have any of it in common, and nobody when nothing is known of them, so that neither a wallet with many addresses nor an address with many wallets is many.
 */
export type Caller = readonly string[]

/** What is remembered of a link's health; at most ten minutes of counts, however many calls there are. */
export interface HealthState {
  readonly failedProbesInARow: number
  readonly firstFailedProbeMs: number
  /** No two of the same minute, at most ten. */
  readonly callMinutes: readonly CallMinute[]
  /** Nothing is suspended twice. */
  readonly isSuspended: boolean
  /** False while the gateway's own way out is down: failures then say nothing about the seller. */
  readonly isEgressUp: boolean
}

/**
 * What happened. A probe or a call has failed when it timed out, could not connect or was answered with 500 or more;
 * everything below is healthy, 402 and other 4xx too.
 */
export type HealthObservation =
  | { readonly kind: 'probe'; readonly failed: boolean }
  /**
   * `count` calls began at that time, ms since 1970; negative for calls that are taken back, because their callers broke
   * them off. A call counts from its beginning: failing is fast and a good answer may take long, so that a judgement of
   * what has ended finds too many failures in every burst.
   */
  | { readonly kind: 'calls'; readonly count: number; readonly startedAtMs: number }
  | { readonly kind: 'call-answered' }
  /** Somebody paid for a call that began then, and was served. */
  | { readonly kind: 'payer-served'; readonly startedAtMs: number; readonly caller: Caller }
  | {
      readonly kind: 'call-failed'
      readonly startedAtMs: number
      readonly caller: Caller
      /** Whether its caller was charged all the same. */
      readonly isCharged?: boolean | undefined
    }
  | { readonly kind: 'egress'; readonly up: boolean }
  /** The link was suspended, by this process or by a neighbour. */
  | { readonly kind: 'suspended' }
  | { readonly kind: 're-enabled' }
  /** What calls made suspicious was not confirmed: they are counted anew, but who paid is remembered. */
  | { readonly kind: 'cleared' }

export interface HealthVerdict {
  readonly state: HealthState
  /** Why the link is to be suspended now, in words for its seller; null when it is not. */
  readonly suspend: string | null
  /**
   * Over how long {@link PROBES_TO_CONFIRM} probes have to fail before it is; a good one, and nothing is suspended. 0 when it
   * needs no probe.
   */
  readonly confirmOverMs: number
}

/** The state of a link of which nothing is known yet. */
export const freshHealth: HealthState = {
  failedProbesInARow: 0,
  firstFailedProbeMs: 0,
  callMinutes: [],
  isSuspended: false,
  isEgressUp: true,
}

/**
 * Takes one observation into account. Pure: the same state, observation and time give the same verdict.
 *
 * A verdict says `suspend` once; the caller then has it confirmed where it says so, stores {@link suspensionAfter}, and goes on with
 * the new state. Only
 * probes make a row of failures, but a call that succeeds breaks it: an API that answers its buyers is not down.
 *
 * @param nowMs ms since 1970. A clock that was put back forgets what now lies in the future instead of waiting for it.
 */
export function observe(state: HealthState, observation: HealthObservation, nowMs: number): HealthVerdict {
  switch (observation.kind) {
    case 'egress':
      return quiet(observation.up ? { ...afresh(state), isEgressUp: true } : { ...state, isEgressUp: false })
    case 'suspended':
      return quiet({ ...afresh(state), isSuspended: true })
    case 're-enabled':
      return quiet({ ...afresh(state), isSuspended: false })
    case 'cleared':
      return quiet({
        ...afresh(state),
        isSuspended: false,
        callMinutes: payersOnly(state.callMinutes, nowMs),
      })
    case 'payer-served':
      return quiet(observeServedPayer(state, observation, nowMs))
    case 'probe':
      return observeProbe(state, observation.failed, nowMs)
    case 'calls':
      return quiet({ ...state, callMinutes: countCalls(state.callMinutes, observation, nowMs) })
    case 'call-answered':
      return quiet(withoutProbeFailures(state))
    case 'call-failed':
      return observeFailedCall(state, observation, nowMs)
  }
}

/**
 * The suspension that follows when a link is suspended now.
 *
 * @param earlier suspensions of the link within the last {@link suspensionMemoryMs}, this one not counted
 */
export function suspensionAfter(earlier: number, reason: string, nowMs: number): LinkSuspension {
  const cooldownMs = cooldownsMs[earlier]
  if (cooldownMs === undefined) return { sinceMs: nowMs, reason, cooldownUntilMs: nowMs, permanent: true }
  return { sinceMs: nowMs, reason, cooldownUntilMs: nowMs + cooldownMs, permanent: false }
}

/** Whether a seller may try to re-enable the link: `probe` means yes, after {@link PROBES_TO_RE_ENABLE} good probes. */
export function reEnableStep(
  suspension: LinkSuspension | null,
  nowMs: number,
): 'not-suspended' | 'permanent' | 'cooling-down' | 'probe' {
  if (suspension === null) return 'not-suspended'
  if (suspension.permanent) return 'permanent'
  return nowMs < suspension.cooldownUntilMs ? 'cooling-down' : 'probe'
}

function observeProbe(state: HealthState, failed: boolean, nowMs: number): HealthVerdict {
  if (!failed) return quiet(withoutProbeFailures(state))
  if (!state.isEgressUp || state.isSuspended) return quiet(state)
  const isFirst = state.failedProbesInARow === 0 || state.firstFailedProbeMs > nowMs
  const row = isFirst ? 1 : Math.min(state.failedProbesInARow + 1, PROBE_FAILURES_TO_SUSPEND)
  const since = isFirst ? nowMs : state.firstFailedProbeMs
  const next = { ...state, failedProbesInARow: row, firstFailedProbeMs: since }
  if (row < PROBE_FAILURES_TO_SUSPEND || nowMs - since < probeFailureSpanMs) return quiet(next)
  return loud(next, `The last ${row} or more health checks failed, over at least 5 minutes.`, 0)
}

function observeFailedCall(
  state: HealthState,
  { startedAtMs, caller, isCharged }: HealthObservation & { readonly kind: 'call-failed' },
  nowMs: number,
): HealthVerdict {
  if (!state.isEgressUp) return quiet(state)
  const minute = minuteOf(startedAtMs)
  // A call that began before all was forgotten, or before the window, says nothing about the calls that are counted.
  const isCounted = (m: CallMinute) => m.minute === minute && m.failed < m.calls
  const callMinutes = withinWindow(state.callMinutes, nowMs).map((m) =>
    isCounted(m)
      ? {
          ...m,
          failed: m.failed + 1,
          failedBy: withCaller(m.failedBy, caller),
          chargedPayers: isCharged === true ? withCaller(m.chargedPayers, caller) : m.chargedPayers,
        }
      : m,
  )
  const next = { ...state, callMinutes }
  let calls = 0
  let failures = 0
  for (const m of callMinutes) {
    calls += m.calls
    failures += m.failed
  }
  // While a suspicion is looked into, it is only remembered who paid.
  if (state.isSuspended || calls < CALLS_TO_JUDGE || failures * 2 < calls) return quiet(next)
  const why = `${failures} of ${calls} calls within 10 minutes failed or timed out.`
  if (payersAreUnserved(callMinutes)) return loud(next, `${why} Those who were charged met the failures.`, 0)
  const isByMany = differentOf(callMinutes.flatMap(({ failedBy }) => failedBy)) >= MANY_CALLERS
  return loud(next, why, isByMany ? confirmSpanMs.manyCallers : confirmSpanMs.fewCallers)
}

function observeServedPayer(
  state: HealthState,
  { startedAtMs, caller }: { readonly startedAtMs: number; readonly caller: Caller },
  nowMs: number,
): HealthState {
  const minute = minuteOf(startedAtMs)
  const callMinutes = withinWindow(state.callMinutes, nowMs).map((m) =>
    m.minute === minute ? { ...m, servedPayers: withCaller(m.servedPayers, caller) } : m,
  )
  return { ...state, callMinutes }
}

function payersAreUnserved(minutes: readonly CallMinute[]): boolean {
  const charged = differentOf(minutes.flatMap(({ chargedPayers }) => chargedPayers))
  if (charged < CHARGED_PAYERS_TO_JUDGE) return false
  return charged >= differentOf(minutes.flatMap(({ servedPayers }) => servedPayers))
}

const payersOnly = (minutes: readonly CallMinute[], nowMs: number): readonly CallMinute[] =>
  withinWindow(minutes, nowMs).map((m) => ({ ...m, calls: 0, failed: 0, failedBy: [] }))

const withCaller = (callers: readonly Caller[], caller: Caller): readonly Caller[] =>
  callers.length === CALLERS_PER_MINUTE ? callers : [...callers, caller]

function differentOf(callers: readonly Caller[]): number {
  const known = new Set<string>()
  let different = 0
  for (const caller of callers) {
    if (caller.length > 0 && !caller.some((name) => known.has(name))) different++
    for (const name of caller) known.add(name)
  }
  return different
}

/** Adds calls to the minute in which they began, or takes them from it. */
function countCalls(
  minutes: readonly CallMinute[],
  { count, startedAtMs }: { readonly count: number; readonly startedAtMs: number },
  nowMs: number,
): readonly CallMinute[] {
  const minute = minuteOf(startedAtMs)
  const kept = withinWindow(minutes, nowMs)
  if (kept.some((m) => m.minute === minute)) {
    return kept.map((m) =>
      m.minute === minute ? { ...m, calls: Math.max(m.calls + count, m.failed, 0) } : m,
    )
  }
  return count < 0 ? kept : withinWindow([...kept, { ...noCalls, minute, calls: count }], nowMs)
}

/** Drops what left the window or, after the clock was put back, lies ahead. */
function withinWindow(minutes: readonly CallMinute[], nowMs: number): readonly CallMinute[] {
  const last = minuteOf(nowMs)
  const first = last - callWindowMs / minuteMs + 1
  return minutes.filter((m) => m.minute >= first && m.minute <= last)
}

const noCalls = { failed: 0, failedBy: [], chargedPayers: [], servedPayers: [] } as const

const minuteOf = (ms: number) => Math.floor(ms / minuteMs)

const quiet = (state: HealthState): HealthVerdict => ({ state, suspend: null, confirmOverMs: 0 })
const loud = (state: HealthState, suspend: string, confirmOverMs: number): HealthVerdict => ({
  state: { ...afresh(state), isSuspended: true, callMinutes: state.callMinutes },
  suspend,
  confirmOverMs,
})
const afresh = (state: HealthState): HealthState => ({
  ...freshHealth,
  isSuspended: state.isSuspended,
  isEgressUp: state.isEgressUp,
})
const withoutProbeFailures = (state: HealthState): HealthState =>
  state.failedProbesInARow === 0 ? state : { ...state, failedProbesInARow: 0, firstFailedProbeMs: 0 }

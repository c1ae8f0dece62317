import type { LinkSuspension } from './link.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

/**
 * Consecutive failed probes that suspend a link. `probeFailureSpanMs` is the minimum time from the first to the last of these
 * probes, in ms.
 */
export const PROBE_FAILURES_TO_SUSPEND = 5
export const PROBE_FAILURE_SPAN_MS = 5 * MINUTE_MS
/** Minimum calls in the window of `callWindowMs` for a verdict. If at least half of them failed, the link is suspect. */
export const CALLS_TO_JUDGE = 20
export const CALL_WINDOW_MS = 10 * MINUTE_MS
/** Number of distinct callers of failed calls from which on they count as many. */
export const MANY_CALLERS = 4
/**
 * Number of probes that must all fail before failed calls suspend a link. Failed calls alone only raise a suspicion, because a
 * caller may have searched for inputs that fail. The probes are spread over time, because one input may keep an API down for some
 * seconds. If only few callers had failures, they are spread over `probeFailureSpanMs`, which a suspension by probes alone takes.
 */
export const PROBES_TO_CONFIRM = 5
export const confirmationSpansMs = { manyCallers: MINUTE_MS, fewCallers: PROBE_FAILURE_SPAN_MS } as const
/**
 * If this many distinct payers were charged for failed calls, good probes do not clear the seller, because an API could respond
 * well to health checks and badly to buyers. There must also be at least as many of them as payers who were served. Callers who
 * were not charged do not count, because they can cause any number of failures for free.
 */
export const CHARGED_PAYERS_TO_JUDGE = 5
/** Maximum callers that are remembered for each minute. More callers would not change the verdict. */
const CALLERS_PER_MINUTE = 50
/** Consecutive good probes that a link needs to be re-enabled. */
export const PROBES_TO_RE_ENABLE = 2
/** How long an earlier suspension counts, in ms. */
export const SUSPENSION_MEMORY_MS = 30 * 24 * HOUR_MS
/** Cooldowns of the first to the fourth suspension within `SUSPENSION_MEMORY_MS`, in ms. The fifth suspension is permanent. */
export const cooldownsMs: readonly number[] = [15 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS]

/** Calls that began in one minute. */
export interface CallMinute {
  /** Minutes since 1970. */
  readonly minute: number
  /** Calls for which the gateway called the seller's API, including calls in flight. */
  readonly calls: number
  readonly failed: number
  /** The callers of the failed calls, at most 50. */
  readonly failedBy: readonly Caller[]
  /** The callers of failed calls who were charged. They stay remembered when a good probe ends a suspicion. */
  readonly chargedPayers: readonly Caller[]
  /** The payers who got a response, at most 50. */
  readonly servedPayers: readonly Caller[]
}

/**
 * A caller, as its address and, for a paid call, its wallet. Two callers are the same if they share one of these, so that neither a
 * wallet with many addresses nor an address with many wallets counts as many callers. A caller without address and wallet is not
 * counted.
 */
export type Caller = readonly string[]

/** The remembered health of a link. Its size does not depend on the number of calls. */
export interface HealthState {
  readonly failedProbesInARow: number
  readonly firstFailedProbeMs: number
  /** The counts of at most ten different minutes. */
  readonly callMinutes: readonly CallMinute[]
  /** True if the link is suspended, so that it is not suspended again. */
  readonly isSuspended: boolean
  /** False while the gateway itself has no connectivity, so that failures are not the seller's. */
  readonly isEgressUp: boolean
}

/**
 * An observation of a link's API. A probe or a call has failed if it timed out, could not connect, or got a status of 500 or above.
 * Every other status is healthy, including 402 and other 4xx.
 */
export type HealthObservation =
  | { readonly kind: 'probe'; readonly failed: boolean }
  /**
   * `count` calls began at `startedAtMs`, in ms since 1970. It is negative for calls that are taken back, because their callers
   * aborted them. A call counts from its beginning, because a failure is often faster than a good response. If only ended calls
   * counted, each burst would begin with too many failures.
   */
  | { readonly kind: 'calls'; readonly count: number; readonly startedAtMs: number }
  | { readonly kind: 'call-answered' }
  /** A payer whose call began at `startedAtMs` got a response. */
  | { readonly kind: 'payer-served'; readonly startedAtMs: number; readonly caller: Caller }
  | {
      readonly kind: 'call-failed'
      readonly startedAtMs: number
      readonly caller: Caller
      /** Whether the caller was charged although the call failed. */
      readonly isCharged?: boolean | undefined
    }
  | { readonly kind: 'egress'; readonly up: boolean }
  /** This process or another one has suspended the link. */
  | { readonly kind: 'suspended' }
  | { readonly kind: 're-enabled' }
  /**
   * The probes did not confirm a suspicion that failed calls had raised. Calls count from zero again, but payers stay remembered.
   */
  | { readonly kind: 'cleared' }

export interface HealthVerdict {
  readonly state: HealthState
  /** Why the link must be suspended now, as a message for its seller. Null if it need not be. */
  readonly suspend: string | null
  /**
   * Time over which {@link PROBES_TO_CONFIRM} probes must fail before the link is suspended, in ms. A good probe prevents the
   * suspension. 0 if no probe is needed.
   */
  readonly confirmOverMs: number
}

/** The state of a link without observations. */
export const freshHealth: HealthState = {
  failedProbesInARow: 0,
  firstFailedProbeMs: 0,
  callMinutes: [],
  isSuspended: false,
  isEgressUp: true,
}

/**
 * Adds one observation. It is a pure function of state, observation and time.
 *
 * A verdict has `suspend` only once. The caller then confirms the suspicion if required, stores {@link suspensionAfter}, and
 * continues with the new state. Only failed probes count as consecutive failures. A successful call resets that count, because an
 * API that responds to its buyers is not down.
 *
 * @param nowMs ms since 1970. Counts that are in the future are dropped, because the clock was set back
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
 * The suspension of a link that is suspended now.
 *
 * @param earlier number of suspensions of the link within the last {@link SUSPENSION_MEMORY_MS}, without this one
 */
export function suspensionAfter(earlier: number, reason: string, nowMs: number): LinkSuspension {
  const cooldownMs = cooldownsMs[earlier]
  if (cooldownMs === undefined) return { sinceMs: nowMs, reason, cooldownUntilMs: nowMs, permanent: true }
  return { sinceMs: nowMs, reason, cooldownUntilMs: nowMs + cooldownMs, permanent: false }
}

/** Whether a seller may try to re-enable the link. `probe` means that {@link PROBES_TO_RE_ENABLE} good probes are needed. */
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
  if (row < PROBE_FAILURES_TO_SUSPEND || nowMs - since < PROBE_FAILURE_SPAN_MS) return quiet(next)
  return loud(next, `The last ${row} or more health checks failed, over at least 5 minutes.`, 0)
}

function observeFailedCall(
  state: HealthState,
  { startedAtMs, caller, isCharged }: HealthObservation & { readonly kind: 'call-failed' },
  nowMs: number,
): HealthVerdict {
  if (!state.isEgressUp) return quiet(state)
  const minute = minuteOf(startedAtMs)
  // If the call began before the window or before the counts were reset, it is not among the counted calls.
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
  // While a suspicion is being checked, the state records payers but makes no verdict.
  if (state.isSuspended || calls < CALLS_TO_JUDGE || failures * 2 < calls) return quiet(next)
  const why = `${failures} of ${calls} calls within 10 minutes failed or timed out.`
  if (payersAreUnserved(callMinutes))
    return loud(next, `${why} The callers who were charged met the failures.`, 0)
  const isByMany = differentOf(callMinutes.flatMap(({ failedBy }) => failedBy)) >= MANY_CALLERS
  return loud(next, why, isByMany ? confirmationSpansMs.manyCallers : confirmationSpansMs.fewCallers)
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

/** Adds calls to the minute in which they began, or removes them from that minute. */
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

/** Drops minutes before the window, and minutes in the future, which exist if the clock was set back. */
function withinWindow(minutes: readonly CallMinute[], nowMs: number): readonly CallMinute[] {
  const last = minuteOf(nowMs)
  const first = last - CALL_WINDOW_MS / MINUTE_MS + 1
  return minutes.filter((m) => m.minute >= first && m.minute <= last)
}

const noCalls = { failed: 0, failedBy: [], chargedPayers: [], servedPayers: [] } as const

const minuteOf = (ms: number) => Math.floor(ms / MINUTE_MS)

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

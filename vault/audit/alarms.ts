import type { AuditEvent, AuditWarning } from '../ports/audit.ts'

const HOUR_MS = 3_600_000
/** The owner is warned if the log will be full in less than this many hours. */
const MIN_HOURS = 7 * 24

export interface LogState {
  readonly damage: string | undefined
  readonly isUnwritable: boolean
  /** Agents that were refused unusually often, with their refusals in the last hour. */
  readonly refused: readonly { readonly agent: string; readonly count: number }[]
  /** True if the log, at its current growth, would be full and drop entries in less than a week. */
  readonly isFilling: boolean
}

/** Warnings about the log. */
export function logWarnings({ damage, isUnwritable, refused, isFilling }: LogState): AuditWarning[] {
  const warnings: AuditWarning[] = []
  if (damage !== undefined)
    warnings.push({
      code: 'LOG_DAMAGED',
      message: `The activity log was changed or damaged: ${damage}.`,
      action:
        'Check what can still be trusted: tollgate vault activity verify. If you did not change the log, restore a backup and give your agents new tokens.',
    })
  if (isUnwritable)
    warnings.push({
      code: 'LOG_UNWRITABLE',
      message: 'The activity log could not be written, so requests are refused.',
      action: "Free space on the vault's disk. The vault then continues on its own.",
    })
  for (const { agent, count } of refused)
    warnings.push({
      code: 'LOG_REFUSALS',
      message: `The agent ${agent} was refused ${hundreds(count)} times or more within an hour.`,
      action: `See the agent's requests: tollgate vault activity --agent ${agent}. The agent may have been misled, or may need another scope or rule.`,
    })
  if (isFilling)
    warnings.push({
      code: 'LOG_GROWS',
      message: 'The activity log grows so fast that it would cover less than a week.',
      action:
        "Find the agent with the most requests: tollgate vault activity. Lower the agent's requests per minute, or raise log.maxMegabytes.",
    })
  return warnings
}

/** Rounds the count down, so that a single further refusal does not make a new warning. */
function hundreds(count: number): string {
  const digits = 10 ** Math.floor(Math.log10(count))
  return (Math.floor(count / digits) * digits).toLocaleString('en')
}

/** Notifies listeners of each warning once. If a warning ends and occurs again, it is a new warning. */
export class Alarms {
  readonly #warnings: () => readonly AuditWarning[]
  readonly #listeners = new Set<(warning: AuditWarning) => void>()
  #known = new Set<string>()

  constructor(warnings: () => readonly AuditWarning[]) {
    this.#warnings = warnings
  }

  /** A new listener gets the current warnings first. */
  listen(listener: (warning: AuditWarning) => void): () => void {
    this.#listeners.add(listener)
    for (const warning of this.#warnings()) listener(warning)
    return () => void this.#listeners.delete(listener)
  }

  check(): void {
    const now = this.#warnings()
    const known = this.#known
    this.#known = new Set(now.map(({ message }) => message))
    for (const warning of now) {
      if (known.has(warning.message)) continue
      for (const listener of this.#listeners) listener(warning)
    }
  }
}

/** The growth of the log per hour, in the current hour or, until something is written in it, in the previous one. */
export class FillRate {
  readonly #maxBytes: number
  #sinceMs = 0
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  note(bytes: number, nowMs: number): void {
    if (nowMs - this.#sinceMs < HOUR_MS && nowMs >= this.#sinceMs) this.#bytes += bytes
    else {
      this.#sinceMs = nowMs
      this.#bytes = bytes
    }
  }

  /** Whether the log, at this growth, would be full and drop entries in less than a week. */
  isFilling(nowMs: number): boolean {
    return nowMs - this.#sinceMs < 2 * HOUR_MS && this.#bytes * MIN_HOURS > this.#maxBytes
  }
}

const WINDOW_MS = 15 * 60_000
/** Maximum kinds of refusals per agent and window that get an entry of their own. Further kinds share one entry. */
const MAX_KINDS = 20
/** Refusals of one agent per hour after which the owner is warned. */
const UNUSUAL_IN_HOUR = 100

interface Sum {
  readonly event: AuditEvent
  readonly sinceMs: number
  /** Number of refusals since the last entry. */
  count: number
  lastMs: number
}

interface Hour {
  readonly sinceMs: number
  count: number
}

/**
 * Keeps a repeatedly refused agent from filling the log. The first refusal of a kind is logged at once. Refusals of the same
 * kind in the next quarter of an hour share one entry. Because at most 20 kinds per agent are counted separately, the number of
 * one agent's entries is limited.
 */
export class RefusalCounts {
  /** By agent, then by kind. */
  readonly #rollups = new Map<string, Map<string, Sum>>()
  readonly #hours = new Map<string, Hour>()

  get isEmpty(): boolean {
    return this.#rollups.size === 0
  }

  /** The entry to write now. Undefined if a later entry will count the refusal. */
  take(event: AuditEvent, nowMs: number): AuditEvent | undefined {
    this.#countHour(event.agent, nowMs)
    const rollups = this.#rollups.get(event.agent) ?? new Map<string, Sum>()
    this.#rollups.set(event.agent, rollups)
    const { action, status, code, scope, chain, recipient, claimed, found } = event
    const kind = JSON.stringify([action, status, code, scope, chain, recipient, claimed, found])
    const key = rollups.has(kind) || rollups.size < MAX_KINDS ? kind : 'others'
    const sum = rollups.get(key)
    if (sum !== undefined) {
      sum.count++
      sum.lastMs = nowMs
      return undefined
    }
    const { agent } = event
    const isKind = key === kind
    const first = isKind
      ? event
      : { agent, action, status, ...(code !== undefined && { code }), note: manyKinds }
    rollups.set(key, { event: first, sinceMs: nowMs, count: 0, lastMs: nowMs })
    return first
  }

  /** The entries for the windows that have ended. With `isAll`, for all windows. */
  due(nowMs: number, isAll = false): AuditEvent[] {
    const events: AuditEvent[] = []
    for (const [agent, rollups] of this.#rollups) {
      for (const [key, { event, sinceMs, count, lastMs }] of rollups) {
        const isOver = nowMs - sinceMs >= WINDOW_MS || nowMs < sinceMs
        if (!isOver && !isAll) continue
        rollups.delete(key)
        if (count === 0) continue
        const { requestId: _, ...same } = event
        const times = `${count.toLocaleString('en')} ${count === 1 ? 'time' : 'times'}`
        const what = key === 'others' ? 'others of many kinds' : 'the same'
        events.push({ ...same, note: `${what} ${times} until ${new Date(lastMs).toISOString()}` })
      }
      if (rollups.size === 0) this.#rollups.delete(agent)
    }
    return events
  }

  /** Agents that were refused unusually often within the last hour, with the count. */
  unusual(nowMs: number): { readonly agent: string; readonly count: number }[] {
    return [...this.#hours]
      .filter(([, hour]) => hour.count >= UNUSUAL_IN_HOUR && nowMs - hour.sinceMs < 2 * HOUR_MS)
      .map(([agent, { count }]) => ({ agent, count }))
  }

  #countHour(agent: string, nowMs: number): void {
    const hour = this.#hours.get(agent)
    if (hour !== undefined && nowMs - hour.sinceMs < HOUR_MS) hour.count++
    else this.#hours.set(agent, { sinceMs: nowMs, count: 1 })
  }
}

const manyKinds = 'refused for many reasons; further refusals are counted together'

import type { AuditEvent } from '../ports/audit.ts'

const WINDOW_MS = 15 * 60_000
/** Different refusals of one agent that get an entry of their own in a window; further ones are summed up together. */
const MOST_KINDS = 20
const hourMs = 60 * 60_000
/** Refusals of one agent in an hour that the owner is told of. */
const UNUSUAL_IN_HOUR = 100

interface Sum {
  readonly event: AuditEvent
  readonly sinceMs: number
  /** Of those that have no entry yet. */
  count: number
  lastMs: number
}

interface Hour {
  readonly sinceMs: number
  count: number
}

/**
 * Keeps an agent that is refused again and again from filling the log: the first refusal of a kind has its entry at once,
 * the same ones of the next quarter of an hour have one together. At most 20 kinds of one agent are told apart in that time,
 * so what one agent can make the log grow has a bound, whatever it asks for.
 */
export class RefusalSums {
  /** By agent, then by kind. */
  readonly #sums = new Map<string, Map<string, Sum>>()
  readonly #hours = new Map<string, Hour>()

  get isEmpty(): boolean {
    return this.#sums.size === 0
  }

  /** What to write down now; undefined where a later entry sums it up. */
  take(event: AuditEvent, nowMs: number): AuditEvent | undefined {
    this.#countHour(event.agent, nowMs)
    const sums = this.#sums.get(event.agent) ?? new Map<string, Sum>()
    this.#sums.set(event.agent, sums)
    const { action, status, code, scope, chain, recipient, claimed, found } = event
    const kind = JSON.stringify([action, status, code, scope, chain, recipient, claimed, found])
    const key = sums.has(kind) || sums.size < MOST_KINDS ? kind : 'others'
    const sum = sums.get(key)
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
    sums.set(key, { event: first, sinceMs: nowMs, count: 0, lastMs: nowMs })
    return first
  }

  /** The entries about what was summed up in windows that are over, or in all of them. */
  due(nowMs: number, isAll = false): AuditEvent[] {
    const events: AuditEvent[] = []
    for (const [agent, sums] of this.#sums) {
      for (const [key, { event, sinceMs, count, lastMs }] of sums) {
        const isOver = nowMs - sinceMs >= WINDOW_MS || nowMs < sinceMs
        if (!isOver && !isAll) continue
        sums.delete(key)
        if (count === 0) continue
        const { requestId: _, ...same } = event
        const times = `${count.toLocaleString('en')} ${count === 1 ? 'time' : 'times'}`
        const what = key === 'others' ? 'others of many kinds' : 'the same'
        events.push({ ...same, note: `${what} ${times} until ${new Date(lastMs).toISOString()}` })
      }
      if (sums.size === 0) this.#sums.delete(agent)
    }
    return events
  }

  /** Agents that were refused unusually often within the last hour, and how often. */
  unusual(nowMs: number): { readonly agent: string; readonly count: number }[] {
    return [...this.#hours]
      .filter(([, hour]) => hour.count >= UNUSUAL_IN_HOUR && nowMs - hour.sinceMs < 2 * hourMs)
      .map(([agent, { count }]) => ({ agent, count }))
  }

  #countHour(agent: string, nowMs: number): void {
    const hour = this.#hours.get(agent)
    if (hour !== undefined && nowMs - hour.sinceMs < hourMs) hour.count++
    else this.#hours.set(agent, { sinceMs: nowMs, count: 1 })
  }
}

const manyKinds = 'refused in many ways; further ones are counted together'

import type { Log } from '../../core/ports/log.ts'
import type { Purchases } from '../../core/ports/purchases.ts'

const DAY_MS = 86_400_000

/** A caller counts once in so long, for each link. */
const ONCE_MS = 3_600_000
/** Callers that are remembered, about 150 bytes each. Beyond that the longest known is forgotten and may count again. */
const MAX_CALLERS = 50_000

/**
 * Counts who saw a link, by UTC day, in memory, and writes it now and then: a crash may lose the last seconds. Each worker
 * process counts for itself.
 */
export interface Views {
  /** @param caller see {@link import('../../core/http/callerOf.ts').callerOf} */
  add(linkId: string, caller: string, atMs: number): void
  flush(): Promise<void>
}

interface Day {
  /** Days since 1970. */
  readonly number: number
  readonly counts: Map<string, number>
}

export function createViews(purchases: Pick<Purchases, 'addViews'>, log: Log): Views {
  /** When a caller was counted for a link last; in the order of time, so that the first is the one to forget. */
  const counted = new Map<string, number>()
  let days: Day[] = []
  /** A map a day, so that no key has to be put together per call (bench/challenge.ts). */
  function dayOf(number: number): Day {
    let day = days.find((one) => one.number === number)
    if (day === undefined) days.push((day = { number, counts: new Map() }))
    return day
  }

  return {
    add(linkId, caller, atMs) {
      const key = `${linkId} ${caller}`
      const lastMs = counted.get(key)
      // A clock that was set back must not silence a caller for good.
      if (lastMs !== undefined && Math.abs(atMs - lastMs) < ONCE_MS) return
      counted.delete(key)
      if (counted.size >= MAX_CALLERS) counted.delete(counted.keys().next().value!)
      counted.set(key, atMs)
      const { counts } = dayOf(Math.floor(atMs / DAY_MS))
      counts.set(linkId, (counts.get(linkId) ?? 0) + 1)
    },
    async flush() {
      if (days.length === 0) return
      const taken = days
      days = []
      const rows = taken.flatMap(({ number, counts }) => {
        const day = new Date(number * DAY_MS).toISOString().slice(0, 10)
        return [...counts].map(([linkId, count]) => ({ linkId, day, count }))
      })
      await purchases
        .addViews(rows)
        .catch((err: unknown) => log.warn({ err }, 'could not write counted views'))
    },
  }
}

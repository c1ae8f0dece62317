import type { Log } from '../../core/ports/log.ts'
import type { Purchases } from '../../core/ports/purchases.ts'

const DAY_MS = 86_400_000

/** Counts unpaid calls per link and UTC day in memory and writes them now and then: a crash may lose the last seconds. */
export interface Views {
  add(linkId: string, atMs: number): void
  flush(): Promise<void>
}

interface Day {
  /** Days since 1970. */
  readonly number: number
  readonly counts: Map<string, number>
}

export function createViews(purchases: Purchases, log: Log): Views {
  let days: Day[] = []
  /** A map a day, so that no key has to be put together per call (bench/challenge.ts). */
  function dayOf(number: number): Day {
    let day = days.find((one) => one.number === number)
    if (day === undefined) days.push((day = { number, counts: new Map() }))
    return day
  }

  return {
    add(linkId, atMs) {
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

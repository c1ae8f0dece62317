import { storeUnavailable } from '../../core/ports/refusals.ts'

/** More than this would wait longer than anybody waits for an answer. */
const MOST_WAITING = 200

/** Makes a gate: so many pieces of work go on at a time, the others wait in their order. Rejects what would be too far behind. */
export function atMost(places: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = []
  let free = places
  return async (work) => {
    if (free > 0) free--
    else if (waiting.length >= MOST_WAITING) throw storeUnavailable('too many ask for the same')
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free++
      else next()
    }
  }
}

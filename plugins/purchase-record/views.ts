/** A caller counts once in so long, for each link. */
const ONCE_MS = 3_600_000
/** Callers that are remembered, about 150 bytes each. Beyond that the longest known is forgotten and may count again. */
const MAX_CALLERS = 50_000

/** Who saw a link within the hour. Each worker process remembers its own. */
export interface Views {
  /**
   * Whether this caller is to be counted now; remembers that he was.
   *
   * @param caller see {@link import('../../core/http/callerOf.ts').callerOf}
   */
  isNew(linkId: string, caller: string, atMs: number): boolean
}

export function createViews(): Views {
  /** When a caller was counted for a link last; in the order of time, so that the first is the one to forget. */
  const counted = new Map<string, number>()
  return {
    isNew(linkId, caller, atMs) {
      const key = `${linkId} ${caller}`
      const lastMs = counted.get(key)
      // A clock that was set back must not silence a caller for good.
      if (lastMs !== undefined && Math.abs(atMs - lastMs) < ONCE_MS) return false
      counted.delete(key)
      if (counted.size >= MAX_CALLERS) counted.delete(counted.keys().next().value!)
      counted.set(key, atMs)
      return true
    },
  }
}

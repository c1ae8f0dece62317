import type { LastReading } from '../../admin-api/deps.ts'

/** How long a value that was read stays fresh, in ms. */
const AGE_MS = 4_000
/** How long a caller waits for a read, in ms. */
const PATIENCE_MS = 2_500

/**
 * Caches a read that may be slow or never end. Callers share one read, and no read starts while the last value is fresh. A
 * caller that has waited `patienceMs` gets the last value with an error. The promise never rejects.
 */
export function cachedRead<T>(
  read: () => Promise<T>,
  now: () => number = Date.now,
  { ageMs = AGE_MS, patienceMs = PATIENCE_MS } = {},
): () => Promise<LastReading<T>> {
  let last: LastReading<T> = { value: undefined, atMs: undefined, fault: undefined }
  let reading: Promise<void> | undefined
  let endedMs = Number.NEGATIVE_INFINITY

  async function refresh(): Promise<void> {
    try {
      last = { value: await read(), atMs: now(), fault: undefined }
    } catch (error) {
      last = { ...last, fault: error instanceof Error ? error.message : String(error) }
    }
    endedMs = performance.now()
    reading = undefined
  }

  return async () => {
    if (reading === undefined && performance.now() - endedMs < ageMs) return last
    reading ??= refresh()
    let timer: NodeJS.Timeout | undefined
    const tooLong = new Promise<'late'>((resolve) => {
      timer = setTimeout(resolve, patienceMs, 'late')
    })
    const ended = await Promise.race([reading, tooLong])
    clearTimeout(timer)
    return ended === 'late' ? { ...last, fault: `No response in ${patienceMs / 1_000} s.` } : last
  }
}

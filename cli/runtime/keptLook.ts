import type { Look } from '../../admin-api/deps.ts'

/** Before another look is taken. */
const AGE_MS = 4_000
/** Whoever asks waits for no longer. */
const PATIENCE_MS = 2_500

/**
 * Looks at something that may be slow, or never answer: once however many ask, not again while it is young, and for nobody
 * longer than a moment. Who does not get an answer gets the last one that there was, and is told. Never rejects.
 */
export function keptLook<T>(
  read: () => Promise<T>,
  now: () => number = Date.now,
  { ageMs = AGE_MS, patienceMs = PATIENCE_MS } = {},
): () => Promise<Look<T>> {
  let last: Look<T> = { value: undefined, atMs: undefined, fault: undefined }
  let looking: Promise<void> | undefined
  let endedMs = Number.NEGATIVE_INFINITY

  async function look(): Promise<void> {
    try {
      last = { value: await read(), atMs: now(), fault: undefined }
    } catch (error) {
      last = { ...last, fault: error instanceof Error ? error.message : String(error) }
    }
    endedMs = performance.now()
    looking = undefined
  }

  return async () => {
    if (looking === undefined && performance.now() - endedMs < ageMs) return last
    looking ??= look()
    let timer: NodeJS.Timeout | undefined
    const tooLong = new Promise<'late'>((resolve) => {
      timer = setTimeout(resolve, patienceMs, 'late')
    })
    const ended = await Promise.race([looking, tooLong])
    clearTimeout(timer)
    return ended === 'late' ? { ...last, fault: `No answer in ${patienceMs / 1_000} s.` } : last
  }
}

import type { CallCounts, ProcessCalls } from '../../core/ports/callCounts.ts'
import type { Log } from '../../core/ports/log.ts'

/** What happened since the look before. */
export interface LiveCalls extends CallCounts {
  /** How long that is. */
  readonly spanMs: number
  /** Calls of which a hook has yet to answer. */
  readonly underWay: number
  readonly processes: number
  /** Of them, those that did not say in time: what they count comes with their next answer. */
  readonly silent: number
}

export interface LiveCallsParts {
  readonly read: () => Promise<readonly ProcessCalls[]>
  readonly log: Log
  /** Default: a second. */
  readonly lookMs?: number
}

/** The calls of all processes as they come. Nobody is asked for anything while nobody watches. */
export interface LiveCallsWatch {
  /** @returns a function that ends it */
  watch(listener: (calls: LiveCalls) => void): () => void
}

type Counts = { -readonly [K in keyof CallCounts]: CallCounts[K] }

const none: CallCounts = {
  ...{ asked: 0, paid: 0, answered: 0, repeated: 0, pending: 0 },
  ...{ refused: 0, failed: 0, free: 0, left: 0 },
}
const kinds = Object.keys(none) as (keyof CallCounts)[]

/** One look a second however many watch. */
export function createLiveCalls({ read, log, lookMs = 1_000 }: LiveCallsParts): LiveCallsWatch {
  const listeners = new Set<(calls: LiveCalls) => void>()
  let running: AbortController | undefined

  async function run({ signal }: AbortController): Promise<void> {
    /** What each process said last. One that is seen for the first time counts from there. */
    let before = new Map<string, CallCounts>()
    let sinceMs = performance.now()
    while (!signal.aborted) {
      try {
        const found = await read()
        if (signal.aborted) return
        const atMs = performance.now()
        const said = new Map(
          found.flatMap(({ process, calls }) => {
            const counts = calls ?? before.get(process)
            return counts === undefined ? [] : [[process, counts] as const]
          }),
        )
        // The first look has nothing to compare with.
        if (before.size > 0) tell({ ...differences(before, said), ...facts(found), spanMs: atMs - sinceMs })
        ;[before, sinceMs] = [said, atMs]
      } catch (err) {
        log.warn({ err }, 'could not ask how many calls there were; trying again')
      }
      await pause(lookMs, signal)
    }
  }

  function tell(calls: LiveCalls): void {
    for (const listener of [...listeners]) listener(calls)
  }

  return {
    watch(listener) {
      // Each has a place of its own, also who watches twice.
      const own = (calls: LiveCalls) => listener(calls)
      listeners.add(own)
      if (running === undefined) void run((running = new AbortController()))
      return () => {
        listeners.delete(own)
        if (listeners.size > 0) return
        running?.abort()
        running = undefined
      }
    },
  }
}

function differences(before: ReadonlyMap<string, CallCounts>, said: ReadonlyMap<string, CallCounts>): Counts {
  const sum: Counts = { ...none }
  for (const [process, counts] of said) {
    const last = before.get(process)
    if (last !== undefined) for (const kind of kinds) sum[kind] += counts[kind] - last[kind]
  }
  return sum
}

const facts = (found: readonly ProcessCalls[]) => ({
  underWay: found.reduce((sum, { calls }) => sum + (calls?.underWay ?? 0), 0),
  processes: found.length,
  silent: found.filter(({ calls }) => calls === undefined).length,
})

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener('abort', end, { once: true })
  })

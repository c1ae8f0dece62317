import { performance } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Time between two checks whether this process is idle, in ms. */
const STEP_MS = 250
/** Maximum fraction of that time in which an idle process is busy. */
const IDLE = 0.2
/** How long this process may stay busy after its start, in ms. If it is busy for longer, its heap is never shrunk. */
const PATIENCE_MS = 60_000

/**
 * Once this process is idle, returns the memory that only its start needed. The young generation shrinks to its minimum, and
 * garbage in the old generation is collected. This takes 0.1 s, or several seconds on a busy machine, and nothing else runs
 * meanwhile. Because that is more than a tenth of a start, no listener waits for it. Later V8 shrinks the young generation by
 * itself, at the next scavenge of a process that allocates little.
 */
export function releaseHeap(): void {
  let last = performance.eventLoopUtilization()
  let leftMs = PATIENCE_MS
  const timer = setInterval(() => {
    const { utilization } = performance.eventLoopUtilization(last)
    last = performance.eventLoopUtilization()
    leftMs -= STEP_MS
    if (utilization > IDLE && leftMs > 0) return
    clearInterval(timer)
    if (utilization <= IDLE) collector()({ type: 'major', flavor: 'last-resort' })
    allocateYoung()
  }, STEP_MS)
  timer.unref()
}

/**
 * Makes V8 allocate all objects in the young generation from now on. If nearly all objects from one place in the code survive a
 * scavenge, as those of running calls may, V8 allocates the next ones in the old generation. Everything that they reference
 * then survives until the next full collection, so V8 keeps its decision. In one of three runs, 11 KB of each paid call and 2
 * KB of each 402 survived. In the others, 0.2 and 0.03 KB survived (test/garbage.slow.test.ts).
 */
function allocateYoung(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}

/**
 * V8's garbage collector, which V8 exposes to contexts that are created while a flag is set. With the flag on the command line,
 * V8 would reject Node's compiled code cache of its own modules, which costs a tenth of a start. If a thread compiled code
 * while the flag is set, the next process would reject that code. The flag is therefore set only for a moment in which nothing
 * else runs.
 */
function collector(): NodeJS.GCFunction {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as NodeJS.GCFunction
  setFlagsFromString('--no-expose-gc')
  return collect
}

import { performance } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Between two looks whether this process has something to do, in ms. */
const LOOK_MS = 250
/** How much of that it may have been busy. */
const IDLE = 0.2
/** A process that is busy for so long after its start needs what it has, in ms. */
const PATIENCE_MS = 60_000

/**
 * Gives back what the start has filled and nobody needs any more, once this process has nothing to do: the young generation goes
 * back to its smallest size, and what is dead of the old one leaves. It takes a tenth of a second, and on a machine that is busy with others several,
 * in which nothing else runs: more than a tenth of a start, so that no port waits for it. Later V8 shrinks the young generation by
 * itself, at the next scavenge of a process that allocates little.
 */
export function giveBackHeap(): void {
  let last = performance.eventLoopUtilization()
  let leftMs = PATIENCE_MS
  const timer = setInterval(() => {
    const { utilization } = performance.eventLoopUtilization(last)
    last = performance.eventLoopUtilization()
    leftMs -= LOOK_MS
    if (utilization > IDLE && leftMs > 0) return
    clearInterval(timer)
    if (utilization <= IDLE) collector()({ type: 'major', flavor: 'last-resort' })
    allocateYoung()
  }, LOOK_MS)
  timer.unref()
}

/**
 * Has V8 allocate all objects in the young generation from now on. Otherwise it allocates those of one place in the code in the old generation once
 * nearly all of them have survived a scavenge, as those of calls under way may: what they point at then survives too until the next
 * collection of the whole heap, and V8 finds that its decision was right. In one run of three 11 KB of each paid call and 2 KB of each 402 survived,
 * and 0.2 and 0.03 KB in the others (test/garbage.slow.test.ts).
 */
function allocateYoung(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
}

/**
 * V8's collector, which it shows to contexts that are made while the flag is on. On the command line the flag would make V8 refuse
 * the compiled code that Node has of its own modules, a tenth of a start; and what any thread compiles while it is on would be refused
 * by the next process: so it is on for a moment in which nothing is to do.
 */
function collector(): NodeJS.GCFunction {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as NodeJS.GCFunction
  setFlagsFromString('--no-expose-gc')
  return collect
}

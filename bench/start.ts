import type { Bench } from './bench.ts'
import { median } from './harness/median.ts'
import { measure, ratio } from './harness/rounds.ts'
import { shippedProgram } from './harness/shipped.ts'

/** Free calls on two gateway processes behind one port (node:cluster), against one process, by CPU of all of them. */
export const workers: Bench = {
  keys: ['workers2_vs_1'],
  async run(context) {
    const { servers, progress } = context
    const { port: upstreamPort } = await servers.upstream()
    const links = [{ slug: 'json', path: '/1k' }]
    const candidates = []
    for (const count of [1, 2]) {
      const server = await servers.gateway({ upstreamPort, links, workers: count })
      const load = () => ({ path: '/api/link/demo/json' })
      candidates.push({ name: `workers: ${count}`, server, load, expect: 'success' as const })
    }
    progress('one worker and two:')
    return { workers2_vs_1: ratio(await measure(candidates, context), 'workers: 2', 'workers: 1') }
  },
}

interface Sample {
  readonly startMs: number
  readonly idleMb: number
}

/**
 * `tollgate start` with its own configuration: the time from the start of the process until its port
 * responds, and its memory (VmRSS) a few seconds later, without calls. An embedded settler for an EVM network
 * is configured.
 */
export const start: Bench = {
  keys: ['idle_memory_mb', 'start_ms'],
  async run({ servers, rounds, isQuick, progress }) {
    const samples: Sample[] = []
    const program = shippedProgram()
    for (let round = 0; round < (isQuick ? 1 : rounds); round++) {
      samples.push(await servers.job<Sample>('startUp.ts', { folder: servers.folder(), program }, 'unpinned'))
    }
    const startMs = median(samples.map((sample) => sample.startMs))
    const idleMb = median(samples.map((sample) => sample.idleMb))
    progress(`tollgate start: listens after ${startMs.toFixed(0)} ms, ${idleMb.toFixed(0)} MB when idle`)
    return { start_ms: startMs, idle_memory_mb: idleMb }
  },
}

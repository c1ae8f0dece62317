import type { Bench } from './bench.ts'
import { median } from './harness/median.ts'
import { shippedProgram } from './harness/shippedProgram.ts'

interface Sample {
  readonly startMs: number
  readonly idleMb: number
}

/**
 * `tollgate start` with a configuration of its own: from the start of the process until its port answers, and the memory
 * it holds (VmRSS) a few seconds later, with nobody calling. An embedded settler for an EVM network is configured.
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

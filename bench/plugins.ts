import type { Bench } from './bench.ts'
import { median } from './harness/median.ts'

/** What one more plugin costs a call: hooks that do nothing, run by the kernel in a process of its own. */
export const plugins: Bench = {
  keys: ['plugin_sync_ns', 'plugin_async_ns'],
  async run({ servers, isQuick, rounds, progress }) {
    const calls = isQuick ? 200_000 : 1_000_000
    const samples: { sync: number; async: number }[] = []
    for (let round = 0; round < rounds; round++) {
      samples.push(await servers.job<{ sync: number; async: number }>('pluginCost.ts', { calls }))
    }
    const sync = median(samples.map((sample) => sample.sync))
    const late = median(samples.map((sample) => sample.async))
    progress(`one more plugin: ${sync.toFixed(1)} ns, answering later ${late.toFixed(1)} ns`)
    return { plugin_sync_ns: sync, plugin_async_ns: late }
  },
}

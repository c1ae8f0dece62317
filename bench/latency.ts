import type { Bench } from './bench.ts'
import { percentile } from './harness/median.ts'

/** The figure of each local chain that is measured. */
const chains = { evm: 'added_latency_evm_ms', solana: 'added_latency_solana_ms' } as const

/**
 * What a buyer waits for a paid call, by the clock: `tollgate start`, embedded facilitator, a chain that puts each
 * transaction into a block at once, one call after the other. So it is what the gateway adds to the chain's own time,
 * with the seller's answer and four durable steps in it. A busy machine shows in it more than in any other figure.
 */
export const latency: Bench = {
  keys: Object.values(chains),
  async run({ servers, wants, progress, isQuick }) {
    const measured: Partial<Record<(typeof chains)[keyof typeof chains], number>> = {}
    for (const [chain, key] of Object.entries(chains)) {
      if (!wants(key)) continue
      const options = { chain, calls: isQuick ? 40 : 200 }
      const { msOfCalls } = await servers.job<{ msOfCalls: number[] }>('latency.ts', options, 'unpinned')
      const [p50, p95] = [percentile(msOfCalls, 50), percentile(msOfCalls, 95)]
      progress(`paid call on ${chain}, settled: p50 ${p50.toFixed(1)} ms, p95 ${p95.toFixed(1)} ms`)
      measured[key] = p50
    }
    return measured
  },
}

import type { Bench } from './bench.ts'
import type { FigureKey, Measured } from './figures.ts'
import { median, percentile } from './harness/median.ts'
import { shippedProgram } from './harness/shippedProgram.ts'
import type { SettledOptions, SettledResult } from './servers/settled.ts'

/** A node in another region. */
const farMs = 40
/** One to verify, one to settle: what a call takes of the chain's own time where the node is far. */
const roundTrips = 2

interface Keys {
  readonly cost: FigureKey
  readonly near: FigureKey
  readonly far: FigureKey
}

/** The figures of each local chain. */
const chains: Readonly<Record<SettledOptions['chain'], Keys>> = {
  evm: { cost: 'paid_real_evm_us', near: 'added_latency_evm_ms', far: 'added_latency_evm_far_ms' },
  solana: {
    cost: 'paid_real_solana_us',
    near: 'added_latency_solana_ms',
    far: 'added_latency_solana_far_ms',
  },
}

/**
 * Paid calls with their settlement: `tollgate start`, embedded facilitator, a chain that puts each transaction into a block
 * at once. How long one buyer waits who makes one call after the other, with the seller's answer and the durable steps in
 * it; and what a call costs, all threads of the gateway, while many buy at once. By the clock a busy machine shows more
 * than in any other figure. Both again with a node that is far away: of its time, two round trips are the chain's own.
 */
export const settled: Bench = {
  keys: Object.values(chains).flatMap(({ cost, near, far }) => [cost, near, far]),
  async run({ servers, wants, progress, isQuick }) {
    // Once for all of the jobs.
    shippedProgram()
    const measured: Measured = {}
    for (const [chain, { cost, near, far }] of Object.entries(chains)) {
      for (const roundTripMs of isQuick ? [0] : [0, farMs]) {
        const waitKey = roundTripMs === 0 ? near : far
        if (!wants(waitKey) && !wants(cost)) continue
        const options: Omit<SettledOptions, 'chain'> = {
          roundTripMs,
          calls: !wants(waitKey) ? 0 : isQuick ? 40 : 200,
          buyers: !wants(cost) ? 0 : 64,
          callsOfRound: isQuick ? 200 : 1_000,
          rounds: isQuick ? 1 : 3,
        }
        const result = await servers.job<SettledResult>('settled.ts', { chain, ...options }, 'unpinned')
        const where = roundTripMs === 0 ? chain : `${chain}, node ${roundTripMs} ms away`
        if (result.msOfCalls.length > 0) {
          const added = (percent: number) => percentile(result.msOfCalls, percent) - roundTrips * roundTripMs
          measured[waitKey] = added(50)
          const chainsOwn = roundTripMs === 0 ? '' : ` beside ${roundTrips} round trips`
          progress(`paid and settled on ${where}: p50 ${ms(added(50))}, p95 ${ms(added(95))}${chainsOwn}`)
        }
        if (result.rounds.length > 0) {
          const middle = (read: (round: SettledResult['rounds'][number]) => number) =>
            median(result.rounds.map(read))
          const cpuUs = middle((round) => round.cpuUs)
          if (roundTripMs === 0) measured[cost] = cpuUs
          progress(
            `  ${options.buyers} at once: ${cpuUs.toFixed(0)} µs of CPU each, ` +
              `${middle((round) => round.callsPerSecond).toFixed(0)} a second (the chain on the same machine), ` +
              `p50 ${ms(middle((round) => round.p50Ms))}, ` +
              `${middle((round) => round.requestsPerCall).toFixed(2)} requests to the node with ` +
              `${middle((round) => round.rpcCallsPerCall).toFixed(2)} JSON-RPC calls for each`,
          )
        }
      }
    }
    return measured
  },
}

const ms = (value: number): string => `${value.toFixed(1)} ms`

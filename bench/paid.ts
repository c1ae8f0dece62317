import { join } from 'node:path'
import type { Bench, BenchContext } from './bench.ts'
import { median, percentile } from './harness/median.ts'
import { type Candidate, costOf, measure, ratio } from './harness/rounds.ts'
import { shippedProgram } from './harness/shipped.ts'
import { price } from './servers/offer.ts'
import type { SettledOptions, SettledResult } from './servers/settled.ts'
import type { TogetherOptions, TogetherResult } from './servers/together.ts'
import type { Measured, StatKey } from './stats.ts'

/** As many as the gateway takes at once by its defaults, roundly. */
const atOnce = 900

/**
 * Payments that come at the same time, with blocks every two seconds and one settling key: how many are settled in a second, and
 * the gas of each, beside the way with one transaction for each payment. All of it is on one machine, the chain as well.
 */
export const together: Bench = {
  keys: ['batch_payments_per_s', 'batch_gas_per_payment'],
  async run({ servers, progress, isQuick }) {
    // Once for both jobs.
    shippedProgram()
    const measure = (options: TogetherOptions) =>
      servers.job<TogetherResult>('together.ts', options, 'unpinned')
    const many = await measure({ together: 32, atOnce, calls: isQuick ? 1_800 : 5_400 })
    // A key has at most 256 transactions on their way.
    const single = await measure({ together: 1, atOnce: 200, calls: isQuick ? 200 : 600 })
    progress(`payments at once, a block every 2 s: ${words(many)}`)
    progress(`  one transaction for each: ${words(single)}`)
    return {
      batch_payments_per_s: many.paymentsPerSecond,
      batch_gas_per_payment: many.gasPerPayment,
    } satisfies Measured
  },
}

const words = (result: TogetherResult): string => {
  const { paymentsPerSecond, gasPerPayment, transactions, payments, p50Ms, cpuUs } = result
  return (
    `${paymentsPerSecond.toFixed(0)} a second, ${(payments / transactions).toFixed(1)} in a transaction, ` +
    `${gasPerPayment.toFixed(0)} gas each, p50 ${p50Ms.toFixed(0)} ms, ${cpuUs.toFixed(0)} µs of CPU each`
  )
}

/** A node in another region. */
const farMs = 40
/** One to verify, one to settle: what a call takes of the chain's own time where the node is far. */
const roundTrips = 2

interface Keys {
  readonly cost: StatKey
  readonly near: StatKey
  readonly far: StatKey
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

const full = 'tollgate, paid'
const unsigned = '… without cryptography'
const bare = '… without commits too'
const freeCall = 'tollgate, free'
const express = '@x402/express'

/**
 * Paid calls with distinct, real EIP-3009 payments. Both sides check each signature in process, and both settle at once
 * without a chain; ours forwards to the seller and writes every step to disk besides.
 *
 * What a paid call costs over a free one is told from the same gateway with the cryptography and the commits taken out, not
 * by subtracting estimates. Both are asked by the same generator, which keeps its CPU awake, over as many connections.
 */
export const paid: Bench = {
  keys: ['paid_vs_x402_express_viem', 'paid_over_free_us'],
  async run(context) {
    const { servers, wants, progress, isQuick } = context
    const { port: upstreamPort } = await servers.upstream()
    const links = [
      { slug: 'paid', path: '/1k', price },
      { slug: 'free', path: '/1k' },
    ]
    const gateway = (options: object) =>
      servers.start('gateway.ts', { upstreamPort, folder: servers.folder(), links, ...options })
    // As many as a round can use up, or more.
    const size = isQuick ? 3_000 : 8_000
    const candidates: Candidate[] = []
    const withPayments = (name: string, server: Candidate['server'], path: string, count: number) => {
      const load = paymentLoads(context, path, count)
      candidates.push({ name, server, expect: 'success', load })
    }
    withPayments(full, await gateway({}), '/api/link/demo/paid', size)
    if (wants('paid_over_free_us')) {
      const forgetful = await gateway({ checksSignatures: false, storesPayments: false })
      // What tells cryptography and commits apart is no figure.
      if (!isQuick)
        withPayments(unsigned, await gateway({ checksSignatures: false }), '/api/link/demo/paid', size)
      withPayments(bare, forgetful, '/api/link/demo/paid', 2 * size)
      candidates.push({
        name: freeCall,
        server: forgetful,
        load: () => ({ path: '/api/link/demo/free', isAwake: true }),
        expect: 'success',
      })
    }
    if (wants('paid_vs_x402_express_viem')) {
      withPayments(express, await servers.start('x402Express.js'), '/paid', size / 5)
    }
    progress('paid call:')
    // A paid call is many times the code of a free one, and warms up for longer.
    const costs = await measure(candidates, { ...context, warmUps: isQuick ? 4 : 10 })
    const measured: Measured = {}
    if (costs.has(express)) measured.paid_vs_x402_express_viem = ratio(costs, full, express)
    if (costs.has(bare)) {
      measured.paid_over_free_us = costOf(costs, bare) - costOf(costs, freeCall)
    }
    if (costs.has(unsigned)) {
      const cryptography = costOf(costs, full) - costOf(costs, unsigned)
      const commits = costOf(costs, unsigned) - costOf(costs, bare)
      progress(`  cryptography ${cryptography.toFixed(0)} µs, commits ${commits.toFixed(0)} µs`)
    }
    return measured
  },
}

/** Signs payments for each round when it begins: they are valid for five minutes only. */
function paymentLoads({ servers }: BenchContext, path: string, count: number): Candidate['load'] {
  const folder = servers.folder()
  return async (round) => {
    const paymentFile = join(folder, `payments-${round}`)
    await servers.job('signPayments.ts', { files: [{ file: paymentFile, count }] }, 'unpinned')
    return { path, paymentFile, isAwake: true }
  }
}

import { join } from 'node:path'
import type { Bench, BenchContext } from './bench.ts'
import type { Measured } from './figures.ts'
import { type Candidate, costOf, measure, ratio } from './harness/rounds.ts'
import { price } from './servers/offer.ts'

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

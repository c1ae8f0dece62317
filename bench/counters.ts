import type { Bench } from './bench.ts'
import { type Candidate, measure, ratio } from './harness/rounds.ts'

/**
 * Whether counters of our own in memory are worth their code: free calls, which take once, and 402s, where little else
 * happens, on a gateway with them and on one with rate-limiter-flexible's.
 */
export const counters: Bench = {
  keys: ['free1k_vs_library_counters', 'challenge_vs_library_counters'],
  async run(context) {
    const { servers, progress } = context
    const { port: upstreamPort } = await servers.upstream()
    const links = [
      { slug: '1k', path: '/1k' },
      { slug: 'paid', path: '/1k', price: '0.01' },
    ]
    const gateways: Pick<Candidate, 'name' | 'server'>[] = []
    for (const counters of ['own', 'library'] as const) {
      const folder = servers.folder()
      gateways.push({
        name: `counters: ${counters}`,
        server: await servers.start('gateway.ts', { upstreamPort, folder, links, counters }),
      })
    }
    const compare = async (slug: string, expect: 'success' | 'refusal') => {
      progress(`${slug === 'paid' ? '402' : 'answer of 1k'}, by whose counters:`)
      const candidates = gateways.map((gateway) => ({
        ...{ ...gateway, expect },
        load: () => ({ path: `/api/link/demo/${slug}` }),
      }))
      return ratio(await measure(candidates, context), 'counters: own', 'counters: library')
    }
    return {
      free1k_vs_library_counters: await compare('1k', 'success'),
      challenge_vs_library_counters: await compare('paid', 'refusal'),
    }
  },
}

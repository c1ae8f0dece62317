import type { Bench } from './bench.ts'
import { measure, ratio } from './harness/rounds.ts'

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

import type { Bench } from './bench.ts'
import { median } from './harness/median.ts'

interface Sample {
  readonly p50Ms: number
  readonly byQueryMs: Readonly<Record<string, number>>
}

/** Searches of a marketplace of 100,000 links in SQLite: orders, filters, rare and common words, in equal parts. */
export const discovery: Bench = {
  keys: ['discover_p50_ms'],
  async run({ servers, isQuick, progress }) {
    const search = { folder: servers.folder(), rounds: isQuick ? 5 : 25 }
    const { p50Ms, byQueryMs } = await servers.job<Sample>('market.ts', search, 'unpinned')
    const [slowest, slowestMs] = Object.entries(byQueryMs).sort(([, a], [, b]) => b - a)[0]!
    const half = median(Object.values(byQueryMs))
    progress(`discovery: ${half.toFixed(1)} ms, the slowest (${slowest}) ${slowestMs.toFixed(1)} ms`)
    return { discover_p50_ms: p50Ms }
  },
}

import { type Bench, type BenchContext, runBench } from './bench.ts'
import { median } from './harness/median.ts'
import type { Place, StoreName } from './scale/target.ts'
import { filledFor, measureIn } from './scale.ts'
import { growthKeys, type Measured, type StatKey } from './stats.ts'

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

/** What a store has when it is measured. */
const sizes = [
  { links: 1, sales: 0 },
  { links: 10_000, sales: 100_000 },
  { links: 100_000, sales: 1_000_000 },
]
const quickSizes = [
  { links: 1, sales: 0 },
  { links: 500, sales: 2_000 },
]

/** What one gateway does on one store of one size. */
export interface Grown {
  readonly store: StoreName
  readonly links: number
  readonly sales: number
  readonly measured: Measured
}

/**
 * The same figures of a gateway whose store has one link, ten thousand and a hundred thousand, on each database: what grows with what
 * there is, and what does not. A size is filled once, into a SQLite file, and moved to PostgreSQL by the shipped command.
 */
export async function measureGrowth(
  stores: readonly StoreName[],
  context: Omit<BenchContext, 'servers' | 'wants'>,
): Promise<Grown[]> {
  const grown: Grown[] = []
  const wants = (key: StatKey) => growthKeys.includes(key)
  for (const size of context.isQuick ? quickSizes : sizes) {
    const bench = {
      keys: growthKeys,
      async run(ofSize: BenchContext) {
        const { env, filled, of } = await filledFor(ofSize, size)
        const places: Place[] = []
        try {
          // All of them before anything is sold in the file.
          for (const store of stores) places.push(await of(store))
          for (const place of places) {
            ofSize.progress(`${place.store}, ${size.links} links, ${size.sales} sales:`)
            const measured = await measureIn(place, filled, env, ofSize)
            grown.push({ store: place.store, ...size, measured })
          }
        } finally {
          for (const place of places) await place.close()
        }
        return {}
      },
    }
    await runBench(bench, { ...context, wants })
  }
  return grown
}

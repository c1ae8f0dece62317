import { type BenchContext, runBench } from './bench.ts'
import { type FigureKey, growthKeys, type Measured } from './figures.ts'
import type { Place, StoreName } from './scale/place.ts'
import { filledFor, measureIn } from './scale.ts'

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
  const wants = (key: FigureKey) => growthKeys.includes(key)
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

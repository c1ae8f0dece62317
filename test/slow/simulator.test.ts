import { availableParallelism } from 'node:os'
import t from 'tap'
import { type PlantName, plants } from '../simulator/plants.ts'
import { runSeeds } from '../simulator/runSeeds.ts'

const count = Number(process.env['SIMULATE_SEEDS'] ?? 10_000)
const from = Number(process.env['SIMULATE_FROM'] ?? 1)
const threads = Math.min(availableParallelism(), 4)
/** Enough for the mistake that shows itself least often, several times over. */
const seedsToFind = 2_000

t.test(
  `after whatever trouble, the books agree with the chain (${count} seeds from ${from})`,
  { timeout: 0 },
  async (t) => {
    const runs = await Promise.all(
      Array.from({ length: threads }, (_, i) =>
        runSeeds({ from: from + i, count: count - i, step: threads }),
      ),
    )
    for (const { failed } of runs) t.equal(failed?.message, undefined)
    t.equal(
      runs.reduce((sum, { seeds }) => sum + seeds, 0),
      count,
    )
  },
)

for (const plant of Object.keys(plants) as PlantName[]) {
  t.test(`a planted mistake is found: ${plant}`, { timeout: 0 }, async (t) => {
    const { failed, seeds } = await runSeeds({ count: seedsToFind, plant })
    t.ok(failed, `${failed?.message} (after ${seeds} seeds)`)
  })
}

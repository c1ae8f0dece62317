import { parentPort, workerData } from 'node:worker_threads'
import { plants } from './plants.ts'
import type { SeedsAsked, SeedsRun } from './runSeeds.ts'
import { SeedFailed, simulate } from './simulate.ts'
import { openInlineSqlite } from './store.ts'
import type { Sight } from './world.ts'

const { from, count, step, plant, isTraced } = workerData as SeedsAsked
const options = {
  sqlite: await openInlineSqlite(),
  ...(plant !== undefined && { plant: plants[plant] }),
  isTraced,
  onSeen: (seen: ReadonlySet<Sight>) => {
    for (const sight of seen) sights[sight] = (sights[sight] ?? 0) + 1
  },
}
let failed: SeedsRun['failed']
let seeds = 0
const sights: Partial<Record<Sight, number>> = {}
for (let seed = from; seed < from + count && failed === undefined; seed += step) {
  seeds++
  try {
    await simulate(seed, options)
  } catch (error) {
    if (!(error instanceof SeedFailed)) throw error
    failed = { seed, message: error.message, trace: error.trace }
  }
}
parentPort!.postMessage({ seeds, sights, failed } satisfies SeedsRun)

import { parentPort, workerData } from 'node:worker_threads'
import { plants } from './plants.ts'
import type { SeedsOptions, SeedsRun } from './runSeeds.ts'
import { SeedFailed, simulate } from './simulate.ts'
import { openSeedStores } from './store.ts'
import type { Situation } from './world.ts'

const { from, count, step, plant, isTraced } = workerData as SeedsOptions
const options = {
  stores: await openSeedStores(),
  ...(plant !== undefined && { plant: plants[plant] }),
  isTraced,
  onSeen: (seen: ReadonlySet<Situation>) => {
    for (const situation of seen) situations[situation] = (situations[situation] ?? 0) + 1
  },
}
let failed: SeedsRun['failed']
let seeds = 0
const situations: Partial<Record<Situation, number>> = {}
for (let seed = from; seed < from + count && failed === undefined; seed += step) {
  seeds++
  try {
    await simulate(seed, options)
  } catch (error) {
    if (!(error instanceof SeedFailed)) throw error
    failed = { seed, message: error.message, trace: error.trace }
  }
}
parentPort!.postMessage({ seeds, situations, failed } satisfies SeedsRun)

import { parentPort } from 'node:worker_threads'
import { plants } from './plants.ts'
import type { SeedsOptions, SeedsRun } from './seedThreads.ts'
import { SeedFailed, simulate } from './simulate.ts'
import { openSeedStores } from './store.ts'
import type { Situation } from './world.ts'

const stores = await openSeedStores()

async function run({ from, count, step, plant, isTraced }: SeedsOptions): Promise<SeedsRun> {
  const situations: Partial<Record<Situation, number>> = {}
  const options = {
    stores,
    ...(plant !== undefined && { plant: plants[plant] }),
    isTraced,
    onSeen: (seen: ReadonlySet<Situation>) => {
      for (const situation of seen) situations[situation] = (situations[situation] ?? 0) + 1
    },
  }
  let seeds = 0
  for (let seed = from; seed < from + count; seed += step) {
    seeds++
    try {
      await simulate(seed, options)
    } catch (error) {
      if (!(error instanceof SeedFailed)) throw error
      return { seeds, situations, failed: { seed, message: error.message, trace: error.trace } }
    }
  }
  return { seeds, situations, failed: undefined }
}

parentPort!.on('message', async (options: SeedsOptions) => parentPort!.postMessage(await run(options)))

import { Worker } from 'node:worker_threads'
import type { PlantName } from './plants.ts'
import type { Situation } from './world.ts'

export interface SeedsOptions {
  readonly from: number
  readonly count: number
  /** Every how many-th seed. */
  readonly step: number
  readonly plant?: PlantName
  readonly isTraced: boolean
}

export interface SeedsRun {
  /** How many were run. */
  readonly seeds: number
  /** In how many seeds each of them was seen. */
  readonly situations: Readonly<Partial<Record<Situation, number>>>
  /** The first one that did not hold what is promised: nothing is run after it. */
  readonly failed:
    | { readonly seed: number; readonly message: string; readonly trace: readonly string[] }
    | undefined
}

/** Runs seeds in a thread of their own: the hooks that a test runner puts on every promise would cost more than they do. */
export function runSeeds(options: Partial<SeedsOptions> & Pick<SeedsOptions, 'count'>): Promise<SeedsRun> {
  const workerData: SeedsOptions = { from: 1, step: 1, isTraced: false, ...options }
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL('./seeds.worker.ts', import.meta.url), { workerData, execArgv: [] })
    worker.once('message', resolve)
    worker.once('error', reject)
  })
}

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

export type SeedsRequest = Partial<SeedsOptions> & Pick<SeedsOptions, 'count'>

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

/**
 * Threads that run seeds: the hooks that a test runner puts on every promise would cost more than the seeds. A thread is used for many
 * runs, because loading the gateway takes longer than most of them.
 */
export class SeedThreads {
  readonly #idle: Worker[]
  readonly #waiting: ((worker: Worker) => void)[] = []

  constructor(threads: number) {
    const url = new URL('./seeds.worker.ts', import.meta.url)
    this.#idle = Array.from({ length: threads }, () => new Worker(url, { execArgv: [] }))
  }

  /** Runs seeds as soon as a thread is free, in the order of the calls. */
  async run(request: SeedsRequest): Promise<SeedsRun> {
    const options: SeedsOptions = { from: 1, step: 1, isTraced: false, ...request }
    const worker = this.#idle.pop() ?? (await new Promise<Worker>((resolve) => this.#waiting.push(resolve)))
    const run = await new Promise<SeedsRun>((resolve, reject) => {
      worker.once('error', reject)
      worker.once('message', (message) => {
        worker.off('error', reject)
        resolve(message)
      })
      worker.postMessage(options)
    })
    const next = this.#waiting.shift()
    if (next === undefined) this.#idle.push(worker)
    else next(worker)
    return run
  }

  /** Ends the threads that are idle. */
  async close(): Promise<void> {
    await Promise.all(this.#idle.map((worker) => worker.terminate()))
  }
}

import type { NetworkId } from '../../../core/domain/network.ts'
import { type Job, startJob } from '../../../core/jobs/job.ts'
import type { Settler } from '../../../core/ports/chains/settler.ts'
import type { Log } from '../../../core/ports/log.ts'
import { takeUp } from '../settling/leaseHolder.ts'

/** Time between two attempts to read a settler's state, in ms. */
const RETRY_MS = 5_000

/**
 * Starts settlers that any number of processes may run at once. Each process that sells verifies and signs with its own,
 * whether or not it runs the background jobs. A settler with keys that only one process may hold starts when this process gets
 * a key.
 */
export interface SettlerStarts {
  /**
   * Called once before the settler's network is offered. If the first attempt fails, further attempts run in the background.
   * Never rejects.
   */
  begin(settler: Settler): Promise<void>
  /** Networks whose settlers could not start yet. The gateway refuses paid calls on them. */
  readonly waiting: ReadonlySet<NetworkId>
  close(): Promise<void>
}

export function createSettlerStarts(
  ledger: Parameters<typeof takeUp>[2],
  log: Log,
  retryMs = RETRY_MS,
): SettlerStarts {
  const waiting = new Set<NetworkId>()
  const jobs: Job[] = []

  function retry(settler: Settler): void {
    const { network } = settler
    const job = startJob({
      name: `start settling on ${network}`,
      everyMs: retryMs,
      log,
      async run() {
        if (!(await takeUp(network, settler, ledger, log))) return
        waiting.delete(network)
        void job.stop()
      },
    })
    jobs.push(job)
  }

  return {
    async begin(settler) {
      if (settler.isExclusive === true || (await takeUp(settler.network, settler, ledger, log))) return
      waiting.add(settler.network)
      retry(settler)
    },
    waiting,
    async close() {
      await Promise.all(jobs.map((job) => job.stop()))
    },
  }
}

import { setTimeout as sleep } from 'node:timers/promises'
import { transferScheme } from '../../core/payments/bookTransfer.ts'
import { createRecovery, type RecoveryOptions, type RecoveryParts } from '../../core/payments/recovery.ts'
import { createTransferWatch, type Looks } from '../../core/payments/transferWatch.ts'
import type { Settler } from '../../core/ports/chains/settler.ts'
import type { Log } from '../../core/ports/log.ts'
import { createKeyHolder, type TakeUp, takeUp } from './keys/keyHolder.ts'
import type { Stack } from './open/openStack.ts'

const RETRY_MS = 5_000

export interface Jobs {
  stop(): Promise<void>
}

/**
 * Starts what works beside the calls: the settlers' take-up of open attempts, and the recovery of open payments.
 *
 * @param keepDeliveredMs how long a repeated call gets an answer that was delivered, see {@link RecoveryOptions}
 */
export async function startJobs(
  { ports, store, chains, notes, lease, keys, transferProofs }: Stack,
  log: Log,
  keepDeliveredMs: RecoveryOptions['keepDeliveredMs'],
): Promise<Jobs> {
  const { payments, purchases, clock } = ports
  const stopped = new AbortController()
  const recovery = createRecovery(
    {
      ...{ books: store.books, leases: store.leases, sessions: store.sessions },
      ...{ payments, purchases, notes, clock, log, lease },
      chains: withTransfers(chains, createTransferWatch(transferProofs, clock)),
    },
    { keepDeliveredMs },
  )
  const takeUps = chains.settlers.map((settler) =>
    settler.isExclusive
      ? createKeyHolder(settler, { books: store.books, leases: store.leases, keys, log })
      : beside(settler),
  )
  // Before the first call comes: a settler must know which account nonces are in use before it signs anything new.
  await Promise.all(takeUps.map((one) => one.begin()))
  // Side by side: a chain that is away must not keep the payments of the others open.
  const running = Promise.all([
    recovery.run(stopped.signal),
    ...takeUps.map((one) => one.run(stopped.signal)),
  ])

  /** A settler that any number of processes may have. */
  function beside(settler: Settler): TakeUp {
    let isUp = false
    return {
      async begin() {
        isUp = await takeUp(settler.network, settler, store.books, log)
      },
      async run(signal) {
        while (!isUp && !signal.aborted) {
          await sleep(RETRY_MS, undefined, { signal, ref: false }).catch(() => undefined)
          if (!signal.aborted) isUp = await takeUp(settler.network, settler, store.books, log)
        }
      },
    }
  }

  return {
    async stop() {
      stopped.abort()
      await running
    },
  }
}

/** Recovery asks about plain transfers as it asks settlers about theirs. */
const withTransfers = (chains: Stack['chains'], watch: Looks): RecoveryParts['chains'] => ({
  assets: chains.assets,
  get settlers() {
    return chains.settlers
  },
  settler: (network, scheme) => (scheme === transferScheme ? watch : chains.settler(network, scheme)),
})

import { transferScheme } from '../../core/payments/bookTransfer.ts'
import { createRecovery, type RecoveryOptions, type RecoveryParts } from '../../core/payments/recovery.ts'
import { createTransferWatch, type Looks } from '../../core/payments/transferWatch.ts'
import type { Log } from '../../core/ports/log.ts'
import { createKeyHolder } from './keys/keyHolder.ts'
import type { Stack } from './open/openStack.ts'

export interface Jobs {
  stop(): Promise<void>
}

/**
 * Starts what one process does for all: taking settling keys that only one may have, and the recovery of open payments.
 *
 * @param keepDeliveredMs how long a repeated call gets an answer that was delivered, see {@link RecoveryOptions}
 */
export async function startJobs(
  { ports, store, chains, notes, lease, keys, transferProofs, refundProofs }: Stack,
  log: Log,
  keepDeliveredMs: RecoveryOptions['keepDeliveredMs'],
): Promise<Jobs> {
  const { payments, purchases, clock } = ports
  const stopped = new AbortController()
  const recovery = createRecovery(
    {
      ...{ books: store.books, leases: store.leases, sessions: store.sessions },
      ...{ payments, purchases, refundProofs, notes, clock, log, lease },
      chains: withTransfers(chains, createTransferWatch(transferProofs, clock)),
    },
    { keepDeliveredMs },
  )
  const keyHolders = chains.settlers
    .filter((settler) => settler.isExclusive === true)
    .map((settler) => createKeyHolder(settler, { books: store.books, leases: store.leases, keys, log }))
  // Before the first call comes: a settler must know which account nonces are in use before it signs anything new.
  await Promise.all(keyHolders.map((one) => one.begin()))
  // Side by side: a chain that is away must not keep the payments of the others open.
  const running = Promise.all([
    recovery.run(stopped.signal),
    ...keyHolders.map((one) => one.run(stopped.signal)),
  ])

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

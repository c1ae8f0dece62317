import type { Job } from '../../core/jobs/job.ts'
import type { Generation } from '../../core/kernel/generation.ts'
import { createRecovery, type RecoveryOptions, type RecoveryParts } from '../../core/payments/recovery.ts'
import { transferScheme } from '../../core/payments/transfers.ts'
import { createTransferWatch, type SettlerQueries } from '../../core/payments/transferWatch.ts'
import type { Log } from '../../core/ports/log.ts'
import { options } from '../../plugins/replay-guard/options.ts'
import type { Stack } from './open/openStack.ts'
import { createLeaseHolder } from './settling/leaseHolder.ts'

const { maximum, default: usual } = options.properties.replayWindowMs

/**
 * The longest time in which a repeated call of any link gets a response that was already delivered, in ms since the payment's
 * claim. Delivered responses must be kept that long.
 *
 * @param generation the running configuration. Default: the maximum of all configurations
 */
export function longestReplayMs(generation: Pick<Generation, 'plugins'> | undefined): number {
  if (generation === undefined) return maximum
  const windows = generation.plugins.flatMap(({ plugin, options: given }) => {
    const ms = (given as { readonly replayWindowMs?: unknown } | undefined)?.replayWindowMs
    return plugin.name === 'replay-guard' && typeof ms === 'number' ? [ms] : []
  })
  return windows.length === 0 ? usual : Math.max(...windows)
}

/**
 * Starts the background jobs that a single process runs for all. It takes the settling keys that only one process may
 * hold, and recovers open payments.
 * @param keepDeliveredMs how long a repeated call gets a delivered response, see {@link RecoveryOptions}
 */
export async function startJobs(
  { ports, store, chains, notes, lease, keys }: Stack,
  log: Log,
  keepDeliveredMs: RecoveryOptions['keepDeliveredMs'],
): Promise<Pick<Job, 'stop'>> {
  const { payments, purchases, clock } = ports
  const recovery = createRecovery(
    {
      ledger: store.ledger,
      leases: store.leases,
      sessions: store.sessions,
      payments,
      purchases,
      refundProofs: chains.refundProofs,
      notes,
      clock,
      log,
      lease,
      chains: withTransfers(chains, createTransferWatch(chains.transferProofs, clock)),
    },
    { keepDeliveredMs },
  )
  const leaseHolders = chains.settlers
    .filter((settler) => settler.isExclusive === true)
    .map((settler) => createLeaseHolder(settler, { ledger: store.ledger, leases: store.leases, keys, log }))
  // This is awaited before the first call, because a settler must know which nonces are in use before it signs.
  await Promise.all(leaseHolders.map((one) => one.begin()))
  const recovering = recovery.start()

  return {
    async stop() {
      await Promise.all([recovering, ...leaseHolders].map((one) => one.stop()))
    },
  }
}

/** Lets recovery check plain transfers by the same functions as payments of settlers. */
const withTransfers = (chains: Stack['chains'], watch: SettlerQueries): RecoveryParts['chains'] => ({
  assets: chains.assets,
  get settlers() {
    return chains.settlers
  },
  settler: (network, scheme) => (scheme === transferScheme ? watch : chains.settler(network, scheme)),
})

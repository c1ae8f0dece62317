import { setTimeout as sleep } from 'node:timers/promises'
import { unresolvedStates } from '../../core/domain/payment.ts'
import { createPurchaseNotes } from '../../core/payments/purchaseNote.ts'
import { createReconciler } from '../../core/payments/reconciler.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Settler } from '../../core/ports/settler.ts'
import type { Stack } from './openStack.ts'
import { startHeartbeat } from './startHeartbeat.ts'

const RETRY_MS = 5_000
/** More open attempts of one settler than this would mean that its key has been stuck for days. */
const MAX_UNRESOLVED = 10_000

export interface Jobs {
  stop(): Promise<void>
}

/** Starts what works beside the calls: this process's heartbeat, the settlers' take-up of open attempts, the reconciler. */
export async function startJobs(stack: Stack, log: Log): Promise<Jobs> {
  const { ports, store, chains } = stack
  const { clock, service, sealer } = ports
  const stopped = new AbortController()
  const heartbeat = await startHeartbeat(stack, log)

  const reconciler = createReconciler({
    payments: store.payments,
    purchases: store.purchases,
    chains,
    notes: createPurchaseNotes(sealer, service.metadataField),
    clock,
    log,
    instanceId: service.instanceId,
  })
  // Before the first call comes: a settler must know which account nonces are in use before it signs anything new.
  const isUp = await Promise.all(chains.settlers.map(takeUp))
  const away = chains.settlers.filter((_, i) => !isUp[i])
  // Side by side: a chain that is away must not keep the payments of the others open.
  const running = Promise.all([
    reconciler.run(stopped.signal),
    ...away.map((settler) => takeUpLater(settler, stopped.signal)),
  ])

  /** Tells a settler what a former process left. */
  async function takeUp(settler: Settler): Promise<boolean> {
    try {
      const open = await store.payments.list({ states: unresolvedStates, limit: MAX_UNRESOLVED })
      await settler.start(open.filter((record) => record.network === settler.network))
      return true
    } catch (err) {
      log.warn({ err, network: settler.network }, 'can not settle here yet; trying again')
      return false
    }
  }

  async function takeUpLater(settler: Settler, signal: AbortSignal): Promise<void> {
    do await sleep(RETRY_MS, undefined, { signal, ref: false }).catch(() => undefined)
    while (!signal.aborted && !(await takeUp(settler)))
  }

  return {
    async stop() {
      stopped.abort()
      heartbeat.stop()
      await running
    },
  }
}

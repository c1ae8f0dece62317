import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { createRecovery } from '../../core/payments/recovery.ts'
import type { TestGateway } from './gateway.ts'

/**
 * What works on open payments beside the calls. Before each round so much time passes that every open payment is due.
 * @param daysLater how many days have passed by its own clock
 */
export function recoveryOf(gateway: TestGateway, daysLater = 0) {
  const { ports, store, ledger, lease } = gateway
  const { payments, purchases, chains, log, sealer, service } = ports
  const clock = { now: () => ports.clock.now() + daysLater * 86_400_000 }
  const notes = createPurchaseNotes(sealer, service.metadataField)
  const { leases, sessions } = store
  const refundProofs = { prove: async () => ({ status: 'not_configured' }) as const }
  const parts = {
    ledger,
    leases,
    payments,
    purchases,
    sessions,
    refundProofs,
    chains,
    notes,
    clock,
    log,
    lease,
  }
  const recovery = createRecovery(parts)
  return {
    async round(): Promise<number> {
      gateway.later(60_000)
      return recovery.round()
    },
  }
}

import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { createRecovery } from '../../core/payments/recovery.ts'
import type { TestGateway } from './gateway.ts'

/** What works on open payments beside the calls. Before each round so much time passes that whatever is open is due. */
export function recoveryOf(gateway: TestGateway) {
  const { ports, store, books, lease } = gateway
  const { payments, purchases, chains, clock, log, sealer, service } = ports
  const notes = createPurchaseNotes(sealer, service.metadataField)
  const { leases, sessions } = store
  const parts = { books, leases, payments, purchases, sessions, chains, notes, clock, log, lease }
  const recovery = createRecovery(parts)
  return {
    async round(): Promise<number> {
      gateway.later(60_000)
      return recovery.round()
    },
  }
}

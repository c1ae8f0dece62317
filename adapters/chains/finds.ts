import type { PaymentRecord } from '../../core/domain/payment.ts'
import type { SettleOutcome } from '../../core/ports/chains/settler.ts'
import type { Budgets } from './budgets.ts'

/** What recovery has found, and what that has cost: it counts once it is booked, so that of several who find the same only one counts it. */
export interface Finds {
  /** @param gas see {@link Budgets.note} */
  add(record: PaymentRecord, outcome: SettleOutcome, gas?: bigint): void
  /** See `Settler.booked`. */
  booked(record: Pick<PaymentRecord, 'key'>, outcome: SettleOutcome): void
}

export function createFinds(budgets: Pick<Budgets, 'note'>): Finds {
  /** By the outcome itself: what nobody books is forgotten with it. */
  const finds = new WeakMap<SettleOutcome, { readonly record: PaymentRecord; readonly gas?: bigint }>()
  return {
    add(record, outcome, gas) {
      finds.set(outcome, { record, ...(gas !== undefined && { gas }) })
    },
    booked({ key }, outcome) {
      const found = finds.get(outcome)
      if (found?.record.key === key) budgets.note(found.record, outcome, found.gas)
    },
  }
}

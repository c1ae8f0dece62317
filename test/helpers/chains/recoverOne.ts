import type { PaymentRecord } from '../../../core/domain/payment.ts'
import type { Settler } from '../../../core/ports/chains/settler.ts'

/** What became of one open payment; the settler is notified that it is in the ledger. */
export async function recoverOne(settler: Pick<Settler, 'recover' | 'booked'>, record: PaymentRecord) {
  const [outcome] = await settler.recover([record])
  settler.booked?.(record, outcome!)
  return outcome!
}

/** Whether one settled payment is still on chain. */
export const isOnChain = async (settler: Pick<Settler, 'stillOnChain'>, record: PaymentRecord) =>
  (await settler.stillOnChain([record]))[0]!

import type { PaymentRecord } from '../../core/domain/payment.ts'
import type { Settler } from '../../core/ports/chains/settler.ts'

/** What became of one open payment. */
export const recoverOne = async (settler: Pick<Settler, 'recover'>, record: PaymentRecord) =>
  (await settler.recover([record]))[0]!

/** Whether one settled payment is still on chain. */
export const isOnChain = async (settler: Pick<Settler, 'stillOnChain'>, record: PaymentRecord) =>
  (await settler.stillOnChain([record]))[0]!

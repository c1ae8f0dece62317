import { hash } from 'node:crypto'
import { parseAmount } from '../../../core/domain/money.ts'
import type { PaymentState } from '../../../core/domain/payment.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import { bring } from '../rows.ts'

/** Books a sale the way the gateway does: claimed, settled, with its ledger entries. @returns its purchase id */
export async function sell(
  { ledger }: Pick<DataStore, 'ledger'>,
  sale: {
    storeId: string
    linkId: string
    amount: string
    atMs: number
    buyer?: string
    reviewToken?: string
    /** Default: settled. */
    state?: PaymentState
  },
): Promise<string> {
  const {
    storeId,
    linkId,
    atMs,
    buyer = '0x00000000000000000000000000000000000000b1',
    state = 'settled',
  } = sale
  const { purchaseId } = await bring(ledger, {
    ...{ state, storeId, linkId, atMs, payer: buyer, response: null },
    ...(sale.reviewToken !== undefined && { reviewTokenHash: hash('sha256', sale.reviewToken) }),
    ...{ payTo: '0x00000000000000000000000000000000000000a1', amountAtomic: parseAmount(sale.amount, 6) },
  })
  return purchaseId
}

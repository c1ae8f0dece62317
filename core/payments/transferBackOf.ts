import type { PaymentRecord } from '../domain/payment.ts'
import type { Purchase } from '../domain/purchase.ts'
import type { TransferBack } from '../ports/chains/refundProofs.ts'

/**
 * The transfer that pays a purchase back. The payment says which wallet was paid: a seller who has changed wallets since
 * refunds from the old one, or somebody else's transfer to the buyer could be taken for a refund.
 *
 * @param transaction hash or signature in its canonical spelling
 */
export const transferBackOf = (
  purchase: Purchase,
  payment: Pick<PaymentRecord, 'payTo'>,
  transaction: string,
): TransferBack => ({
  network: purchase.network,
  asset: purchase.asset,
  from: payment.payTo,
  to: purchase.buyerWallet,
  amountAtomic: purchase.amountAtomic,
  transaction,
  saleTransaction: purchase.txHash ?? '',
})

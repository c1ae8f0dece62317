import type { AtomicAmount } from '../../domain/money.ts'
import type { NetworkId } from '../../domain/network.ts'
import type { PaymentKey, PaymentRecord } from '../../domain/payment.ts'
import type { Purchase } from '../../domain/purchase.ts'

/** The transfer that has to be on chain for a purchase to count as refunded. */
export interface TransferBack {
  readonly network: NetworkId
  readonly asset: string
  /** The wallet to which the sale was paid. A transfer from another wallet is not the seller's refund. */
  readonly from: string
  /** The wallet that paid for the purchase. */
  readonly to: string
  /** The minimum amount that has to arrive. */
  readonly amountAtomic: AtomicAmount
  /** The transaction that the seller names. It is a hash or signature in the spelling that Tollgate stores. */
  readonly transaction: string
  /** The sale's own transaction. A transfer before the sale is not a refund. */
  readonly saleTransaction: string
}

/**
 * Which part of the transaction differs from the expected refund. `order` means that the transaction is not later on chain than the
 * sale.
 */
export type TransferMismatch = 'asset' | 'recipient' | 'sender' | 'amount' | 'order'

export type RefundVerdict =
  | {
      readonly status: 'proved'
      /**
       * The keys that this transaction would have as an x402 payment. With them, the database refuses a transaction that buys
       * something.
       */
      readonly paymentKeys: readonly PaymentKey[]
    }
  | {
      /** No node has the transaction. It was never sent, is not in a block yet, or was removed by a reorganization. */
      readonly status: 'not_found'
      /**
       * Time of the newest block of a node that has the sale but not this transaction, in ms since 1970. The node's data thus goes
       * back far enough. Absent if there is no such node.
       */
      readonly headMs?: number
    }
  /** The transaction is in a block, but too few blocks follow that block for a payment on this network. */
  | { readonly status: 'not_final' }
  /** The transaction is in a block, but it failed and moved no money. */
  | { readonly status: 'reverted' }
  | { readonly status: 'mismatch'; readonly what: TransferMismatch }
  /** No node responded, or none has the data. The message says which of the two. */
  | { readonly status: 'unavailable'; readonly message: string }
  /** The configuration names no node for this network. */
  | { readonly status: 'not_configured' }

/** Proves on chain that a seller has refunded a buyer. This port has no key and sends nothing. */
export interface RefundProofs {
  /** Reads the current state of the chain once, and does not wait for the transaction. Never rejects. */
  prove(transfer: TransferBack): Promise<RefundVerdict>
}

/**
 * The transfer that refunds a purchase. Its sender is the payment's payee, not the store's current wallet, because the seller may
 * have changed wallets since. Otherwise any transfer from another wallet to the buyer could be mistaken for a refund.
 *
 * @param transaction hash or signature, in the spelling that Tollgate stores
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

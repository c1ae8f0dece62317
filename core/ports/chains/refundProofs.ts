import type { AtomicAmount } from '../../domain/money.ts'
import type { NetworkId } from '../../domain/network.ts'
import type { PaymentKey } from '../../domain/payment.ts'

/** The transfer that has to be on chain for a purchase to count as paid back. */
export interface TransferBack {
  readonly network: NetworkId
  readonly asset: string
  /** The wallet that the sale was paid to. Nobody else's money counts: it would not be the seller's refund. */
  readonly from: string
  /** The wallet that paid. */
  readonly to: string
  /** The least that has to arrive. */
  readonly amountAtomic: AtomicAmount
  /** Hash or signature that the seller names, in its canonical spelling. */
  readonly transaction: string
  /** The sale's own transaction: money that went back before it came is no refund. */
  readonly saleTransaction: string
}

/** What of a transaction does not fit; `order` means that it is not later on chain than the sale. */
export type TransferMismatch = 'asset' | 'recipient' | 'sender' | 'amount' | 'order'

export type RefundVerdict =
  | {
      readonly status: 'proved'
      /** Keys that this transaction has as an x402 payment, for the store to refuse one that buys something. */
      readonly paymentKeys: readonly PaymentKey[]
    }
  | {
      /** No node knows it: never sent, still on its way, or taken out by a reorganisation. */
      readonly status: 'not_found'
      /**
       * The time of the newest block of a node that knows the sale, so its memory goes back that far, and not this transaction, in ms
       * since 1970; absent where no node is known to.
       */
      readonly headMs?: number
    }
  /** It is in a block, and not as deep as payments on this network have to be. */
  | { readonly status: 'not_final' }
  /** It is in a block and moved nothing. */
  | { readonly status: 'reverted' }
  | { readonly status: 'mismatch'; readonly what: TransferMismatch }
  /** No node answers, or none can tell; in words. */
  | { readonly status: 'unavailable'; readonly message: string }
  /** The configuration names no node for this network. */
  | { readonly status: 'not_configured' }

/** Proves on chain that a seller gave a buyer's money back. It has no key and sends nothing. */
export interface RefundProofs {
  /** Reads the chain as it stands now and does not wait. Never rejects. */
  prove(transfer: TransferBack): Promise<RefundVerdict>
}

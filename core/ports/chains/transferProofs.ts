import type { AtomicAmount } from '../../domain/money.ts'
import type { NetworkId } from '../../domain/network.ts'
import type { PaymentKey } from '../../domain/payment.ts'

/** The plain transfer by which a buyer pays. */
export interface WantedTransfer {
  readonly network: NetworkId
  readonly asset: string
  /** The wallet that has to receive the transfer. On Solana only its associated token account counts. */
  readonly payTo: string
  /** The exact amount. A buyer who sends more or less has not paid. */
  readonly amountAtomic: AtomicAmount
  /** Earliest time by the chain's clock, in ms since 1970. A transfer that landed earlier pays for something else. */
  readonly notBeforeMs: number
}

/** A transfer on chain. As many blocks follow its block as payments on the network need. */
export interface FoundTransfer {
  /**
   * The transfer's key as a payment, which stays the same after a reorganization. A transfer that could also be an x402 payment (an
   * EIP-3009 authorization, or a Solana transaction with one transfer) has that payment's key, so that it can never count as both.
   */
  readonly key: PaymentKey
  /** Like `PaymentIdentity.nonce`. If the transfer has no nonce, this text identifies the transfer within its transaction. */
  readonly nonce: string
  /** The transaction's hash or signature, in the spelling that Tollgate stores. */
  readonly transaction: string
  /** The transfer's id in its transaction. It is permanently unique together with network and transaction. */
  readonly event: string
  /** The wallet that sent the money. */
  readonly from: string
  readonly amountAtomic: AtomicAmount
  /** Block number (EVM) or slot (Solana). */
  readonly block: number
  /** Time of the block, in ms since 1970. */
  readonly atMs: number
}

/**
 * The part of a transfer that does not match. `failed`: the transaction moved nothing. `sender`: the token was minted in the
 * transaction, or the payee's own wallet sent it. `x402`: it is a payment by Permit2 or the payout of payment channels.
 */
export type TransferFault = 'failed' | 'asset' | 'recipient' | 'sender' | 'x402' | 'amount' | 'time'

export type TransferVerdict =
  /**
   * There is at least one transfer. Several are in the chain's order. Only the ledger shows whether one of them has already paid
   * for something.
   */
  | { readonly status: 'found'; readonly transfers: readonly FoundTransfer[] }
  /** No node has the transaction yet, or too few blocks follow it. `transaction` is null if none was named or seen. */
  | {
      readonly status: 'pending'
      readonly transaction: string | null
      /** True if a node has the transaction in a block. */
      readonly isKnown: boolean
      /**
       * The block (EVM) or slot (Solana) that the node without the transaction had reached. Absent if the node did not report one.
       */
      readonly seenUpTo?: number
    }
  /** The transaction is in a block, but it has no transfer that matches. */
  | {
      readonly status: 'mismatch'
      readonly what: TransferFault
      /** For the fault `amount`, the sum of the transfers to the payee. */
      readonly movedAtomic?: AtomicAmount
      /** For the fault `time`, the time of the transaction's block, in ms since 1970. */
      readonly atMs?: number
    }
  /** No transfer matches. If `isComplete` is false, the payee received more transfers than one search reads. */
  | { readonly status: 'none'; readonly isComplete: boolean }
  /** No node responded, or none has the data. The message says which of the two. */
  | { readonly status: 'unavailable'; readonly message: string }
  /** The configuration names no node for this network. */
  | { readonly status: 'not_configured' }

/**
 * Proves on chain that a seller was paid by a plain transfer, including a transfer inside a call of a contract or program. This
 * port has no key and sends nothing. It reads the current state of the chain, does not wait, and never rejects.
 */
export interface TransferProofs {
  /**
   * Checks one transaction. The status is never `none`. @param transaction hash or signature, in the spelling that Tollgate stores
   */
  prove(wanted: WantedTransfer, transaction: string): Promise<TransferVerdict>
  /**
   * Searches for matching transfers among those that the payee received. It leaves out failed transactions. The status is never
   * `mismatch`.
   */
  find(wanted: WantedTransfer): Promise<TransferVerdict>
}

import type { AtomicAmount } from '../../domain/money.ts'
import type { NetworkId } from '../../domain/network.ts'
import type { PaymentKey } from '../../domain/payment.ts'

/** The plain transfer that has to be on chain for somebody to have paid. */
export interface WantedTransfer {
  readonly network: NetworkId
  readonly asset: string
  /** The wallet that has to get it. On Solana its associated token account counts, and no other one. */
  readonly payTo: string
  /** Exactly this: who sends more or less has not paid. */
  readonly amountAtomic: AtomicAmount
  /** What landed before this time by the chain's clock pays for something else, in ms since 1970. */
  readonly notBeforeMs: number
}

/** A transfer that the chain knows as deep as payments on its network have to be. */
export interface FoundTransfer {
  /**
   * What it is as a payment, the same for good, after a reorganisation too. Of a transfer that could be an x402 payment as
   * well (an EIP-3009 authorisation, a Solana transaction with one transfer) it is that payment's key: it is never both.
   */
  readonly key: PaymentKey
  /** As `PaymentIdentity.nonce`; of a transfer without one, what names it within its transaction. */
  readonly nonce: string
  /** In its canonical spelling. */
  readonly transaction: string
  /** Which of the transaction's transfers it is; with network and transaction unique for good. */
  readonly event: string
  /** The wallet whose money it was. */
  readonly from: string
  readonly amountAtomic: AtomicAmount
  /** Block number (EVM) or slot (Solana). */
  readonly block: number
  /** Time of that block, in ms since 1970. */
  readonly atMs: number
}

/**
 * What of a transaction does not fit. `failed`: it moved nothing. `sender`: nobody's wallet sent it (the token was made in
 * it), or the payee's own.
 */
export type TransferFault = 'failed' | 'asset' | 'recipient' | 'sender' | 'amount' | 'time'

export type TransferVerdict =
  /** At least one, in the chain's order. Whether one of them has paid for something already, the books know. */
  | { readonly status: 'found'; readonly transfers: readonly FoundTransfer[] }
  /** No node knows the transaction yet, or it is not as deep as it has to be; null where none was named or seen. */
  | {
      readonly status: 'pending'
      readonly transaction: string | null
      /** Some node has it, in a block. */
      readonly isKnown: boolean
      /** The block (EVM) or slot (Solana) that the node had come to which does not know it; absent where it did not say. */
      readonly seenUpTo?: number
    }
  /** It is in a block, and pays nothing of what is wanted. */
  | {
      readonly status: 'mismatch'
      readonly what: TransferFault
      /** Of `amount`: what the transfers to the payee come to. */
      readonly movedAtomic?: AtomicAmount
      /** Of `time`: that of its block, in ms since 1970. */
      readonly atMs?: number
    }
  /** There is none; where `isComplete` is false, more has landed there than one look goes through. */
  | { readonly status: 'none'; readonly isComplete: boolean }
  /** No node answers, or none can tell; in words. */
  | { readonly status: 'unavailable'; readonly message: string }
  /** The configuration names no node for this network. */
  | { readonly status: 'not_configured' }

/**
 * Proves on chain that somebody was paid by a plain transfer, inside a contract's or a program's call as well. It has no key
 * and sends nothing, reads the chain as it stands now and does not wait. Never rejects.
 */
export interface TransferProofs {
  /** @param transaction hash or signature in its canonical spelling; never `none` */
  prove(wanted: WantedTransfer, transaction: string): Promise<TransferVerdict>
  /** Looks for transfers that fit among what the payee got; those of failed transactions are none. Never `mismatch`. */
  look(wanted: WantedTransfer): Promise<TransferVerdict>
}

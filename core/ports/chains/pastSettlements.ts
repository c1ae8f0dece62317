import type { AtomicAmount } from '../../domain/money.ts'
import type { NetworkId } from '../../domain/network.ts'
import type { PaymentKey } from '../../domain/payment.ts'

/** What to look for on a network, and how the books are asked. */
export interface PastQuestion {
  /** Tokens that are taken there: contracts, mints. */
  readonly assets: readonly string[]
  /** Addresses that settle, or have settled, for this installation. */
  readonly senders: readonly string[]
  /** Settlements in the books by somebody whose addresses are not known: whoever sent one of these counts as a sender. */
  readonly sentAlike: readonly string[]
  /**
   * Wallets that sellers are paid to. On EVM networks payments to others are not found; on Solana they are read where no
   * senders are named.
   */
  readonly payees: readonly string[]
  /** What landed before this time by the chain's clock is left out, in ms since 1970. */
  readonly sinceMs: number
  /** Those of these payments that the books neither have as charged nor are looking for. */
  missingAmong(keys: readonly PaymentKey[]): Promise<ReadonlySet<PaymentKey>>
  /** Those of these transactions by which nothing has been sold. */
  unsoldAmong(transactions: readonly string[]): Promise<readonly string[]>
  /**
   * Account numbers of a sender that the books have a payment for: all from the lowest of them on. Undefined where they
   * can't say.
   */
  numbersOf(sender: string): Promise<ReadonlySet<number> | undefined>
  /** Hears down to which time it has come, in ms since 1970. */
  onProgress?(downToMs: number): void
}

/** A payment that one of the senders has put on chain and that the books lack. */
export interface MissingSettlement {
  readonly key: PaymentKey
  readonly transaction: string
  readonly asset: string
  readonly payer: string
  readonly payTo: string
  readonly amountAtomic: AtomicAmount
}

/** Account numbers of a sender that no payment of the books has and that no {@link MissingSettlement} accounts for. */
export interface UnbookedNumbers {
  readonly sender: string
  /** The highest number in the books. */
  readonly lastBooked: number
  /** The next one by the chain. */
  readonly next: number
  /** Transactions with such numbers that settle nothing and are no fillers of ours: somebody else signs with the key. */
  readonly foreign: number
  /** Numbers above the highest in the books whose transactions the node can't name. */
  readonly unread: number
}

export type PastVerdict =
  | {
      readonly status: 'looked'
      /** The newest first. */
      readonly missing: readonly MissingSettlement[]
      /** Payments that were held against the books. */
      readonly seen: number
      /**
       * EVM: payments by authorisation to sellers' wallets that somebody else has sent and that the books lack. They are another
       * shop's, or sales that an observer has settled.
       */
      readonly byOthers: number
      /** From when on, in ms since 1970: later than was asked for where the node does not know as much. */
      readonly fromMs: number
      /** Only of senders with some of either kind. */
      readonly numbers: readonly UnbookedNumbers[]
      /** What could not be read, in words; absent where everything was. */
      readonly fault?: string
    }
  /** No node answers, or none can tell; in words. */
  | { readonly status: 'unavailable'; readonly message: string }
  /** The configuration names no node for this network. */
  | { readonly status: 'not_configured' }

/**
 * Reads from the chain what an installation's own keys have settled, to hold it against books that may be an older copy of
 * themselves. It has no key and sends nothing. Never rejects for what a node says; what the books are asked may reject.
 */
export interface PastSettlements {
  look(network: NetworkId, question: PastQuestion): Promise<PastVerdict>
}

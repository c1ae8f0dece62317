import type { AtomicAmount } from '../../domain/money.ts'
import type { NetworkId } from '../../domain/network.ts'
import type { PaymentKey } from '../../domain/payment.ts'

/** What to search for on a network, and functions that query the ledger. */
export interface PastQuery {
  /** Addresses of the accepted tokens: contracts on EVM networks, mints on Solana. */
  readonly assets: readonly string[]
  /** Addresses that settle, or have settled, for this installation. */
  readonly senders: readonly string[]
  /**
   * Transactions of the ledger that were settled by a facilitator with unknown addresses. The sender of each of these transactions
   * counts as one of `senders`.
   */
  readonly sentAlike: readonly string[]
  /**
   * Wallets to which sellers are paid. On EVM networks, the search does not find payments to other wallets. On Solana, the search
   * reads these wallets only if `senders` is empty.
   */
  readonly payees: readonly string[]
  /** Start of the search by the chain's clock, in ms since 1970. The search leaves out payments that landed earlier. */
  readonly sinceMs: number
  /** Returns the payments that the ledger neither has as charged nor is still checking. */
  missingAmong(keys: readonly PaymentKey[]): Promise<ReadonlySet<PaymentKey>>
  /** Returns the transactions for which the ledger has no sale. */
  unsoldAmong(transactions: readonly string[]): Promise<readonly string[]>
  /**
   * Returns the nonces of a sender for which the ledger has a payment, without gaps from the lowest one upwards. Undefined if the
   * ledger does not know.
   */
  noncesOf(sender: string): Promise<ReadonlySet<number> | undefined>
  /** Called with the earliest time that the search has reached, in ms since 1970. */
  onProgress?(downToMs: number): void
}

/** A payment on chain that was settled by one of the senders, and that is missing from the ledger. */
export interface MissingSettlement {
  readonly key: PaymentKey
  readonly transaction: string
  readonly asset: string
  readonly payer: string
  readonly payTo: string
  readonly amountAtomic: AtomicAmount
}

/** Nonces of a sender that belong neither to a payment of the ledger nor to a {@link MissingSettlement}. */
export interface UnaccountedNonces {
  readonly sender: string
  /** The highest nonce in the ledger. */
  readonly lastInLedger: number
  /** The sender's next nonce on chain. */
  readonly next: number
  /**
   * Number of transactions with such nonces that neither settle a payment nor are fillers of this gateway. They show that another
   * program signs with the key.
   */
  readonly foreign: number
  /** Number of nonces above `lastInLedger` for which the node has no transaction. */
  readonly unread: number
}

export type PastVerdict =
  | {
      readonly status: 'looked'
      /** Payments that are missing from the ledger, newest first. */
      readonly missing: readonly MissingSettlement[]
      /** Number of payments that were compared with the ledger. */
      readonly seen: number
      /**
       * EVM only. Number of payments by authorization to sellers' wallets that other addresses have sent and that are missing from
       * the ledger. They belong to another shop, or are sales that an observer has settled.
       */
      readonly byOthers: number
      /** Start of the search, in ms since 1970. It is later than requested if the node's data does not go back that far. */
      readonly fromMs: number
      /** Senders that have unaccounted nonces. */
      readonly nonces: readonly UnaccountedNonces[]
      /** The part that could not be read, as a message. Absent if everything was read. */
      readonly fault?: string
    }
  /** No node responded, or none has the data. The message says which of the two. */
  | { readonly status: 'unavailable'; readonly message: string }
  /** The configuration names no node for this network. */
  | { readonly status: 'not_configured' }

/**
 * Reads from the chain which payments an installation's own keys have settled, to compare them with a ledger that may be restored
 * from an older backup. This port has no key and sends nothing. Failing nodes do not make it reject, but the ledger queries may.
 */
export interface PastSettlements {
  search(network: NetworkId, question: PastQuery): Promise<PastVerdict>
}

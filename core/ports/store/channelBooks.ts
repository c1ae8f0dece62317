import type { Asset } from '../../domain/asset.ts'
import type { Channel } from '../../domain/channel.ts'
import type { StoreId } from '../../domain/link.ts'
import type { AtomicAmount } from '../../domain/money.ts'
import type { NetworkId } from '../../domain/network.ts'

/** A channel as its seller sees it. */
export interface ChannelAccount {
  readonly channel: Channel
  /** When the channel was first paid with, in ms since 1970. */
  readonly openedAtMs: number
  readonly calls: number
  /** Total of the calls, in atomic units. */
  readonly earnedAtomic: AtomicAmount
  /** Claimed of it. */
  readonly claimedAtomic: AtomicAmount
  /** Why the channel cannot be claimed now. Null if it can be. */
  readonly parkedReason: string | null
}

export interface ChannelPage {
  readonly accounts: readonly ChannelAccount[]
  /** Null on the last page. */
  readonly nextCursor: string | null
}

/** What channels owe in one token, in atomic units. */
export interface ChannelDebt {
  readonly network: NetworkId
  /** The token in lower case. */
  readonly token: string
  readonly channels: number
  /** What claims would pay. */
  readonly unclaimedAtomic: AtomicAmount
  /** What no claim can pay, because the balance is gone. */
  readonly writtenOffAtomic: AtomicAmount
}

/** What was claimed in one token and is not paid out to the sellers yet. */
export interface ChannelPayoutsDue {
  readonly network: NetworkId
  /** The token in lower case. */
  readonly token: string
  readonly dueAtomic: AtomicAmount
}

/** A channel with the sum of its booked and unbooked calls, from one moment. */
export interface AuditedChannel {
  readonly channel: Channel
  /** What was claimed in the contract before this database had the channel. */
  readonly baseAtomic: AtomicAmount
  /** Sum of what its calls charged. */
  readonly summedAtomic: AtomicAmount
}

/**
 * The ledger of payment channels. A deposit is no revenue. A charged call is, from the moment it is booked, at most a second later. A
 * store owes its fee on what was claimed. The entries are sums by channel, link and hour, because entries for each call would cost
 * more than the call.
 */
export interface ChannelBooks {
  /**
   * Moves what was charged and claimed since the last time into the ledger: the sales by channel and hour, the statistics, the totals
   * and fees of each store, and the sums for webhooks. Each charged unit is moved once, because the commit that books it also deletes
   * it from what is due. Any number of processes may call this at once.
   *
   * @param assets channels in other tokens are left for later
   * @param limit maximum number of sums that it moves
   * @returns how many sums it moved
   */
  book(assets: readonly Asset[], limit: number): Promise<number>
  /** Writes the webhook events of minutes that are over. @returns how many sums it told */
  addEvents(assets: readonly Asset[], limit: number): Promise<number>
  /** The channels of a store, newest first. */
  page(storeId: StoreId, page: { readonly limit: number; readonly cursor?: string }): Promise<ChannelPage>
  /** What the channels of a store owe, by token. Of all stores, if none is given. Tokens without a debt are left out. */
  debts(storeId?: StoreId): Promise<ChannelDebt[]>
  /**
   * What the contract owes the wallets of a store, by token, when it was read last. Of all stores, if none is given. Tokens without such money
   * are left out.
   */
  payoutsDue(storeId?: StoreId): Promise<ChannelPayoutsDue[]>
  /** Channels in the order of their ids, for a check of the ledger. */
  audit(after: string | null, limit: number): Promise<AuditedChannel[]>
  /** Stores whose totals are not the sums of their channels, as sentences. */
  wrongTotals(): Promise<string[]>
}

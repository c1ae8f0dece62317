import type {
  Channel,
  ChannelId,
  ChannelOnChain,
  CLAIM_RECHECK_MS,
  SentRefund,
} from '../../domain/channel.ts'
import type { LinkId, StoreId } from '../../domain/link.ts'
import type { AtomicAmount } from '../../domain/money.ts'
import type { NetworkId } from '../../domain/network.ts'

/** A channel that this process owns, and the call that was charged last. */
export interface OwnedChannel {
  readonly channel: Channel
  /** The call that was charged last, until it is claimed. Null otherwise. */
  readonly last: ChargedCall | null
  /** How long ago it was charged, in ms. 0 if there is none. */
  readonly lastAgeMs: number
  /** The last refund that was sent. Null if none was, or it has failed. */
  readonly refund: SentRefund | null
  /** True if the process that owned the row before has ended without a release, so that the row may lack its last calls. */
  readonly isAbandoned: boolean
}

/** By what the repeat of a charged call is recognized. */
export interface ChargedCall {
  /** Empty if the request's body was too long to be recognized. */
  readonly requestHash: string
  /** The payment's identifier (x402 extension `payment-identifier`). Null without one. */
  readonly identifier: string | null
  /** Whether the response is stored. */
  readonly isStored: boolean
  /** Total of the call's voucher. */
  readonly voucherTotal: AtomicAmount
}

/** A channel that another process owns. */
export interface OwnedElsewhere {
  /** The valid lease of that process. */
  readonly ownedBy: number
}

/** The response of a channel's last charged call. */
export interface ChannelResponse {
  readonly status: number
  /** Names and values in turn. */
  readonly headers: readonly string[]
  readonly mediaType: string
  readonly body: Uint8Array
  /** Value of its `PAYMENT-RESPONSE`. */
  readonly receipt: string
}

/** One call that is charged to a channel. */
export interface ChannelCharge {
  readonly id: ChannelId
  /** The process's lease, which owns the row. */
  readonly owner: number
  readonly network: NetworkId
  readonly asset: string
  readonly storeId: StoreId
  readonly linkId: LinkId
  /** 0 if the call has used nothing. */
  readonly amountAtomic: AtomicAmount
  /** Total before this call, and before calls that the row lacks. */
  readonly before: AtomicAmount
  /** The voucher that the row keeps (`Channel.signed`). */
  readonly signed: AtomicAmount
  readonly signature: string | null
  /** Total of the call's own voucher. */
  readonly voucherTotal: AtomicAmount
  readonly requestHash: string
  /** The payment's identifier (x402 extension `payment-identifier`). Null without one. */
  readonly identifier: string | null
  /** Null if the response is not stored, so that a repeat of the call cannot get it. */
  readonly response: ChannelResponse | null
}

/** What a store's links have earned through channels in one token, in atomic units. */
export interface ChannelEarnings {
  readonly network: NetworkId
  readonly asset: string
  readonly calls: number
  readonly chargedAtomic: AtomicAmount
  readonly claimedAtomic: AtomicAmount
}

/** What the contract owes a store's wallet: claimed, and not paid out yet. */
export interface ChannelPayout {
  readonly storeId: StoreId
  /** The wallet in lower case, as is the token. */
  readonly receiver: string
  readonly token: string
  readonly dueAtomic: AtomicAmount
}

/**
 * Payment channels. A row belongs to one process at a time, by the lease of that process, so that calls of a channel are judged one
 * after the other. Every method rejects with `store_unavailable` if the database does not respond.
 */
export interface Channels {
  /**
   * Makes this process the owner of a channel, if no process with a valid lease owns it.
   *
   * @param owner lease of this process
   * @returns undefined for an unknown channel
   */
  take(id: ChannelId, owner: number): Promise<OwnedChannel | OwnedElsewhere | undefined>
  /**
   * Stores a new channel that this process owns. If the channel exists, it is taken as by {@link take}, and keeps its totals.
   */
  open(channel: Channel, owner: number): Promise<OwnedChannel | OwnedElsewhere>
  /**
   * Charges a call, in one commit that is on disk when this resolves: the channel's total and voucher, the call's response, and the
   * sums of the link.
   *
   * @returns false if the row has another total, or belongs to another process. Nothing is charged then
   */
  charge(charge: ChannelCharge): Promise<boolean>
  /**
   * The stored response of the last charged call.
   *
   * @returns undefined if there is none, or another process has charged a later call
   */
  lastResponse(id: ChannelId, call: ChargedCall): Promise<ChannelResponse | undefined>
  /**
   * Writes the state in the contract. What is claimed there counts as claimed, and the kept voucher as published. A response is deleted
   * if all is claimed, because its voucher may be public then. With another balance, the channel is no longer parked.
   *
   * @returns the amount by which the claimed total rose
   */
  update(id: ChannelId, state: ChannelOnChain): Promise<AtomicAmount>
  /**
   * Notes a refund before it is sent, because it may be mined after this process has ended.
   *
   * @param owner lease of this process
   * @param refund null if the refund has failed
   * @returns false if the row belongs to another process, which may have charged more than the refund leaves. Nothing is noted then
   */
  noteRefund(id: ChannelId, owner: number, refund: SentRefund | null): Promise<boolean>
  /**
   * Ends this process's ownership of channels.
   *
   * @param next lease of the process that owns them from now on. Null if the next process may take them
   */
  release(ids: readonly ChannelId[], owner: number, next: number | null): Promise<void>
  /**
   * Channels with unclaimed money, and those that were claimed less than {@link CLAIM_RECHECK_MS} ago, in the order of their ids.
   *
   * @param after the last id of the page before. Null for the first page
   */
  unclaimed(network: NetworkId, after: ChannelId | null, limit: number): Promise<UnclaimedChannel[]>
  /** Keeps a channel out of the claims until a time, because its claim would fail. */
  park(id: ChannelId, untilMs: number, reason: string): Promise<void>
  /** Writes what the contract owes wallets, as it was read from the chain. Other wallets keep what they had. */
  notePayouts(network: NetworkId, payouts: readonly ChannelPayout[]): Promise<void>
  /** The wallets that the contract owes money. */
  payouts(network: NetworkId): Promise<ChannelPayout[]>
  /** Sums of a store by token. Of all stores, if none is given. */
  earnings(storeId?: StoreId): Promise<ChannelEarnings[]>
}

/** A channel with unclaimed money, or that was claimed lately. */
export interface UnclaimedChannel {
  readonly channel: Channel
  /** When the oldest unclaimed call was charged or the last claim was seen, in ms since 1970. */
  readonly sinceMs: number
  /** Null if the channel is not parked. */
  readonly parked: { readonly untilMs: number; readonly reason: string } | null
}

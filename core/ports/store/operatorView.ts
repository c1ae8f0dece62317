import type { LinkId, LinkSuspension, StoreId } from '../../domain/link.ts'
import type { NetworkId } from '../../domain/network.ts'

/** A store in the operator's list. */
export interface ListedStore {
  readonly id: StoreId
  readonly username: string
  readonly displayName: string
  readonly createdAtMs: number
  /** Number of active links. */
  readonly links: number
  /** Time of the last sale that is still on chain. Null if there is none. */
  readonly lastSaleAtMs: number | null
}

/** An active link that is suspended. */
export interface SuspendedLink {
  readonly linkId: LinkId
  readonly title: string
  readonly username: string
  /** The slug in the link's address, which is the private slug if the link is a stealth link. */
  readonly slug: string
  readonly suspension: LinkSuspension
}

/** Counts of unfinished work. */
export interface Backlog {
  /** Payments whose call or settlement has not ended, by state. */
  readonly open: Readonly<Record<'claimed' | 'settling' | 'pending', number>>
  /** Payments that were charged and must be refunded. */
  readonly refundsDue: number
  /** Webhook deliveries that wait for their first or next attempt. */
  readonly webhooksWaiting: number
  /** Active links that are suspended. */
  readonly linksSuspended: number
}

/** The operator's view of all stores. No method blocks the event loop, even if there are many stores. */
export interface OperatorView {
  /**
   * Stores by username.
   *
   * @param search a part of the username or the display name, in lower case. The letters A to Z match in either case. Empty for all
   *   stores
   * @param after the last username of the previous page. Empty for the first page
   */
  stores(search: string, after: string, limit: number): Promise<ListedStore[]>
  /** Suspended links, most recently suspended first. */
  suspended(limit: number): Promise<{ readonly total: number; readonly rows: readonly SuspendedLink[] }>
  backlog(): Promise<Backlog>
  /**
   * Gas cost of settlements on a network by UTC day, oldest first, in the smallest unit of the coin. Days are counted since 1970.
   */
  gasByDay(network: NetworkId, fromDay: number): Promise<{ readonly day: number; readonly spent: bigint }[]>
}

import type { LinkId, LinkSuspension, StoreId } from '../../domain/link.ts'
import type { NetworkId } from '../../domain/network.ts'

/** A store as the operator lists it. */
export interface ListedStore {
  readonly id: StoreId
  readonly username: string
  readonly displayName: string
  readonly createdAtMs: number
  /** Active ones. */
  readonly links: number
  /** Null where nothing was sold, or nothing that is still on its chain. */
  readonly lastSaleAtMs: number | null
}

/** An active link that is suspended. */
export interface SuspendedLink {
  readonly linkId: LinkId
  readonly title: string
  readonly username: string
  /** What it is called by: its private slug where it is stealth. */
  readonly slug: string
  readonly suspension: LinkSuspension
}

/** What is still to be done, in numbers. */
export interface Backlog {
  /** Payments whose call or settlement is not over, by state. */
  readonly open: Readonly<Record<'claimed' | 'settling' | 'pending', number>>
  /** Payments that were charged and have to be paid back. */
  readonly refundsDue: number
  /** Deliveries of webhooks that wait for their first or their next try. */
  readonly webhooksWaiting: number
  /** Active links. */
  readonly linksSuspended: number
}

/** What the operator sees of all stores. Nothing here holds up the event loop, however many there are. */
export interface Oversight {
  /**
   * By username.
   *
   * @param search in lower case: of those whose username, or display name in either case (of A to Z), has it; all where it is empty
   * @param after the last username of the page before; empty for the first one
   */
  stores(search: string, after: string, limit: number): Promise<ListedStore[]>
  /** Those suspended last come first. */
  suspended(limit: number): Promise<{ readonly total: number; readonly rows: readonly SuspendedLink[] }>
  backlog(): Promise<Backlog>
  /** What settlements have cost on a network, by day since 1970 (UTC), from a day on; the oldest first. In the smallest unit. */
  gasByDay(network: NetworkId, fromDay: number): Promise<{ readonly day: number; readonly spent: bigint }[]>
}

import type { LedgerEntry } from '../domain/ledger.ts'
import type { Purchase } from '../domain/purchase.ts'
import type { Refund } from '../domain/refund.ts'
import { TollgateError } from '../errors/error.ts'

export interface PurchasePage {
  readonly purchases: readonly Purchase[]
  /** Opaque; null on the last page. */
  readonly nextCursor: string | null
}

export interface LinkStats {
  readonly views: number
  /** Different wallets that bought, without the store's own: those that sign in to it and those it is paid to. */
  readonly buyers: number
  /** Sum of priceUsd of those buyers' purchases that stand (settled, delivered), in units of 10^-18 USD. */
  readonly revenueE18: bigint
}

/** Reads of what was sold. Written only through `Books.apply`. */
export interface Purchases {
  find(id: string): Promise<Purchase | undefined>
  /** Newest first. */
  page(storeId: string, options: { cursor?: string; limit: number; linkId?: string }): Promise<PurchasePage>
  stats(storeId: string, options: { sinceMs: number; linkId?: string }): Promise<LinkStats>
  /** Adds views counted in memory: free calls and 402 answers, per link and UTC day. */
  addViews(views: readonly { linkId: string; day: string; count: number }[]): Promise<void>
  /** How a purchase was paid back; undefined when it was not. */
  refundOf(purchaseId: string): Promise<Refund | undefined>
  /** Every entry of one purchase. */
  ledger(purchaseId: string): Promise<LedgerEntry[]>
  ledgerCheck(): Promise<LedgerFindings>
}

/** What the ledger check counted in the store; doctor compares the transfers with the chain. */
export interface LedgerFindings {
  readonly purchases: number
  readonly chargedPayments: number
  readonly unresolvedPayments: number
  readonly refundDue: number
  /**
   * Charged payments without a purchase, purchases without a charged payment, and refunded ones without a transfer back
   * or the other way round. Must be empty.
   */
  readonly broken: readonly string[]
  /** Purchases whose ledger entries do not add up to zero. Must be empty. */
  readonly unbalanced: readonly string[]
  /** Transactions of all standing purchases, for the comparison with the chain. */
  readonly transactions: readonly { network: string; transaction: string; purchaseId: string }[]
}

/** Where a page ends: the cursor of the next one. */
export const cursorAt = (createdAtMs: number, id: string): string =>
  Buffer.from(`${createdAtMs}:${id}`).toString('base64url')

/** @throws `VALIDATION_ERROR` for anything that {@link cursorAt} did not make */
export function readCursor(cursor: string): { atMs: number; id: string } {
  const match = /^(\d{1,15}):(.+)$/s.exec(Buffer.from(cursor, 'base64url').toString())
  if (match) return { atMs: Number(match[1]), id: match[2]! }
  throw new TollgateError(
    'VALIDATION_ERROR',
    'Expected a cursor of an earlier page. Leave it out for the first.',
  )
}

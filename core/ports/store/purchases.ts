import type { LedgerEntry } from '../../domain/ledger.ts'
import type { NetworkId } from '../../domain/network.ts'
import type { Purchase, UnusualStatus } from '../../domain/purchase.ts'
import type { Refund } from '../../domain/refund.ts'
import { TollgateError } from '../../errors/error.ts'
import type { TransferBack } from '../chains/refundProofs.ts'

export interface PurchasePage {
  readonly purchases: readonly Purchase[]
  /** Opaque; null on the last page. */
  readonly nextCursor: string | null
}

/** As {@link TransferBack} has it, whatever the transaction. */
export type OwedBack = Pick<TransferBack, 'network' | 'asset' | 'from' | 'to' | 'amountAtomic'>

/** So many sales of a store {@link Purchases.hasSold} looks through. */
export const SALES_LOOKED_AT = 10_000

/** Reads of what was sold. Written only through `Books.apply`. */
export interface Purchases {
  find(id: string): Promise<Purchase | undefined>
  /** Newest first. */
  page(
    storeId: string,
    options: { cursor?: string; limit: number; linkId?: string; status?: UnusualStatus },
  ): Promise<PurchasePage>
  /** How a purchase was paid back; undefined when it was not. */
  refundOf(purchaseId: string): Promise<Refund | undefined>
  /** Whether exactly this is owed back from one wallet to another: by it a purchase was paid there that is `refund_due`. */
  isOwedBack(back: OwedBack): Promise<boolean>
  /**
   * Whether a store has sold something for exactly this, and not paid it back, as far as one look at its newest sales goes.
   * @param sinceMs of sales from then on
   */
  hasSold(storeId: string, back: OwedBack, sinceMs: number): Promise<boolean>
  /** Those of these transactions that a purchase names, in their canonical spelling, whatever became of it. */
  soldIn(network: NetworkId, transactions: readonly string[]): Promise<ReadonlySet<string>>
  /** Every entry of one purchase. */
  ledger(purchaseId: string): Promise<LedgerEntry[]>
  /**
   * Reads the whole books: some rows at a time, so that nothing is held up however many there are. Each payment is judged as it
   * stands at one moment, with all that belongs to it; what is claimed meanwhile may be left out.
   */
  ledgerCheck(ears?: LedgerEars, options?: LedgerCheckOptions): Promise<LedgerFindings>
}

export interface LedgerCheckOptions {
  /**
   * Leaves out the days that such a check has found right before, when they are older than webhooks' events are kept and nothing of
   * them has moved since; and notes the days that it finds right, one by one. Default: false, all of it is read, and nothing noted.
   * A store may read all of it nevertheless.
   */
  readonly skipsJudged?: boolean
}

/** Who hears of the ledger check while it runs. */
export interface LedgerEars {
  /** How many rows of a kind it has looked at, and of how many, where that is known. */
  onProgress?(
    rows: 'payments' | 'sessions' | 'entries' | 'stores' | 'months of sums',
    seen: number,
    all?: number,
  ): void
  /** Each transfer that should be on chain. */
  onTransfer?(transfer: BookedTransfer): void
}

export interface BookedTransfer {
  readonly network: string
  /** Hash or signature. */
  readonly transaction: string
  readonly purchaseId: string
}

/** What the ledger check found in the store. */
export interface LedgerFindings {
  readonly purchases: number
  readonly chargedPayments: number
  readonly unresolvedPayments: number
  readonly refundDue: number
  /** Days whose payments were not read, because they were found right before. What they come to is in the other numbers. */
  readonly skippedDays: number
  /**
   * Charged payments without a purchase, purchases without a charged payment, refunded ones without a transfer back or the
   * other way round, sessions that agree with neither, and ledger entries that are missing, can't be read or say something
   * else of the fees owed, and sums that are not those of their sales. Must be empty. Of very many only the first are listed,
   * and the others counted.
   */
  readonly broken: readonly string[]
  /** Purchases whose ledger entries do not add up to zero. Must be empty. */
  readonly unbalanced: readonly string[]
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

import type { LedgerEntry } from '../../domain/ledger.ts'
import type { NetworkId } from '../../domain/network.ts'
import type { LostRefund, Purchase, Refund, UnusualStatus } from '../../domain/purchase.ts'
import { TollgateError } from '../../errors/error.ts'
import type { TransferBack } from '../chains/refundProofs.ts'

export interface PurchasePage {
  readonly purchases: readonly Purchase[]
  /** An opaque text. Null on the last page. */
  readonly nextCursor: string | null
}

/** The fields of {@link TransferBack} that do not depend on a transaction. */
export type OwedBack = Pick<TransferBack, 'network' | 'asset' | 'from' | 'to' | 'amountAtomic'>

/** Maximum sales of a store that {@link Purchases.hasSold} reads. */
export const SALES_CHECKED = 10_000

/** Reads purchases. Only `Ledger.apply` writes them. */
export interface Purchases {
  find(id: string): Promise<Purchase | undefined>
  /** The purchases of a page, newest first. */
  page(
    storeId: string,
    options: { cursor?: string; limit: number; linkId?: string; status?: UnusualStatus },
  ): Promise<PurchasePage>
  /**
   * The newest purchase of a link by a wallet that gives access to the link, because it is settled or delivered. It finds only
   * purchases of a link that has `access`.
   *
   * @param by the wallet, and the only network whose purchases count. Null for all networks
   * @param sinceMs the oldest time of the purchase, in ms since 1970
   */
  givingAccess(
    linkId: string,
    by: { readonly wallet: string; readonly network: NetworkId | null },
    sinceMs: number,
  ): Promise<string | undefined>
  /** How a purchase was refunded. Undefined if it was not refunded. */
  refundOf(purchaseId: string): Promise<Refund | undefined>
  /** Refunds of a purchase that left the chain, in the order in which they left the chain. */
  lostRefundsOf(purchaseId: string): Promise<readonly LostRefund[]>
  /** Whether exactly this transfer is owed, because it reverses the payment of a purchase that is `refund_due`. */
  isOwedBack(back: OwedBack): Promise<boolean>
  /**
   * Whether exactly this transfer reverses the payment of one of the store's newest sales that were not refunded.
   *
   * @param sinceMs start of the sales that are read, in ms since 1970
   */
  hasSold(storeId: string, back: OwedBack, sinceMs: number): Promise<boolean>
  /** Returns the transactions that belong to a purchase in any state, in the spelling that Tollgate stores. */
  soldIn(network: NetworkId, transactions: readonly string[]): Promise<ReadonlySet<string>>
  /** Every ledger entry of one purchase. */
  ledger(purchaseId: string): Promise<LedgerEntry[]>
  /**
   * Checks the whole ledger. It reads some rows at a time, so that a large ledger blocks nothing. It judges each payment, with all
   * its rows, as of one moment. Payments that are claimed during the check may be left out.
   */
  ledgerCheck(ears?: LedgerEars, options?: LedgerCheckOptions): Promise<LedgerFindings>
}

export interface LedgerCheckOptions {
  /**
   * True to skip days that an earlier check found correct, if they are older than webhook events are kept, and none of their
   * payments has changed since. The check also records each day that it finds correct. False, the default, to read everything and
   * record nothing. An implementation may ignore this option and read everything.
   */
  readonly skipsCheckedDays?: boolean
}

/** Callbacks of a running ledger check. */
export interface LedgerEars {
  /** Called with the number of rows of a kind that have been read, and their total if it is known. */
  onProgress?(
    rows: 'payments' | 'sessions' | 'entries' | 'stores' | 'months of sums',
    seen: number,
    all?: number,
  ): void
  /** Called with each transfer that should be on chain. */
  onTransfer?(transfer: BookedTransfer): void
}

export interface BookedTransfer {
  readonly network: string
  /** Hash or signature. */
  readonly transaction: string
  readonly purchaseId: string
}

/** What the ledger check found. */
export interface LedgerFindings {
  readonly purchases: number
  readonly chargedPayments: number
  readonly unresolvedPayments: number
  readonly refundDue: number
  /**
   * Number of days whose payments were not read, because an earlier check found them correct. The other numbers include these days.
   */
  readonly skippedDays: number
  /**
   * Inconsistencies, which must be empty. They are charged payments without a purchase, purchases without a charged payment,
   * refunded purchases without a refund transfer or the reverse, payment sessions that contradict payment and purchase, missing or
   * unreadable ledger entries, entries that differ from the fees owed, and rollups that differ from their sales. If there are very
   * many, the list has the first ones and a count of the others.
   */
  readonly broken: readonly string[]
  /** Purchases whose ledger entries do not add up to zero. Must be empty. */
  readonly unbalanced: readonly string[]
}

/** The cursor of the page that begins after this row. */
export const cursorAt = (createdAtMs: number, id: string): string =>
  Buffer.from(`${createdAtMs}:${id}`).toString('base64url')

/** @throws `VALIDATION_ERROR` for a cursor that {@link cursorAt} did not create */
export function readCursor(cursor: string): { atMs: number; id: string } {
  const match = /^(\d{1,15}):(.+)$/s.exec(Buffer.from(cursor, 'base64url').toString())
  if (match) return { atMs: Number(match[1]), id: match[2]! }
  throw new TollgateError(
    'VALIDATION_ERROR',
    'Expected a cursor of an earlier page. Omit it for the first page.',
  )
}

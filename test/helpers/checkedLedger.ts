import type { BookedTransfer, LedgerFindings, Purchases } from '../../core/ports/store/purchases.ts'

/** What the ledger check found, and the transfers that should be on chain. */
export interface CheckedLedger extends LedgerFindings {
  readonly transactions: readonly BookedTransfer[]
}

/** Checks the ledger, and lists its transfers for a comparison with the chain. */
export async function checkedLedger(purchases: Purchases): Promise<CheckedLedger> {
  const transactions: BookedTransfer[] = []
  const findings = await purchases.ledgerCheck({ onTransfer: (transfer) => transactions.push(transfer) })
  return { ...findings, transactions }
}

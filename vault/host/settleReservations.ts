import type { Log } from '../../core/ports/log.ts'
import type { ApprovalBook } from '../approvals/approvalBook.ts'
import type { BudgetBook } from '../ports/budget.ts'

interface SettleParts {
  readonly budget: BudgetBook
  readonly book: ApprovalBook
  readonly log: Log
}

/** Decides what became of money that was held back when the vault was closed or killed. */
export async function settleReservations(ids: readonly string[], parts: SettleParts): Promise<void> {
  for (const id of ids) await settle(id, parts)
}

async function settle(id: string, { budget, book, log }: SettleParts): Promise<void> {
  const approval = id.startsWith('apr_') ? book.get(id) : undefined
  if (approval?.state === 'pending' || approval?.state === 'approved') return
  try {
    // A question that was never written was never answered. Anything else may have left as a signature: it stays spent.
    if (id.startsWith('apr_') && approval?.state !== 'consumed') await budget.release(id)
    else budget.commit(id)
  } catch (err) {
    log.debug({ err, id }, 'decided before')
  }
}

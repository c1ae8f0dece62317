import type { VaultOperation } from '../../core/plugin/vault.ts'
import type { Log } from '../../core/ports/log.ts'
import type { ApprovalBook } from '../approvals/approvalBook.ts'
import type { BudgetBook } from '../ports/budget.ts'
import { actions } from './eventOf.ts'
import { signatureId } from './hashOf.ts'
import { markCounted } from './reserve.ts'

interface SettleParts {
  readonly budget: BudgetBook
  readonly book: ApprovalBook
  readonly log: Log
}

/** Decides what became of money that was held back when the vault was closed or killed. */
export async function settleReservations(ids: readonly string[], parts: SettleParts): Promise<void> {
  for (const id of ids) await settle(id, parts)
  for (const record of parts.book.list()) {
    const { state, reservationId, operation, agentId, frozenHash } = record
    if (state !== 'consumed' || reservationId === null || !ofSameBytes.has(operation)) continue
    // A crash came between the use of the approval and the note that its bytes are counted.
    markCounted(parts.budget, agentId, signatureId(agentId, actions[operation], frozenHash))
  }
}

/** Operations whose plan says that a repeat is the same. */
const ofSameBytes: ReadonlySet<VaultOperation> = new Set([
  'vault_sign_tx',
  'vault_sign_message',
  'vault_sign_typed_data',
])

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

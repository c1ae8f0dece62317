import type { VaultOperation } from '../../core/plugin/vault.ts'
import { visibleText } from '../../core/text/visibleText.ts'
import type { ApprovalRecord, approvalStates, Question } from '../approvals/approval.ts'
import { withoutQuoted } from '../effects/plainWords.ts'
import { isVaultError } from '../errors/error.ts'
import type { AuditAction, AuditEvent, AuditStatus } from '../ports/audit.ts'
import type { VaultCall } from './vaultCall.ts'

/** What the log calls each operation. */
export const actions: Readonly<Record<VaultOperation, AuditAction>> = {
  get_address: 'ADDRESS',
  vault_read: 'READ',
  vault_write: 'WRITE',
  vault_delete: 'DELETE',
  vault_sign_tx: 'SIGN',
  vault_sign_message: 'SIGN_MESSAGE',
  vault_sign_typed_data: 'SIGN_TYPED_DATA',
  vault_sign_x402: 'SIGN',
  vault_preview: 'SIGN',
  vault_call: 'CALL',
}

/** What an operation is called in the log. */
export const actionOf = (operation: VaultOperation): AuditAction => actions[operation]

/** The log's entry about a request: what was asked for and what became of it, never what was handed out. */
export function eventOf(x: VaultCall, status: AuditStatus): AuditEvent {
  const { plan, approval, failure } = x
  return {
    agent: x.caller.name,
    action: plan?.action ?? actions[x.operation],
    status,
    requestId: x.requestId,
    ...(plan !== null && moneyOf(plan)),
    ...(plan !== null && { scope: plan.scope }),
    ...(plan?.recipient != null && { recipient: plan.recipient }),
    ...(plan?.chain != null && { chain: plan.chain }),
    ...(approval !== null && { approvalId: approval.id, decisionHash: approval.decisionHash }),
    ...(approval?.decidedBy != null && { note: `decided by ${approval.decidedBy}` }),
    ...pluginNote(failure),
    ...(failure !== null && { code: isVaultError(failure) ? failure.code : 'INTERNAL_ERROR' }),
    ...(status === 'DENIED' && lieOf(x)),
  }
}

/** What it moves. Where not everything was understood the amount is the agent's word, and stands beside what was understood. */
function moneyOf(
  about: Pick<Question, 'amount' | 'currency' | 'isOpaque' | 'plainWords'>,
): Partial<AuditEvent> {
  const { amount, currency, isOpaque, plainWords } = about
  if (amount === null) return {}
  if (!isOpaque) return { amount, ...(currency !== null && { currency }) }
  return { claimed: visibleText(`Move ${amount} ${currency ?? ''}`.trim()), found: plainWords.join(' ') }
}

/** Refused: what was said and what was found stand side by side, so that the owner sees who lies. */
function lieOf({ claimed, found, failure }: VaultCall): Pick<AuditEvent, 'claimed' | 'found'> {
  if (claimed === null) return {}
  // Bytes that were not even decoded: the refusal says what is in them, without what it repeats of the agent's.
  const inFact = found ?? (isVaultError(failure) ? withoutQuoted(failure.message) : 'unknown')
  return { claimed: visibleText(claimed), found: visibleText(inFact) }
}

/** Which of the owner's plugins refused it or failed at it. */
function pluginNote(failure: Error | null): { note?: string } {
  const details = isVaultError(failure) ? (failure.details as { plugin?: unknown } | undefined) : undefined
  return typeof details?.plugin === 'string' ? { note: `plugin ${details.plugin}` } : {}
}

const statuses: Readonly<Record<(typeof approvalStates)[number], AuditStatus | null>> = {
  pending: 'PENDING',
  // The entry that counts is the one of the deed; see the phase perform.
  approved: null,
  consumed: null,
  denied: 'DENIED',
  expired: 'EXPIRED',
  canceled: 'CANCELED',
  failed: 'FAILED',
}

/** The log's entry about a change of an approval; null where the deed itself is written down. */
export function eventOfApproval(record: ApprovalRecord): AuditEvent | null {
  const status = statuses[record.state]
  if (status === null) return null
  return {
    agent: record.agentName,
    action: actions[record.operation],
    status,
    approvalId: record.id,
    decisionHash: record.decisionHash,
    ...moneyOf(record),
    ...(record.scope !== null && { scope: record.scope }),
    ...(record.recipient !== null && { recipient: record.recipient }),
    ...(record.chain !== null && { chain: record.chain }),
    ...(record.decidedBy !== null && { note: `decided by ${record.decidedBy}` }),
  }
}

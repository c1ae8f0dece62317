import type { VaultOperation } from '../../core/plugin/vault.ts'
import { visibleText } from '../../core/text/visibleText.ts'
import type { ApprovalRecord, approvalStates, Question } from '../approvals/approval.ts'
import { withoutQuoted } from '../effects/plainWords.ts'
import { isVaultError } from '../errors/error.ts'
import type { AuditAction, AuditEvent, AuditLog, AuditStatus } from '../ports/audit.ts'
import type { HostPlugin, VaultCall } from './vaultCall.ts'

/** Logs refused and failed requests. Completed actions and approvals already have their entries. */
export function createAuditing(audit: AuditLog): HostPlugin {
  return {
    name: 'activity',
    route: (operation) =>
      operation === 'vault_preview'
        ? undefined
        : {
            async audit(x) {
              const status = x.isLogged ? undefined : statusOf(x)
              if (status === undefined) return
              const event = eventOf(x, status)
              // A failed call may still have reached the API, so each attempt is logged. If the vault was locked meanwhile, the
              // log has only the entry from before the call.
              if (event.action === 'CALL' && status === 'FAILED')
                await audit.append(event).catch(unlessLocked)
              else await audit.appendRefusal(event)
            },
          },
  }
}

const unlessLocked = (error: unknown): void => {
  if (!isVaultError(error) || error.code !== 'VAULT_LOCKED') throw error
}

/** The log's status for a request. Undefined if its sender is not a known agent, because strangers could fill the log. */
function statusOf({ failure }: VaultCall): AuditStatus | undefined {
  if (failure === null) return undefined
  const status = isVaultError(failure) ? failure.status : 500
  if (status === 403 || status === 422) return 'DENIED'
  return status >= 500 ? 'FAILED' : undefined
}

/** The log's action for each operation. */
const actions: Readonly<Record<VaultOperation, AuditAction>> = {
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

/** The log's action for an operation. */
export const actionOf = (operation: VaultOperation): AuditAction => actions[operation]

/** The log entry of a request: what was requested and the outcome, but never the result itself. */
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

/**
 * The money that a request moves. If a part was not decoded, the amount is the agent's claim, and the entry also has what was
 * decoded.
 */
function moneyOf(
  about: Pick<Question, 'amount' | 'currency' | 'isOpaque' | 'plainWords'>,
): Partial<AuditEvent> {
  const { amount, currency, isOpaque, plainWords } = about
  if (amount === null) return {}
  if (!isOpaque) return { amount, ...(currency !== null && { currency }) }
  return { claimed: visibleText(`Move ${amount} ${currency ?? ''}`.trim()), found: plainWords.join(' ') }
}

/** For a refused request: the agent's claim and what was decoded, so that the owner sees a false claim. */
function lieOf({ claimed, found, failure }: VaultCall): Pick<AuditEvent, 'claimed' | 'found'> {
  if (claimed === null) return {}
  // The bytes could not be decoded, so the entry has the refusal's message, without the quoted text of the agent.
  const inFact = found ?? (isVaultError(failure) ? withoutQuoted(failure.message) : 'unknown')
  return { claimed: visibleText(claimed), found: visibleText(inFact) }
}

/** A note that names the owner's plugin that refused the request or failed. */
function pluginNote(failure: Error | null): { note?: string } {
  const details = isVaultError(failure) ? (failure.details as { plugin?: unknown } | undefined) : undefined
  return typeof details?.plugin === 'string' ? { note: `plugin ${details.plugin}` } : {}
}

const statuses: Readonly<Record<(typeof approvalStates)[number], AuditStatus | null>> = {
  pending: 'PENDING',
  // Null, because the performed action gets its own entry in the phase perform.
  approved: null,
  consumed: null,
  denied: 'DENIED',
  expired: 'EXPIRED',
  canceled: 'CANCELED',
  failed: 'FAILED',
}

/** The log entry for a change of an approval. Null if the action itself gets an entry. */
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

import { randomBytes } from 'node:crypto'
import type { AskedBefore, VaultResponse } from '../../../core/plugin/vault.ts'
import type { ApprovalRecord, Question } from '../../approvals/approval.ts'
import type { ApprovalBook } from '../../approvals/approvalBook.ts'
import { cutWarning, showParts, textWarnings } from '../../approvals/shownPart.ts'
import { VaultError } from '../../errors/error.ts'
import { decisionHash } from '../../policy/decisionHash.ts'
import type { Vault } from '../../ports/vault.ts'
import { purposeOf } from '../plans/signing.ts'
import { type HostPlugin, type Plan, signatureId, type VaultCall } from '../vaultCall.ts'
import { reserve } from './perform.ts'

/** Maximum pages of the log that are searched for one approval and status. Each page has a limited size. */
const MAX_PAGES = 5

/** Whether an earlier approval has reserved money for an agent's exact request. */
export const isHeld = (book: ApprovalBook, x: VaultCall): boolean => {
  const isKeyed = x.idempotencyKey !== null
  const record = book.byKey(x.key, isKeyed)
  if (record === undefined) return book.isPending(x.key)
  return (
    (record.state === 'pending' || record.state === 'approved' || record.state === 'consumed') &&
    record.reservationId !== null
  )
}

/**
 * Requests the owner's approval if the host or a plugin requires it, and waits as long as the caller does. A repeated request
 * finds its approval and its response.
 */
export function createApproving(
  vault: Vault,
  book: ApprovalBook,
  assertStillAllowed: (x: VaultCall) => void,
): HostPlugin {
  return {
    name: 'approvals',
    slots: { approve: { reads: ['request', 'verdict'], writes: ['approval'] } },
    route: (operation) => (operation === 'vault_preview' ? undefined : { approve }),
  }

  function approve(x: VaultCall): VaultResponse | undefined | Promise<VaultResponse | undefined> {
    const act = x.onceAct
    if (act !== undefined && vault.audit.hasAct(act)) {
      const response = book.byKey(x.key, true)?.response ?? null
      if (response === null)
        throw new VaultError(
          'REQUEST_ID_USED',
          'A request with this Idempotency-Key was already started, and the vault did not store its response. Use a new key to repeat the action.',
        )
      x.isLogged = true
      return response
    }
    if (x.reasons.length === 0 || x.who.kind !== 'agent') return undefined
    return ask(x)
  }

  async function ask(x: VaultCall): Promise<VaultResponse | undefined> {
    const key = x.key
    const find = () => book.byKey(key, x.idempotencyKey !== null)
    const isFirstTime = find() === undefined ? await isFirst(x.plan!) : null
    // A concurrent copy of this request may have created an approval while the log was read.
    const asked = find() ?? (await book.ask({ key, ...newApproval(x, isFirstTime) }))
    // From now on, the approval's own log entries record the outcome.
    x.isLogged = true
    if (asked.state === 'pending') x.onAsked?.({ approvalId: asked.id, expiresAtMs: asked.expiresAtMs })
    const record = asked.state === 'pending' ? await book.settled(asked.id, x.waitMs, x.signal) : asked
    switch (record.state) {
      case 'pending':
        return { status: 202, body: pendingBody(record) }
      case 'approved':
        if (record !== asked) recheck(x)
        x.approval = record
        return undefined
      case 'consumed':
        if (record.response !== null) return record.response
        throw new VaultError(
          'APPROVAL_RESOLVED',
          'Another call for the same request has already used this approval.',
        )
      case 'denied':
        throw new VaultError('APPROVAL_DENIED', 'The owner refused this request.', {
          details: { approval_id: record.id },
        })
      case 'expired':
        throw new VaultError('APPROVAL_EXPIRED', undefined, { details: { approval_id: record.id } })
      default:
        throw new VaultError('APPROVAL_RESOLVED', `The approval is ${record.state}.`, {
          details: { approval_id: record.id },
        })
    }
  }

  /**
   * Checks the request again after the approval. A refusal here needs a log entry, because the approval's entries state that
   * the request was allowed.
   */
  function recheck(x: VaultCall): void {
    try {
      assertStillAllowed(x)
    } catch (error) {
      x.isLogged = false
      throw error
    }
  }

  /** The newest approval of this agent for the same bytes, or for the same amount to the same recipient. */
  function askedBefore(x: VaultCall): AskedBefore | null {
    const { frozenHash, kind, chain, amount, currency, recipient } = x.plan!
    const before = book
      .list()
      .find(
        (one) =>
          one.agentId === x.caller.id &&
          one.kind === kind &&
          (one.frozenHash === frozenHash ||
            (amount !== null &&
              one.amount === amount &&
              one.currency === currency &&
              one.chain === chain &&
              one.recipient === recipient)),
      )
    return before === undefined ? null : { atMs: before.createdAtMs, state: before.state }
  }

  /**
   * Whether the log has no earlier signature for this recipient. Null if no recipient is named, or the log is too long to
   * search.
   */
  async function isFirst({ recipient }: Plan): Promise<boolean | null> {
    if (recipient === null) return null
    for (const status of ['APPROVED', 'AUTO_APPROVED'] as const) {
      let cursor: string | undefined
      for (let page = 0; page < MAX_PAGES; page++) {
        const found = await vault.audit.query({
          recipient,
          status,
          limit: 1,
          ...(cursor !== undefined && { cursor }),
        })
        if (found.entries.length > 0) return false
        cursor = found.cursor
        if (cursor === undefined) break
      }
      if (cursor !== undefined) return null
    }
    return true
  }

  function newApproval(x: VaultCall, isFirstTime: boolean | null) {
    const plan = x.plan!
    const drafts = plan.parts()
    const parts = showParts(drafts)
    const approval: Question = {
      agentId: x.caller.id,
      agentName: x.caller.name,
      operation: x.operation,
      kind: plan.kind,
      parts,
      scope: plan.scope,
      chain: plan.chain,
      amount: plan.amount,
      currency: plan.currency,
      recipient: plan.recipient,
      from: plan.judged?.decoded.from ?? null,
      nonce: plan.judged?.decoded.nonce?.toString() ?? null,
      askedBefore: askedBefore(x),
      isFirstTime,
      plainWords: plan.plainWords,
      warnings: [...plan.warnings, ...parts.flatMap(cutWarning), ...drafts.flatMap(textWarnings)],
      reasons: [...new Set(x.reasons)],
      isOpaque: plan.isOpaque,
      purpose: purposeOf(x),
      frozenHash: plan.frozenHash,
    }
    // The hash is salted because agents get it. Without a salt, an agent could guess the old value and check its guess with the
    // hash.
    const salt = randomBytes(16)
    return {
      approval,
      frozen: plan.frozen,
      decisionHash: (id: string) =>
        decisionHash({
          request: { vaultId: vault.vaultId, approvalId: id, salt, ...approval },
          ...(plan.judged !== undefined && { decoded: plan.judged.decoded }),
          verdict: { decision: 'ask', reasons: approval.reasons },
        }),
      // The same bytes move their money only once, so money that is already counted for them is not reserved again.
      reserve: (id: string) =>
        plan.repeat === 'same' &&
        vault.budget.isCommitted(signatureId(x.caller.id, plan.action, plan.frozenHash))
          ? null
          : reserve(vault.budget, x, id),
    }
  }
}

export const pendingBody = (record: ApprovalRecord) => ({
  status: 'pending',
  approval_id: record.id,
  expires_at: new Date(record.expiresAtMs).toISOString(),
  poll: `/v1/vault/approvals/${record.id}`,
})

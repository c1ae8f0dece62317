import { randomBytes } from 'node:crypto'
import type { AskedBefore, VaultAnswer } from '../../../core/plugin/vault.ts'
import type { ApprovalRecord, Question } from '../../approvals/approval.ts'
import type { ApprovalBook } from '../../approvals/approvalBook.ts'
import { cutWarning, showParts } from '../../approvals/shownPart.ts'
import { textWarnings } from '../../approvals/textWarnings.ts'
import { VaultError } from '../../errors/error.ts'
import { decisionHash } from '../../policy/decisionHash.ts'
import type { Vault } from '../../ports/vault.ts'
import { hashOf, signatureId } from '../hashOf.ts'
import { purposeOf } from '../operations/signing.ts'
import type { Plan } from '../plan.ts'
import { reserve } from '../reserve.ts'
import type { VaultCall } from '../vaultCall.ts'
import type { HostPlugin } from './hostPlugin.ts'

/** Pages of the log that a question is worth, each of them a bounded part of it. */
const MOST_PAGES = 5

/** Names an agent's exact request; with an Idempotency-Key, that request under that key. */
export const keyOf = (x: VaultCall): string =>
  hashOf('approval', x.caller.id, x.operation, x.plan!.requestHash, x.idempotencyKey)

/**
 * What the log calls a deed that is never done twice under its key; undefined without a key, and for any other deed. A write that is
 * repeated later would undo what was stored since. Payments are known by the budget, and the same bytes harm nobody.
 */
export const onceActOf = (x: VaultCall): string | undefined =>
  (x.plan!.repeat === 'once' || x.plan!.verb === 'write') && x.idempotencyKey !== null
    ? `key_${keyOf(x)}`
    : undefined

/** Whether money is held back for an agent's exact request, by the question that it led to. */
export const isHeld = (book: ApprovalBook, x: VaultCall): boolean => {
  const isKeyed = x.idempotencyKey !== null
  const record = book.byKey(keyOf(x), isKeyed)
  if (record === undefined) return book.isBeingAsked(keyOf(x))
  return (
    (record.state === 'pending' || record.state === 'approved' || record.state === 'consumed') &&
    record.reservationId !== null
  )
}

/**
 * Asks the owner where anything wants it, and waits as long as the caller does. The same request again finds its question,
 * and its answer.
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

  function approve(x: VaultCall): VaultAnswer | undefined | Promise<VaultAnswer | undefined> {
    const act = onceActOf(x)
    if (act !== undefined && vault.audit.hasAct(act)) {
      const answer = book.byKey(keyOf(x), true)?.answer ?? null
      if (answer === null)
        throw new VaultError(
          'REQUEST_ID_USED',
          'This was begun under the same Idempotency-Key before, and its answer is not kept. Use a new key to do it again.',
        )
      x.isLogged = true
      return answer
    }
    if (x.reasons.length === 0 || x.who.kind !== 'agent') return undefined
    return ask(x)
  }

  async function ask(x: VaultCall): Promise<VaultAnswer | undefined> {
    const key = keyOf(x)
    const find = () => book.byKey(key, x.idempotencyKey !== null)
    const isFirstTime = find() === undefined ? await isFirst(x.plan!) : null
    // The same request may have been asked while the log was read.
    const asked = find() ?? (await book.ask({ key, ...newQuestion(x, isFirstTime) }))
    // From here on the approval's own entries in the log tell what became of it.
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
        if (record.answer !== null) return record.answer
        throw new VaultError(
          'APPROVAL_RESOLVED',
          'This approval was used by another call for the same request.',
        )
      case 'denied':
        throw new VaultError('APPROVAL_DENIED', 'The owner refused this.', {
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

  /** Refused now, it has an entry of its own: the approval's say that it was allowed. */
  function recheck(x: VaultCall): void {
    try {
      assertStillAllowed(x)
    } catch (error) {
      x.isLogged = false
      throw error
    }
  }

  /** The newest question of this agent for the same: the same bytes, or the same sum for the same recipient. */
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

  /** Whether the log has nothing that was signed for this recipient; null where none is named or the log is too long for a look. */
  async function isFirst({ recipient }: Plan): Promise<boolean | null> {
    if (recipient === null) return null
    for (const status of ['APPROVED', 'AUTO_APPROVED'] as const) {
      let cursor: string | undefined
      for (let page = 0; page < MOST_PAGES; page++) {
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

  function newQuestion(x: VaultCall, isFirstTime: boolean | null) {
    const plan = x.plan!
    const drafts = plan.parts()
    const parts = showParts(drafts)
    const question: Question = {
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
    // Agents get the hash: without a secret of its own they could try out by it which old value it was made of.
    const salt = randomBytes(16)
    return {
      question,
      frozen: plan.frozen,
      decisionHash: (id: string) =>
        decisionHash({
          request: { vaultId: vault.vaultId, approvalId: id, salt, ...question },
          ...(plan.judged !== undefined && { decoded: plan.judged.decoded }),
          verdict: { decision: 'ask', reasons: question.reasons },
        }),
      // The same bytes move their money once: what was counted for them is not held back again.
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

import type { ApprovalRequest } from '../../../core/plugin/vault.ts'
import type { Log } from '../../../core/ports/log.ts'
import {
  type ApprovalRecord,
  type ApprovalState,
  secondWordOf,
  type Viewer,
  viewApproval,
} from '../../approvals/approval.ts'
import type { ApprovalBook } from '../../approvals/approvalBook.ts'
import { VaultError } from '../../errors/error.ts'
import type { Vault } from '../../ports/vault.ts'
import type { HostApprovalQueue } from '../../sandbox/portServer.ts'
import type { Bus } from '../bus.ts'
import { type Caller, callerId, callerName, type Gate, type OwnerContext } from '../caller.ts'
import { assertMayApprove } from './pageLimits.ts'

const MAX_SHOWN = 500

/** Operations on approvals. Agents read and cancel their own, and the owner decides. */
export function createApprovalsApi(gate: Gate, book: ApprovalBook) {
  /** Returns the approval if this caller may see it. */
  function own(id: string, context: OwnerContext): ApprovalRecord {
    const caller = gate.known(context)
    const record = book.get(id)
    const isOurs = caller.kind === 'owner' || record?.agentId === callerId(caller)
    if (record === undefined || !isOurs) throw new VaultError('NOT_FOUND', 'No approval has this id.')
    return record
  }

  return {
    list(context: OwnerContext, { status }: { readonly status?: ApprovalState } = {}) {
      const caller = gate.known(context)
      const id = callerId(caller)
      const all = book.list().filter((record) => caller.kind === 'owner' || record.agentId === id)
      const wanted = status === undefined ? all : all.filter((record) => record.state === status)
      // The owner gets all open approvals, because the oldest ones expire next. Of the others, only the newest are listed.
      const isShown = ({ state }: ApprovalRecord, at: number) =>
        at < MAX_SHOWN || (caller.kind === 'owner' && state === 'pending')
      const views = wanted.filter(isShown).map((record) => viewApproval(record, viewerOf(caller)))
      // An agent gets no parts, because it already knows what it sent, and the response has to fit through a relay.
      return { approvals: caller.kind === 'owner' ? views : views.map((view) => ({ ...view, parts: [] })) }
    },
    get: (id: string, context: OwnerContext) => viewApproval(own(id, context), viewer(context)),
    /** @param secondWord what the owner typed, where the approval's `second_word` requires it */
    async approve(id: string, decisionHash: unknown, context: OwnerContext, secondWord?: unknown) {
      gate.open(context)
      if (typeof decisionHash !== 'string' || decisionHash === '')
        throw new VaultError(
          'VALIDATION_ERROR',
          'decision_hash: Expected the hash of the approval as it was shown.',
        )
      assertMayApprove(context, book.get(id))
      return viewApproval(await book.approve(id, decisionHash, 'owner', secondWord), viewer(context))
    },
    async deny(id: string, context: OwnerContext) {
      gate.open(context)
      return viewApproval(await book.deny(id, 'owner'), viewer(context))
    },
    /** Cancels an approval, for the agent that sent the request and for the owner. */
    async cancel(id: string, context: OwnerContext) {
      own(id, context)
      return viewApproval(await book.cancel(id, callerName(context.caller)), viewer(context))
    },
  }
}

/** The role in which a caller views an approval. */
export const viewerOf = ({ kind, via }: Caller): Viewer =>
  kind !== 'owner' ? 'agent' : via === 'socket' ? 'owner' : 'page'

const viewer = ({ caller }: OwnerContext): Viewer => viewerOf(caller)

/** Open approvals and the owner's decisions on them, for the approval channels that the owner configured. */
export function createApprovalQueue(vault: Vault, book: ApprovalBook, bus: Bus, log: Log): HostApprovalQueue {
  return {
    all: () => book.list().map(approvalOf),
    open: () =>
      book
        .list()
        .filter(({ state }) => state === 'pending')
        .map(approvalOf),
    get(id) {
      const record = book.get(id)
      return record && approvalOf(record)
    },
    watch: (listener) =>
      book.watch((record) => {
        try {
          listener(approvalOf(record))
        } catch (err) {
          // If a channel throws, the change itself must still succeed.
          log.error({ err, approval: record.id }, 'an approval channel failed')
        }
      }),
    async approve(id, hash, by, secondWord) {
      vault.assertUnlocked()
      await book.approve(id, hash, by, secondWord)
    },
    async deny(id, by) {
      vault.assertUnlocked()
      await book.deny(id, by)
    },
    isLocked: () => vault.state.locked,
    watchLock: (listener) =>
      bus.watch(({ type }) => {
        if (type === 'locked' || type === 'unlocked') listener(type === 'locked')
      }),
  }
}

function approvalOf(record: ApprovalRecord): ApprovalRequest {
  return {
    id: record.id,
    agent: record.agentName,
    operation: record.operation,
    kind: record.kind,
    parts: record.parts.map(({ title, by, isRaw, text, format, bytes, sha256, isWhole, isSecret }) => ({
      title,
      by,
      isRaw,
      // A secret is left out, because secrets are shown only on the owner's machine, and a channel may send its text anywhere.
      text: isSecret ? '' : text,
      format,
      bytes,
      sha256,
      isWhole: isWhole && !isSecret,
    })),
    secondWord: secondWordOf(record),
    state: record.state,
    scope: record.scope,
    chain: record.chain,
    amount: record.amount,
    currency: record.currency,
    recipient: record.recipient,
    from: record.from,
    nonce: record.nonce,
    askedBefore: record.askedBefore,
    isFirstTime: record.isFirstTime,
    plainWords: record.plainWords,
    warnings: record.warnings,
    reasons: record.reasons,
    isOpaque: record.isOpaque,
    purpose: record.purpose,
    decisionHash: record.decisionHash,
    expiresAtMs: record.expiresAtMs,
    decidedBy: record.decidedBy,
  }
}

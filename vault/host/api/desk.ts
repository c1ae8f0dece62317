import type { ApprovalDesk, ApprovalQuestion } from '../../../core/plugin/vault.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { ApprovalRecord } from '../../approvals/approval.ts'
import type { ApprovalBook } from '../../approvals/approvalBook.ts'
import { secondWordOf } from '../../approvals/secondWord.ts'
import type { Vault } from '../../ports/vault.ts'
import type { Bus } from '../bus.ts'

export interface HostDesk extends Omit<ApprovalDesk, 'trouble'> {
  /** Every question that the vault still has; none while it is locked. */
  all(): readonly ApprovalQuestion[]
}

/** For approval channels, which the owner configured: questions, and the owner's answers to them. */
export function createDesk(vault: Vault, book: ApprovalBook, bus: Bus, log: Log): HostDesk {
  return {
    all: () => book.list().map(questionOf),
    open: () =>
      book
        .list()
        .filter(({ state }) => state === 'pending')
        .map(questionOf),
    get(id) {
      const record = book.get(id)
      return record && questionOf(record)
    },
    watch: (listener) =>
      book.watch((record) => {
        try {
          listener(questionOf(record))
        } catch (err) {
          // A channel's mistake must not fail the change that it was told about.
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

function questionOf(record: ApprovalRecord): ApprovalQuestion {
  return {
    id: record.id,
    agent: record.agentName,
    operation: record.operation,
    kind: record.kind,
    parts: record.parts.map(({ title, by, isRaw, text, format, bytes, sha256, isWhole, isSecret }) => ({
      title,
      by,
      isRaw,
      // What is kept as a secret is shown on the owner's machine only: a channel may lead anywhere.
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

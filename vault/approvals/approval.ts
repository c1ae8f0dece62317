import type { ApprovalKind, AskedBefore, VaultOperation, VaultResponse } from '../../core/plugin/vault.ts'
import { namesSecrets } from '../agents/grant.ts'
import { VaultError } from '../errors/error.ts'
import type { ShownPart } from './shownPart.ts'

export const approvalStates = [
  'pending',
  'approved',
  'consumed',
  'denied',
  'expired',
  'canceled',
  'failed',
] as const
/**
 * The states of an approval. A pending approval becomes approved, denied, expired or canceled. An approved one becomes
 * consumed, failed, expired or canceled. The others are final.
 */
export type ApprovalState = (typeof approvalStates)[number]

/** What an approval shows the owner, who decides about it. The agent's texts are quoted and have no invisible characters. */
export interface Question {
  readonly agentId: string
  readonly agentName: string
  readonly operation: VaultOperation
  readonly kind: ApprovalKind
  /** Everything that is signed, sent or stored. */
  readonly parts: readonly ShownPart[]
  readonly scope: string | null
  readonly chain: string | null
  /** The amount as exact decimal text. */
  readonly amount: string | null
  readonly currency: string | null
  readonly recipient: string | null
  /** The account that signs and pays. Null where nothing is signed. */
  readonly from: string | null
  /** The transaction's nonce in decimal digits. Null if nothing with a nonce is signed. */
  readonly nonce: string | null
  readonly askedBefore: AskedBefore | null
  /** True where the log has no earlier signature for this recipient. Null where the vault cannot tell. */
  readonly isFirstTime: boolean | null
  /** What would happen, one sentence per effect. */
  readonly plainWords: readonly string[]
  readonly warnings: readonly string[]
  /** Why the owner's approval is needed. */
  readonly reasons: readonly string[]
  readonly isOpaque: boolean
  /** The purpose that the agent stated, in its own words. Null when it stated none. */
  readonly purpose: string | null
  /**
   * SHA-256 in hex of the bytes that will be signed. Where nothing is signed, it is the hash of the request's canonical form.
   */
  readonly frozenHash: string
}

export interface ApprovalRecord extends Question {
  readonly id: string
  readonly state: ApprovalState
  /** Identifies the agent and its exact request, so that a repeated request finds this approval. */
  readonly key: string
  readonly decisionHash: string
  /** The data with which the operation does exactly what the owner saw. */
  readonly frozen: unknown
  /** Id of the budget's reservation. Null if no money was reserved. */
  readonly reservationId: string | null
  readonly createdAtMs: number
  /** The deadline for the decision and, once approved, for using the approval. */
  readonly expiresAtMs: number
  readonly decidedAtMs: number | null
  readonly decidedBy: string | null
  /** The response, which the same request gets again. Null where returning it twice would do harm. */
  readonly response: VaultResponse | null
}

/** One part that is signed, sent or stored, as the API returns it. */
export interface PartView {
  readonly title: string
  /** Who wrote the text: `agent`, `seller`, or `vault` for stored values. */
  readonly by: ShownPart['by']
  /** True for the encoded form of a part whose effects are already stated in words. */
  readonly raw: boolean
  readonly text: string
  readonly format: ShownPart['format']
  readonly bytes: number
  readonly sha256: string
  /** False where `text` is incomplete. */
  readonly whole: boolean
  /** True for text that is, or will be, stored as a secret. */
  readonly secret: boolean
}

/** An approval as the API returns it. */
export interface ApprovalView {
  readonly id: string
  readonly status: ApprovalState
  readonly agent: string
  readonly operation: VaultOperation
  readonly kind: ApprovalKind
  readonly parts: readonly PartView[]
  /** The word that the owner types in addition to the hash to approve. Null where a click is enough. */
  readonly second_word: string | null
  /** The terminal command for approving, if a page session cannot approve. Otherwise null. */
  readonly approve_command: string | null
  readonly scope: string | null
  readonly chain: string | null
  readonly amount: string | null
  readonly currency: string | null
  readonly recipient: string | null
  readonly from: string | null
  readonly nonce: string | null
  readonly asked_before: { readonly at: string; readonly status: ApprovalState } | null
  readonly first_time: boolean | null
  readonly effects: readonly string[]
  readonly warnings: readonly string[]
  readonly reasons: readonly string[]
  readonly opaque: boolean
  readonly purpose: string | null
  readonly decision_hash: string
  readonly created_at: string
  readonly expires_at: string
  readonly decided_at: string | null
  readonly decided_by: string | null
}

/** True if approving gives the agent the secret itself, which the owner cannot undo. */
export const handsOutSecret = ({ operation, scope }: Question): boolean =>
  operation === 'vault_read' && scope !== null && namesSecrets(scope)

export const approveCommand = ({ id }: ApprovalRecord): string => `tollgate vault approve ${id}`

/** Who views an approval: the owner on the vault's socket, the owner in a page session, or the agent that sent the request. */
export type Viewer = 'owner' | 'page' | 'agent'

/** @param who an agent gets only the parts that it sent itself, and a page session gets no stored credential */
export const viewApproval = (record: ApprovalRecord, who: Viewer = 'owner'): ApprovalView => ({
  id: record.id,
  status: record.state,
  agent: record.agentName,
  operation: record.operation,
  kind: record.kind,
  parts: record.parts.filter((part) => isShownTo(who, record, part)).map(viewPart),
  second_word: who === 'agent' ? null : secondWordOf(record),
  approve_command:
    who === 'page' && record.state === 'pending' && handsOutSecret(record) ? approveCommand(record) : null,
  scope: record.scope,
  chain: record.chain,
  amount: record.amount,
  currency: record.currency,
  recipient: record.recipient,
  from: record.from,
  nonce: record.nonce,
  asked_before:
    record.askedBefore === null
      ? null
      : { at: new Date(record.askedBefore.atMs).toISOString(), status: record.askedBefore.state },
  // An agent must not learn about payments of other agents.
  first_time: who === 'agent' ? null : record.isFirstTime,
  effects: record.plainWords,
  warnings: record.warnings,
  reasons: record.reasons,
  opaque: record.isOpaque,
  purpose: record.purpose,
  decision_hash: record.decisionHash,
  created_at: new Date(record.createdAtMs).toISOString(),
  expires_at: new Date(record.expiresAtMs).toISOString(),
  decided_at: record.decidedAtMs === null ? null : new Date(record.decidedAtMs).toISOString(),
  decided_by: record.decidedBy,
})

const isShownTo = (who: Viewer, { scope }: ApprovalRecord, { by }: ShownPart): boolean =>
  by !== 'vault' || who === 'owner' || (who === 'page' && scope?.startsWith('credentials.') !== true)

const viewPart = ({
  title,
  by,
  isRaw,
  text,
  format,
  bytes,
  sha256,
  isWhole,
  isSecret,
}: ShownPart): PartView => ({
  title,
  by,
  raw: isRaw,
  text,
  format,
  bytes,
  sha256,
  whole: isWhole,
  secret: isSecret,
})

/** The fields of an approval that decide whether a second word is needed. */
interface Asked {
  readonly state: string
  readonly isOpaque: boolean
  readonly parts: readonly ShownPart[]
}

/**
 * The word that the owner types where a click must not approve. `blind`: the vault could not decode everything. `unread`: a
 * part cannot be shown in full. Null where a click is enough, or the approval is not pending.
 */
export function secondWordOf({ state, isOpaque, parts }: Asked): string | null {
  if (state !== 'pending') return null
  if (isOpaque) return 'blind'
  return parts.every(({ isWhole }) => isWhole) ? null : 'unread'
}

/** @throws `VALIDATION_ERROR` if the required second word is missing */
export function assertSecondWord(record: Asked, given: unknown): void {
  const word = secondWordOf(record)
  if (word === null || given === word) return
  const why =
    word === 'blind'
      ? 'the vault could not decode the whole request'
      : 'the vault cannot show in full what the request signs, sends or stores'
  throw new VaultError(
    'VALIDATION_ERROR',
    `second_word: Expected "${word}", typed by the owner, because ${why}. Nothing was decided.`,
    { details: [{ path: 'second_word', message: `Expected "${word}".` }] },
  )
}

/**
 * Whether a repeated request gets this approval instead of a new one. Before the deadline, it gets a pending, approved or
 * denied approval, or a consumed approval with a stored response. An agent that returns thus gets the outcome and not a second
 * approval. With an Idempotency-Key (`isKeyed`), a denied, expired or canceled approval is final.
 *
 * @param isOver whether the deadline has passed
 * @returns undefined if the owner's approval is needed again
 */
export function joined(
  record: ApprovalRecord,
  isOver: boolean,
  isKeyed: boolean,
): ApprovalRecord | undefined {
  switch (record.state) {
    case 'pending':
    case 'approved':
      if (!isOver) return record
      return isKeyed ? { ...record, state: 'expired' } : undefined
    case 'consumed':
      return record.response !== null && !isOver ? record : undefined
    case 'denied':
      return isKeyed || !isOver ? record : undefined
    case 'expired':
    case 'canceled':
      return isKeyed ? record : undefined
    case 'failed':
      return undefined
  }
}

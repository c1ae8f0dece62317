import type { AskedBefore, QuestionKind, VaultAnswer, VaultOperation } from '../../core/plugin/vault.ts'
import { namesSecrets } from '../storage/records/scopes.ts'
import { secondWordOf } from './secondWord.ts'
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
/** pending → approved → consumed or failed; pending → denied, expired or canceled; approved → expired or canceled. */
export type ApprovalState = (typeof approvalStates)[number]

/** What the owner is shown and decides about. Text that comes from the agent is quoted and printable. */
export interface Question {
  readonly agentId: string
  readonly agentName: string
  readonly operation: VaultOperation
  readonly kind: QuestionKind
  /** Everything that is signed, sent or stored. */
  readonly parts: readonly ShownPart[]
  readonly scope: string | null
  readonly chain: string | null
  /** Exact decimal text. */
  readonly amount: string | null
  readonly currency: string | null
  readonly recipient: string | null
  /** The account that signs, and pays; null where nothing is signed. */
  readonly from: string | null
  /** Decimal digits; null for what is no transaction with a nonce. */
  readonly nonce: string | null
  readonly askedBefore: AskedBefore | null
  /** True where the log has nothing that was signed for this recipient; null where that is not known. */
  readonly isFirstTime: boolean | null
  /** What would happen, one sentence each. */
  readonly plainWords: readonly string[]
  readonly warnings: readonly string[]
  /** Why the owner is asked. */
  readonly reasons: readonly string[]
  readonly isOpaque: boolean
  /** Why the agent wants it, in its own words; null when it does not say. */
  readonly purpose: string | null
  /** SHA-256 of the frozen request, hex: the bytes that will be signed, or the canonical form of anything else. */
  readonly frozenHash: string
}

export interface ApprovalRecord extends Question {
  readonly id: string
  readonly state: ApprovalState
  /** Names the agent and its exact request: the same request again finds this approval by it. */
  readonly key: string
  readonly decisionHash: string
  /** What is needed to do exactly what was shown; made by the operation. */
  readonly frozen: unknown
  /** Set when money is held back for it. */
  readonly reservationId: string | null
  readonly createdAtMs: number
  /** Until then it can be decided; once approved, until then it can be used. */
  readonly expiresAtMs: number
  readonly decidedAtMs: number | null
  readonly decidedBy: string | null
  /** Given again to the same request; null where giving it twice would do harm. */
  readonly answer: VaultAnswer | null
}

/** Something that is signed, sent or stored, as the API shows it. */
export interface PartView {
  readonly title: string
  /** Whose text it is: `agent`, `seller`, or `vault` for what is stored. */
  readonly by: ShownPart['by']
  /** True for the raw form of what the effects say in words. */
  readonly raw: boolean
  readonly text: string
  readonly format: ShownPart['format']
  readonly bytes: number
  readonly sha256: string
  /** False where `text` is not all of it. */
  readonly whole: boolean
  /** True for what is kept, or will be kept, as a secret. */
  readonly secret: boolean
}

/** An approval as the API shows it. */
export interface ApprovalView {
  readonly id: string
  readonly status: ApprovalState
  readonly agent: string
  readonly operation: VaultOperation
  readonly kind: QuestionKind
  readonly parts: readonly PartView[]
  /** What has to be typed beside the hash to approve it; null where a click is enough. */
  readonly second_word: string | null
  /** How the owner approves it in a terminal, where a page's session can't; null elsewhere. */
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

/** Whether to approve it is to give an agent a secret itself, which nothing takes back. */
export const handsOutSecret = ({ operation, scope }: Question): boolean =>
  operation === 'vault_read' && scope !== null && namesSecrets(scope)

export const approveCommand = ({ id }: ApprovalRecord): string => `tollgate vault approve ${id}`

/** Who looks at an approval: the owner on the vault's socket or in a page's session, or the agent that asked. */
export type Viewer = 'owner' | 'page' | 'agent'

/** @param who an agent gets of the parts only what it sent itself, and a page no credential that is stored */
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
  // Whom other agents paid is no affair of this one.
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

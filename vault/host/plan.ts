import type { QuestionKind, RequestView, VaultAnswer } from '../../core/plugin/vault.ts'
import type { GrantVerb } from '../agents/grant.ts'
import type { PartDraft } from '../approvals/shownPart.ts'
import type { Decoded } from '../effects/decoded.ts'
import type { ClaimProof } from '../effects/proveClaim.ts'
import type { AuditAction } from '../ports/audit.ts'
import type { Spend } from '../ports/budget.ts'

/** Exactly what one request would do: everything that is shown, counted and done. Made once, then only read. */
export interface Plan {
  readonly action: AuditAction
  readonly kind: QuestionKind
  /** What is signed, sent or stored, whole. Called when the owner is asked. */
  readonly parts: () => readonly PartDraft[]
  /** The scope and the verb that a grant has to cover. */
  readonly scope: string
  readonly verb: GrantVerb
  readonly chain: string | null
  /** Exact decimal text, and the symbol it is counted in; both null where no money is named. */
  readonly amount: string | null
  readonly currency: string | null
  readonly recipient: string | null
  readonly plainWords: readonly string[]
  readonly warnings: readonly string[]
  readonly isOpaque: boolean
  /** The decoded request for plugins; null where nothing is signed. */
  readonly view: RequestView | null
  /** SHA-256 over what is asked for, hex: by it the same request again is known. */
  readonly requestHash: string
  /** SHA-256 over what will be done, hex: the frozen bytes, or the canonical form of anything else. */
  readonly frozenHash: string
  /** Kept with an approval where the request alone does not say what will be done. JSON. */
  readonly frozen: unknown
  /** What budgets count; empty where nothing is spent. */
  readonly spends: readonly Spend[]
  /** What the owner's rules judge; absent where nothing is signed. */
  readonly judged?: { readonly decoded: Decoded; readonly proof: ClaimProof | null }
  /** Why the owner has to be asked, as far as the operation itself knows. */
  readonly reasons: readonly string[]
  /**
   * `same`: a repeat gives the same and harms nobody, so an approved answer is kept for the same request. `new`: a repeat
   * is a new request. `once`: must never be done twice, so it counts as done before it is begun.
   */
  readonly repeat: 'same' | 'new' | 'once'
  /** Refuses what no answer of the owner could allow; called when the grants allow it, before anybody is asked. */
  readonly check?: () => void
  /** Does it, when everything above was granted. `attempt` is new with every call. */
  readonly act: (attempt: string) => Promise<VaultAnswer>
}

/** A plan of something that moves no money; the rest is given. */
export const withoutMoney = {
  kind: 'read',
  parts: () => [],
  chain: null,
  amount: null,
  currency: null,
  recipient: null,
  warnings: [],
  isOpaque: false,
  view: null,
  frozen: null,
  spends: [],
  reasons: [],
} as const satisfies Partial<Plan>

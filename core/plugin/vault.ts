import type { Clock } from '../ports/clock.ts'
import type { Egress } from '../ports/egress.ts'
import type { Log } from '../ports/log.ts'
import type { Infer, OptionsSchema } from './options.ts'

/**
 * The phases of a request to the vault. Who asks, and may they; what does it do, and do the rules allow it; does the
 * owner have to be asked; do it; write it down. `audit` runs whatever became of the request, before its answer leaves.
 */
export const vaultPhases = ['identify', 'authorize', 'approve', 'perform', 'audit'] as const
export type VaultPhase = (typeof vaultPhases)[number]

/** What can be asked of the vault, by the names of its capabilities document. */
export const vaultOperations = [
  'get_address',
  'vault_read',
  'vault_write',
  'vault_delete',
  'vault_sign_tx',
  'vault_sign_message',
  'vault_sign_typed_data',
  'vault_sign_x402',
  'vault_preview',
  'vault_call',
] as const
export type VaultOperation = (typeof vaultOperations)[number]

/** Who asks. Names come from the owner who registered the agent, never from the request. */
export interface VaultCaller {
  readonly kind: 'agent' | 'owner'
  readonly id: string
  readonly name: string
}

/** What the request does when it is granted, as far as the vault could tell from the bytes. Frozen. */
export interface RequestView {
  readonly kind: 'transaction' | 'typed-data' | 'message' | 'payment'
  readonly chain: string
  /** The account that would sign. */
  readonly from: string
  readonly effects: readonly Readonly<{ kind: string }>[]
  readonly warnings: readonly string[]
  /** True when any part was not understood: no rule may approve it. */
  readonly isOpaque: boolean
  /** One sentence an effect, safe to show anywhere. */
  readonly plainWords: readonly string[]
}

/** What a phase leaves for later ones; the order check knows who reads and who writes which. */
export type VaultSlot = 'caller' | 'request' | 'verdict' | 'approval' | 'answer'

/** What the vault makes of a request so far. A plugin can only make it stricter. */
export interface VerdictView {
  /** `ask`: the owner will be asked, unless something refuses it before. */
  readonly decision: 'allow' | 'ask'
  /** Why the owner is asked. */
  readonly reasons: readonly string[]
}

/** One request as plugins see it: plain data, frozen all the way down. Whole numbers beyond JSON's are texts. */
export interface VaultExchange {
  readonly operation: VaultOperation
  readonly requestId: string
  readonly caller: VaultCaller
  /** The way it came. */
  readonly via: 'direct' | 'socket' | 'relay' | 'mcp'
  /** The request's fields, without the value of a write. Text in it is an agent's: never markup, never a command. */
  readonly input: Readonly<Record<string, unknown>>
  readonly startedAtMs: number
  /** The exact scope that is asked for, such as `wallet.solana`. */
  readonly scope: string | null
  /** Null where nothing is signed, and before the request was read. */
  readonly request: RequestView | null
  readonly verdict: VerdictView
  /** What failed, in the phase `audit`; null before, and when nothing did. */
  readonly failure: { readonly code: string; readonly message: string } | null
}

/**
 * What a plugin says about a request. There is no way to allow what something else refuses.
 *
 * - `allow`, or nothing: it has nothing against it; the request goes on as it was.
 * - `ask`: the owner is asked, whatever the rules say. In the phases identify and authorize.
 * - `deny`: the request ends with 403 `APPROVAL_DENIED`; the code (`A-Z`, `0-9`, `_`) and the message reach the agent.
 */
export type VaultDecision =
  | { readonly decision: 'allow' }
  | { readonly decision: 'ask'; readonly reason: string }
  | { readonly decision: 'deny'; readonly code: string; readonly message: string }

/** An answer that ends a request. The host writes it as JSON, or hands it to whoever asked in the same process. */
export interface VaultAnswer {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

/**
 * One plugin's part in one phase: what it says about the request, now or later. What it throws, and what is no decision,
 * refuses the request; so does being late. In the phase audit nobody waits for it, and its answer counts for nothing.
 */
export type VaultHook = (
  x: VaultExchange,
) => VaultDecision | undefined | void | Promise<VaultDecision | undefined | void>

export type VaultHooks = { readonly [P in VaultPhase]?: VaultHook }

/** What a question is about. An allowance is never a payment; `transaction` is what is none of the others. */
export const questionKinds = [
  'transfer',
  'allowance',
  'payment',
  'transaction',
  'sign_in',
  'message',
  'typed_data',
  'read',
  'write',
  'delete',
  'call',
] as const
export type QuestionKind = (typeof questionKinds)[number]

/** Something that is signed, sent or stored, for showing it whole. */
export interface QuestionPart {
  readonly title: string
  /** Whose text it is; to be shown beside it. `vault`: it is stored in the vault. */
  readonly by: 'agent' | 'seller' | 'vault'
  /** True for the raw form of what the question says in words: it may be folded, and stand last. */
  readonly isRaw: boolean
  /** Safe to show as text: what has no look is written as `\\u202e`; line breaks stay. */
  readonly text: string
  readonly format: 'text' | 'json' | 'hex'
  /** Of the exact original. */
  readonly bytes: number
  /** Of the exact original, hex. */
  readonly sha256: string
  /** False where `text` is not all of it: too long, a stored value that stays in the vault, or decided long ago. */
  readonly isWhole: boolean
}

/** A question to the owner, as an approval channel shows it. Everything in it is plain text. */
export interface ApprovalQuestion {
  readonly id: string
  readonly kind: QuestionKind
  /** All that is signed, sent or stored, in the order it is to be read. A channel gets no stored values. */
  readonly parts: readonly QuestionPart[]
  /** The word that the owner has to type beside the hash to approve; null where a click is enough. */
  readonly secondWord: string | null
  readonly agent: string
  readonly operation: VaultOperation
  readonly state: QuestionState
  readonly scope: string | null
  readonly chain: string | null
  /** Exact decimal text. */
  readonly amount: string | null
  readonly currency: string | null
  readonly recipient: string | null
  /** The account that signs, and pays; null where nothing is signed. */
  readonly from: string | null
  /** The transaction's nonce in decimal digits; null where it has none. */
  readonly nonce: string | null
  /** When this agent asked for the same last, and what became of that; null when it never did. */
  readonly askedBefore: AskedBefore | null
  /** True where the log knows of nothing that was signed for this recipient; null where that is not known. */
  readonly isFirstTime: boolean | null
  /** What would happen, one sentence each: the vault's own words, without texts of agents or sellers. */
  readonly plainWords: readonly string[]
  readonly warnings: readonly string[]
  /** Why the owner is asked. */
  readonly reasons: readonly string[]
  /** True when any part of it was not understood. */
  readonly isOpaque: boolean
  /** Why the agent wants it, in its own words; null when it does not say. */
  readonly purpose: string | null
  /** Binds an answer to what was shown: hex, to be handed back unchanged. */
  readonly decisionHash: string
  readonly expiresAtMs: number
  /** Who answered: `owner`, or what an approval channel said; null while nobody did. */
  readonly decidedBy: string | null
}

/** An earlier question of the same agent for the same thing. */
export interface AskedBefore {
  readonly atMs: number
  readonly state: QuestionState
}

/** `pending` can be answered; `approved` was, and waits for its agent; the others are its ends. */
export type QuestionState = 'pending' | 'approved' | 'consumed' | 'denied' | 'expired' | 'canceled' | 'failed'

/** How an approval channel hears of questions and hands the owner's answers back. */
export interface ApprovalDesk {
  /** Questions that are open now; none while the vault is locked. */
  open(): readonly ApprovalQuestion[]
  /** Any question that the vault still has; none while it is locked. */
  get(id: string): ApprovalQuestion | undefined
  /** Called with each new question and each change of one. Returns how to stop listening. */
  watch(listener: (question: ApprovalQuestion) => void): () => void
  /**
   * @param by who answered, for the log
   * @param secondWord what the owner typed, where the question wants it; without it the code is `VALIDATION_ERROR`
   * @throws an error with code `APPROVAL_RESOLVED` when it is no longer open, or the hash is another; `APPROVAL_EXPIRED`,
   *         `NOT_FOUND`, `VAULT_LOCKED`
   */
  approve(id: string, decisionHash: string, by: string, secondWord?: string): Promise<void>
  /** @throws as `approve` does */
  deny(id: string, by: string): Promise<void>
  /**
   * Says that this channel can't ask now, and why; null when it can again. The owner finds it among the warnings of the status.
   */
  trouble(problem: string | null): void
  /** Locked, nothing is open and nothing can be answered. */
  isLocked(): boolean
  /** Called with true after each lock, with false after each unlock. Returns how to stop listening. */
  watchLock(listener: (isLocked: boolean) => void): () => void
}

/** A plugin's own memory in the vault's encrypted records: one value, which outlives the process. */
export interface PluginStore {
  /** What was written last, or undefined. @throws an error with code `VAULT_LOCKED` */
  read(): unknown
  /** On disk when fulfilled. Plain JSON of at most 64 KiB. @throws an error with code `VAULT_LOCKED` */
  write(value: unknown): Promise<void>
}

/**
 * Everything that a vault plugin may ask for in `needs`. There is no port to keys, values or the signing process. `approvals`
 * is given to built-in plugins, and to those that the owner's configuration names with `mayAnswer: true`.
 */
export interface VaultPorts {
  clock: Clock
  log: Log
  /** The way out: public addresses, and the ranges that the owner's configuration allows plugins. */
  egress: Pick<Egress, 'request'>
  approvals: ApprovalDesk
  store: PluginStore
}
export type VaultPortName = keyof VaultPorts

export interface VaultPluginInstance {
  /** Called once per operation. Undefined: nothing to do for it, and not in its program. */
  route(operation: VaultOperation): VaultHooks | undefined
  /** Called when the vault begins to serve. */
  start?(): void
  close?(): void | Promise<void>
}

export interface VaultPlugin<
  S extends OptionsSchema = OptionsSchema,
  N extends VaultPortName = VaultPortName,
> {
  readonly name: string
  /** Version of this contract. */
  readonly api: 1
  readonly options: S
  readonly needs: readonly N[]
  readonly slots?: {
    readonly [P in VaultPhase]?: {
      readonly reads?: readonly VaultSlot[]
      readonly writes?: readonly VaultSlot[]
    }
  }
  setup(
    options: Infer<S>,
    env: { readonly ports: Pick<VaultPorts, N> },
  ): VaultPluginInstance | Promise<VaultPluginInstance>
}

/** Any vault plugin, its own types erased. */
export interface AnyVaultPlugin {
  readonly name: string
  readonly api: 1
  readonly options: OptionsSchema
  readonly needs: readonly VaultPortName[]
  readonly slots?: VaultPlugin['slots']
  setup(options: never, env: never): VaultPluginInstance | Promise<VaultPluginInstance>
}

/**
 * Declares a plugin of the vault; adds types and nothing else.
 *
 * @example
 * export default vaultPlugin({
 *   name: 'office-hours',
 *   api: 1,
 *   options: { type: 'object', additionalProperties: false, properties: {} },
 *   needs: ['clock'],
 *   setup: (_options, { ports: { clock } }) => ({
 *     route: () => ({
 *       authorize() {
 *         if (new Date(clock.now()).getUTCHours() < 7) return { decision: 'ask', reason: 'Asked for at night.' }
 *       },
 *     }),
 *   }),
 * })
 */
export function vaultPlugin<const S extends OptionsSchema, const N extends VaultPortName>(
  plugin: VaultPlugin<S, N>,
): VaultPlugin<S, N> {
  return plugin
}

import type { Clock } from '../ports/clock.ts'
import type { Egress } from '../ports/egress.ts'
import type { Log } from '../ports/log.ts'
import type { Infer, OptionsSchema } from './options.ts'

/**
 * The phases of a request to the vault, in order.
 *
 * - `identify`: finds out which agent sent the request, and whether it is admitted.
 * - `authorize`: finds out what the request does, and whether the rules allow it.
 * - `approve`: asks for the owner's approval, if it is needed.
 * - `perform`: performs the action.
 * - `audit`: writes the log entry. It runs on every outcome, before the response is sent.
 */
export const vaultPhases = ['identify', 'authorize', 'approve', 'perform', 'audit'] as const
export type VaultPhase = (typeof vaultPhases)[number]

/** The operations of the vault, by their names in the capabilities document. */
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

/** The sender of the request. An agent's name comes from the owner who registered the agent, never from the request. */
export interface VaultCaller {
  readonly kind: 'agent' | 'owner'
  readonly id: string
  readonly name: string
}

/** What the request would do if it is granted, as far as the vault could decode its bytes. The object is frozen. */
export interface RequestView {
  readonly kind: 'transaction' | 'typed-data' | 'message' | 'payment'
  readonly chain: string
  /** The account that would sign. */
  readonly from: string
  readonly effects: readonly Readonly<{ kind: string }>[]
  readonly warnings: readonly string[]
  /** True if the vault could not decode some part. No rule may approve such a request. */
  readonly isOpaque: boolean
  /** One sentence for each effect, which every channel can show safely. */
  readonly plainWords: readonly string[]
}

/** A value that a phase passes to later phases. The order check uses the declared readers and writers of each slot. */
export type VaultSlot = 'caller' | 'request' | 'verdict' | 'approval' | 'response'

/** The vault's verdict on a request so far. A plugin can only make the verdict stricter. */
export interface VerdictView {
  /** `ask`: the vault asks for the owner's approval, unless a later plugin or rule refuses the request. */
  readonly decision: 'allow' | 'ask'
  /** Why the owner's approval is needed. */
  readonly reasons: readonly string[]
}

/** One request as plugins see it. It is plain data and deeply frozen. Integers that JSON cannot represent exactly are strings. */
export interface VaultExchange {
  readonly operation: VaultOperation
  readonly requestId: string
  readonly caller: VaultCaller
  /** The transport of the request. */
  readonly via: 'direct' | 'socket' | 'relay' | 'mcp'
  /**
   * The request's fields, without the value of a write. The agent wrote their texts, so never treat a text as markup or as a
   * command.
   */
  readonly input: Readonly<Record<string, unknown>>
  readonly startedAtMs: number
  /** The exact scope that the agent requests, such as `wallet.solana`. */
  readonly scope: string | null
  /** The decoded request. Null if nothing is to be signed, or before the vault has decoded the request. */
  readonly request: RequestView | null
  readonly verdict: VerdictView
  /** The failure of the request, for the phase `audit`. Null in other phases and on success. */
  readonly failure: { readonly code: string; readonly message: string } | null
}

/**
 * A plugin's decision on a request. A plugin cannot allow a request that another plugin or a rule refuses.
 *
 * - `allow`, or nothing: the plugin has no objection, and the request continues unchanged.
 * - `ask`: the vault asks for the owner's approval even if no rule requires it. It is valid in the phases identify and authorize.
 * - `deny`: the request ends with 403 `APPROVAL_DENIED`. The agent gets the code (`A-Z`, `0-9`, `_`) and the message.
 */
export type VaultDecision =
  | { readonly decision: 'allow' }
  | { readonly decision: 'ask'; readonly reason: string }
  | { readonly decision: 'deny'; readonly code: string; readonly message: string }

/** A response that ends a request. The vault writes it as JSON, or passes it to a caller in the same process. */
export interface VaultResponse {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

/**
 * One plugin's hook in one phase. It returns its decision or a promise of one. The vault refuses the request if the hook fails,
 * times out or returns an invalid decision. In the phase `audit`, the vault does not wait for the hook and ignores its decision.
 */
export type VaultHook = (
  x: VaultExchange,
) => VaultDecision | undefined | void | Promise<VaultDecision | undefined | void>

export type VaultHooks = { readonly [P in VaultPhase]?: VaultHook }

/** The subject of an approval. An allowance is not a payment. `transaction` is a transaction of no other kind. */
export const approvalKinds = [
  'transfer',
  'allowance',
  'payment',
  'payment_up_to',
  'deposit',
  'transaction',
  'sign_in',
  'message',
  'typed_data',
  'read',
  'write',
  'delete',
  'call',
] as const
export type ApprovalKind = (typeof approvalKinds)[number]

/** One part of what is signed, sent or stored. Channels show it in full. */
export interface ApprovalPart {
  readonly title: string
  /** The author of the text, which channels show beside it. `vault` means that the text is stored in the vault. */
  readonly by: 'agent' | 'seller' | 'vault'
  /**
   * True if the part is the raw form of what the approval already says in words. A channel may collapse a raw part and show it
   * last.
   */
  readonly isRaw: boolean
  /** The part as text that is safe to show. Invisible characters are escaped, such as `\\u202e`. Line breaks stay. */
  readonly text: string
  readonly format: 'text' | 'json' | 'hex'
  /** Size of the exact original, in bytes. */
  readonly bytes: number
  /** SHA-256 of the exact original, in hex. */
  readonly sha256: string
  /**
   * False if `text` is incomplete, because the original is too long, is a stored value that never leaves the vault, or was decided
   * long ago.
   */
  readonly isWhole: boolean
}

/** An approval as an approval channel shows it. All its texts are plain text. */
export interface ApprovalRequest {
  readonly id: string
  readonly kind: ApprovalKind
  /** Everything that is signed, sent or stored, in reading order, except stored values. */
  readonly parts: readonly ApprovalPart[]
  /** The word that the owner must type beside the hash to approve. Null if a click is enough. */
  readonly secondWord: string | null
  readonly agent: string
  readonly operation: VaultOperation
  readonly state: ApprovalRequestState
  readonly scope: string | null
  readonly chain: string | null
  /** The amount as exact decimal text. */
  readonly amount: string | null
  readonly currency: string | null
  readonly recipient: string | null
  /** The account that signs and pays. Null if nothing is to be signed. */
  readonly from: string | null
  /** The transaction's nonce in decimal digits. Null if it has none. */
  readonly nonce: string | null
  /** This agent's previous request for the same thing, with its outcome. Null if there was none. */
  readonly askedBefore: AskedBefore | null
  /** True if the audit log has no earlier signature for this recipient. Null if the vault cannot tell. */
  readonly isFirstTime: boolean | null
  /**
   * What would happen, in one sentence for each effect. The vault wrote these sentences, and they contain no text of agents or
   * sellers.
   */
  readonly plainWords: readonly string[]
  readonly warnings: readonly string[]
  /** Why the owner's approval is needed. */
  readonly reasons: readonly string[]
  /** True if the vault could not decode some part. */
  readonly isOpaque: boolean
  /** The purpose in the agent's own words. Null if the agent stated none. */
  readonly purpose: string | null
  /** Binds a decision to the content that was shown. It is in hex, and the channel passes it back unchanged. */
  readonly decisionHash: string
  readonly expiresAtMs: number
  /** Who decided, which is `owner` or the name that an approval channel gave. Null while undecided. */
  readonly decidedBy: string | null
}

/** An earlier request of the same agent for the same thing. */
export interface AskedBefore {
  readonly atMs: number
  readonly state: ApprovalRequestState
}

/** The owner can decide a `pending` approval. An `approved` one waits until its agent uses it. The other states are final. */
export type ApprovalRequestState =
  | 'pending'
  | 'approved'
  | 'consumed'
  | 'denied'
  | 'expired'
  | 'canceled'
  | 'failed'

/** The means by which an approval channel receives approvals and returns the owner's decisions. */
export interface ApprovalQueue {
  /** Approvals that are open now. Empty while the vault is locked. */
  open(): readonly ApprovalRequest[]
  /** An approval that the vault still has. Undefined while the vault is locked. */
  get(id: string): ApprovalRequest | undefined
  /** Calls the listener with each new approval and each change of an approval. Returns a function that stops this. */
  watch(listener: (approval: ApprovalRequest) => void): () => void
  /**
   * @param by name of the person or channel that decided, for the log
   * @param secondWord the word that the owner typed, if the approval requires it. If it is missing, the code is `VALIDATION_ERROR`
   * @throws an error with code `APPROVAL_RESOLVED` if the approval is no longer open or the hash does not match. Other codes are
   *   `APPROVAL_EXPIRED`, `NOT_FOUND` and `VAULT_LOCKED`
   */
  approve(id: string, decisionHash: string, by: string, secondWord?: string): Promise<void>
  /** @throws the same errors as `approve` */
  deny(id: string, by: string): Promise<void>
  /**
   * Reports why this channel cannot deliver approvals now, or null when it can again. The vault's status shows the problem as a
   * warning to the owner.
   */
  trouble(problem: string | null): void
  /** Whether the vault is locked. While it is, no approval is open and none can be decided. */
  isLocked(): boolean
  /** Calls the listener with true after each lock, and with false after each unlock. Returns a function that stops this. */
  watchLock(listener: (isLocked: boolean) => void): () => void
}

/** A plugin's own storage in the vault's encrypted records. It contains one value, which survives restarts. */
export interface PluginStore {
  /** @returns the value that was written last, or undefined. @throws an error with code `VAULT_LOCKED` */
  read(): unknown
  /**
   * Writes plain JSON of at most 64 KiB. The value is on disk when the promise resolves. @throws an error with code `VAULT_LOCKED`
   */
  write(value: unknown): Promise<void>
}

/**
 * The ports that a vault plugin may name in `needs`. No port gives access to keys, stored values or the signing process. Built-in
 * plugins may use `approvals`. Other plugins may use it only if the owner's configuration sets `mayAnswer: true` for them.
 */
export interface VaultPorts {
  clock: Clock
  log: Log
  /** Network access to public addresses, and to the ranges that the owner's configuration allows for plugins. */
  egress: Pick<Egress, 'request'>
  approvals: ApprovalQueue
  store: PluginStore
}
export type VaultPortName = keyof VaultPorts

export interface VaultPluginInstance {
  /** Called once per operation. Returns undefined if the plugin has no hooks for that operation. */
  route(operation: VaultOperation): VaultHooks | undefined
  /** Called when the vault starts to serve. */
  start?(): void
  close?(): void | Promise<void>
}

export interface VaultPlugin<
  S extends OptionsSchema = OptionsSchema,
  N extends VaultPortName = VaultPortName,
> {
  readonly name: string
  /** Version of this plugin contract. */
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

/** Any vault plugin without its own types. */
export interface AnyVaultPlugin {
  readonly name: string
  readonly api: 1
  readonly options: OptionsSchema
  readonly needs: readonly VaultPortName[]
  readonly slots?: VaultPlugin['slots']
  setup(options: never, env: never): VaultPluginInstance | Promise<VaultPluginInstance>
}

/**
 * Declares a vault plugin. It only adds types.
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
 *         if (new Date(clock.now()).getUTCHours() < 7) return { decision: 'ask', reason: 'Requested at night.' }
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

/**
 * The first 64 bits of a decision hash in groups of four characters. Every channel shows them, so that the owner can compare two
 * screens. A decision is bound to the whole hash.
 *
 * @example shortHash('3f2a91bc04de77aa…') // '3f2a 91bc 04de 77aa'
 */
export const shortHash = (decisionHash: string): string =>
  decisionHash.slice(0, 16).replace(/(.{4})(?=.)/g, '$1 ')

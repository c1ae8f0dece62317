import type { VaultAnswer } from '../../core/plugin/vault.ts'
import type { RequestContext } from '../host/caller.ts'
import type { VaultApi } from '../host/vaultApi.ts'
import type { ObjectSchema } from '../requests/schema.ts'

/** What a client may tell its user about a tool before it is called; the vault itself never relies on it. */
export interface ToolHints {
  /** True when nothing is changed anywhere. */
  readonly readOnly: boolean
  /** True when something is lost, spent or shut that can't be taken back. */
  readonly destructive: boolean
  /** True when the same call again changes nothing more. */
  readonly idempotent: boolean
  /** True when parties outside the vault are reached. */
  readonly openWorld: boolean
}

/** One tool: what agents read about it, and the operation of the vault behind it. */
export interface Tool {
  readonly name: string
  /** Written for the agent that has to decide whether and how to call it. */
  readonly description: string
  /** The operation's own fields; what every tool of its kind takes is added to them. */
  readonly input: ObjectSchema
  /** Fields of the result; one that would be null is left out. */
  readonly result: ObjectSchema
  readonly hints: ToolHints
  /** True when the owner may have to be asked: the call can wait, and its answer can be that it is pending. */
  readonly mayAsk: boolean
  /** True when an idempotency key means something: the same call under it is done once. */
  readonly takesKey: boolean
  run(
    api: VaultApi,
    input: Readonly<Record<string, unknown>>,
    context: RequestContext,
  ): VaultAnswer | Promise<VaultAnswer>
}

export const readsOnly: ToolHints = {
  readOnly: true,
  destructive: false,
  idempotent: true,
  openWorld: false,
}

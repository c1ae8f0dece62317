import type { VaultAnswer, VaultOperation, VaultPhase, VaultSlot } from '../../../core/plugin/vault.ts'
import type { VaultCall } from '../vaultCall.ts'

/** A hook of the host's own plugins: it sees the whole call. */
export type HostHook = (
  x: VaultCall,
) => VaultAnswer | undefined | void | Promise<VaultAnswer | undefined | void>
export type HostHooks = { readonly [P in VaultPhase]?: HostHook }

/** A part of the host, in the shape of a plugin, so that one kernel lines all of them up. */
export interface HostPlugin {
  readonly name: string
  readonly slots?: {
    readonly [P in VaultPhase]?: {
      readonly reads?: readonly VaultSlot[]
      readonly writes?: readonly VaultSlot[]
    }
  }
  route(operation: VaultOperation): HostHooks | undefined
}

import type { Vault } from '../../ports/vault.ts'
import { assertKnown } from '../caller.ts'
import type { AssertAdmitted } from '../rate.ts'
import type { HostPlugin } from './hostPlugin.ts'

/**
 * Lets in who is known, while the vault is open, and not more often than the owner said. The transport has proved who it
 * is; a revoked agent is nobody any more.
 */
export function createIdentify(vault: Vault, assertAdmitted: AssertAdmitted): HostPlugin {
  return {
    name: 'identify',
    slots: { identify: { writes: ['caller'] } },
    route: () => ({
      identify({ who }) {
        assertKnown(who)
        vault.assertUnlocked()
        assertAdmitted(who)
      },
    }),
  }
}

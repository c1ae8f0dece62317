import type { AuditAction, AuditLog } from '../../ports/audit.ts'
import type { Vault } from '../../ports/vault.ts'
import { assertKnown, assertOwner, type KnownCaller, type OwnerContext } from '../caller.ts'
import type { AssertAdmitted } from '../rate.ts'

/** Who may pass, and the owner's own acts in the log. */
export interface Gate {
  /** For everything of the owner's that needs the vault open. @throws `OWNER_REQUIRED`, `UNAUTHORIZED`, `VAULT_LOCKED` */
  open(context: OwnerContext): void
  /** An agent or the owner, of an open vault. @throws `UNAUTHORIZED`, `VAULT_LOCKED`, `RATE_LIMIT_EXCEEDED` */
  known(context: OwnerContext): KnownCaller
  note(action: AuditAction, requestId: string, text: string): Promise<unknown>
}

export function createGate(vault: Vault, audit: AuditLog, assertAdmitted: AssertAdmitted): Gate {
  return {
    open({ caller }) {
      assertOwner(caller)
      vault.assertUnlocked()
    },
    known({ caller }) {
      assertKnown(caller)
      vault.assertUnlocked()
      assertAdmitted(caller)
      return caller
    },
    note: (action, requestId, text) =>
      audit.append({ agent: 'owner', action, status: 'APPROVED', requestId, note: text }),
  }
}

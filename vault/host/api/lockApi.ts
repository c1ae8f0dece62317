import { grantFor } from '../../agents/grant.ts'
import { isVaultError, VaultError } from '../../errors/error.ts'
import type { Vault } from '../../ports/vault.ts'
import type { Bus } from '../bus.ts'
import { assertKnown, callerName, type KnownCaller } from '../caller.ts'
import type { AssertAdmitted } from '../rate.ts'
import type { VaultApi } from '../vaultApi.ts'

interface LockParts {
  readonly vault: Vault
  readonly bus: Bus
  /** Reads in what an open vault works with. */
  readonly load: () => Promise<void>
  readonly assertAdmitted: AssertAdmitted
}

const howToUnlock =
  "Expected the password from the owner: `tollgate vault unlock` on the vault's machine, or the page that `tollgate vault open` opens. Over TCP this route takes Authorization: Bearer vow_… of such a session. The password was not looked at."

/** Opening and closing the vault. */
export function createLockApi({
  vault,
  bus,
  load,
  assertAdmitted,
}: LockParts): Pick<VaultApi, 'state' | 'unlock' | 'lock'> {
  const { audit } = vault

  /** To lock is to stop every other agent and its owner: it takes a grant. Of a locked vault nothing is written down. */
  function assertMayLock(caller: Extract<KnownCaller, { kind: 'agent' }>): void {
    vault.assertUnlocked()
    assertAdmitted(caller)
    if (grantFor(caller.agent.grants, 'lock', 'vault.lock') !== undefined) return
    throw new VaultError(
      'SCOPE_DENIED',
      'This agent has no grant to lock the vault. Ask the owner for the scope vault.lock, or to lock it.',
      { details: { scope: 'vault.lock', verb: 'lock' } },
    )
  }

  return {
    state: () => vault.state,
    async unlock(password, { caller, requestId }) {
      // The password alone is no way in: every program on this machine reaches the port, and would slow the owner down.
      if (caller.kind !== 'owner' || (caller.via !== 'direct' && caller.via !== 'socket'))
        throw new VaultError('OWNER_REQUIRED', howToUnlock)
      if (typeof password !== 'string' || password.length === 0 || password.length > 1_024)
        throw new VaultError('VALIDATION_ERROR', 'password: Expected a text of 1 to 1024 characters.')
      try {
        await vault.unlock(password, caller.via === 'socket' ? 'socket' : 'page')
      } catch (error) {
        if (isVaultError(error) && error.code === 'BAD_PASSWORD')
          await audit.append({
            agent: callerName(caller),
            action: 'UNLOCK',
            status: 'DENIED',
            requestId,
            code: error.code,
          })
        throw error
      }
      await load()
      await audit.append({ agent: callerName(caller), action: 'UNLOCK', status: 'APPROVED', requestId })
      bus.publish({ type: 'unlocked' })
      const { locksAtMs = 0, idleLocksAtMs = locksAtMs } = vault.state
      return { unlocked: true, expires_at: new Date(Math.min(locksAtMs, idleLocksAtMs)).toISOString() }
    },
    async lock({ caller, requestId }) {
      assertKnown(caller)
      if (caller.kind === 'agent') assertMayLock(caller)
      await audit.append({ agent: callerName(caller), action: 'LOCK', status: 'APPROVED', requestId })
      await vault.lock('owner')
      return { locked: true }
    },
  }
}

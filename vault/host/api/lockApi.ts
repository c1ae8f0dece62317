import { isVaultError, VaultError } from '../../errors/error.ts'
import type { Vault } from '../../ports/vault.ts'
import type { Bus } from '../bus.ts'
import { assertKnown, callerName } from '../caller.ts'
import type { VaultApi } from '../vaultApi.ts'

interface LockParts {
  readonly vault: Vault
  readonly bus: Bus
  /** Reads in what an open vault works with. */
  readonly load: () => Promise<void>
}

/** Opening and closing the vault. */
export function createLockApi({ vault, bus, load }: LockParts): Pick<VaultApi, 'state' | 'unlock' | 'lock'> {
  const { audit } = vault
  return {
    state: () => vault.state,
    async unlock(password, { caller, requestId }) {
      // The password is the credential here; over the relay and MCP there is no such operation.
      if (caller.via !== 'direct' && caller.via !== 'socket') throw new VaultError('OWNER_REQUIRED')
      if (typeof password !== 'string' || password.length === 0 || password.length > 1_024)
        throw new VaultError('VALIDATION_ERROR', 'password: Expected a text of 1 to 1024 characters.')
      try {
        await vault.unlock(password)
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
      await audit.append({ agent: callerName(caller), action: 'LOCK', status: 'APPROVED', requestId })
      await vault.lock('owner')
      return { locked: true }
    },
  }
}

import { grantFor } from '../../agents/grant.ts'
import { createSignInCodes, type OwnerSessions } from '../../agents/ownerSessions.ts'
import { pageOpened, pagesSignedOut } from '../../audit/auditEntry.ts'
import { isVaultError, VaultError } from '../../errors/error.ts'
import type { VaultClock } from '../../ports/clock.ts'
import type { Vault } from '../../ports/vault.ts'
import type { Bus } from '../bus.ts'
import {
  type AssertAdmitted,
  assertKnown,
  assertOwner,
  callerName,
  type Gate,
  type KnownCaller,
  type OwnerContext,
} from '../caller.ts'

/** The path of the approvals page below the vault's own address. */
export const pagePath = '/owner'

/**
 * The owner's access to the approvals page. A caller on the owner's socket gets a link, and the page exchanges the link's code
 * for a browser session. This also works while the vault is locked. The page then asks for the password.
 */
export function createPageApi(
  gate: Gate,
  sessions: OwnerSessions,
  clock: VaultClock,
  localUrl: () => string,
) {
  const codes = createSignInCodes(clock)
  return {
    /** Creates a link that opens the page once. */
    link({ caller }: OwnerContext) {
      if (caller.kind !== 'owner' || caller.via !== 'socket') throw new VaultError('OWNER_REQUIRED')
      const base = localUrl()
      if (base === '')
        throw new VaultError(
          'NOT_FOUND',
          'This vault serves one agent over stdio and has no page. Decide with: tollgate vault approvals, tollgate vault approve',
        )
      const { code, expiresAtMs } = codes.create()
      // The code is behind `#`. Browsers do not send that part of an address, so no log and no Referer contains the code.
      const url = `${base}${pagePath}/#code=${code}`
      return { url, expires_at: new Date(expiresAtMs).toISOString() }
    },
    /** Exchanges the code of a link for a browser session. @throws `SIGN_IN_EXPIRED` */
    async signIn(code: string, { caller, requestId }: OwnerContext) {
      if (caller.via !== 'direct') throw new VaultError('OWNER_REQUIRED')
      if (!codes.redeem(code)) throw new VaultError('SIGN_IN_EXPIRED')
      await gate.note('CONFIG', requestId, pageOpened)
      const { token, expiresAtMs } = sessions.create()
      return { token, expires_at: new Date(expiresAtMs).toISOString() }
    },
    /** Ends every browser session and makes every link invalid. */
    async signOut({ caller, requestId }: OwnerContext) {
      assertOwner(caller)
      codes.endAll()
      sessions.endAll()
      await gate.note('CONFIG', requestId, pagesSignedOut)
      return { signed_out: true }
    },
  }
}

interface LockDeps {
  readonly vault: Vault
  readonly bus: Bus
  /** Loads the agents and approvals after an unlock. */
  readonly load: () => Promise<void>
  readonly assertAdmitted: AssertAdmitted
}

const howToUnlock =
  "Expected the password from the owner: `tollgate vault unlock` on the vault's machine, or the page that `tollgate vault open` opens. Over TCP this route takes Authorization: Bearer vow_… of such a session. The password was not checked."

/** Locks and unlocks the vault. */
export function createLockApi({ vault, bus, load, assertAdmitted }: LockDeps) {
  const { audit } = vault

  /**
   * An agent needs a grant to lock the vault, because a lock stops every other agent and the owner. Attempts while the vault is
   * locked are not logged.
   */
  function assertMayLock(caller: Extract<KnownCaller, { kind: 'agent' }>): void {
    vault.assertUnlocked()
    assertAdmitted(caller)
    if (grantFor(caller.agent.grants, 'lock', 'vault.lock') !== undefined) return
    throw new VaultError(
      'SCOPE_DENIED',
      'This agent may not lock the vault. Ask the owner for the scope vault.lock, or ask the owner to lock it.',
      { details: { scope: 'vault.lock', verb: 'lock' } },
    )
  }

  return {
    state: () => vault.state,
    async unlock(password: unknown, { caller, requestId }: OwnerContext) {
      // Only the owner may unlock, although the password is correct. Any program on this machine can reach the port, and the
      // delays after its wrong passwords would stop the owner.
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
    async lock({ caller, requestId }: OwnerContext) {
      assertKnown(caller)
      if (caller.kind === 'agent') assertMayLock(caller)
      await audit.append({ agent: callerName(caller), action: 'LOCK', status: 'APPROVED', requestId })
      await vault.lock('owner')
      return { locked: true }
    },
  }
}

import { createSignInCodes, type OwnerSessions } from '../../agents/ownerSessions.ts'
import { pageOpened, pagesSignedOut } from '../../audit/auditLine.ts'
import { VaultError } from '../../errors/error.ts'
import type { VaultClock } from '../../ports/clock.ts'
import { assertOwner } from '../caller.ts'
import type { VaultApi } from '../vaultApi.ts'
import type { Gate } from './gate.ts'

/** Where the approvals page is, below the vault's own address. */
export const pagePath = '/owner'

/**
 * How the owner gets into the approvals page: whoever speaks on the owner's socket gets a link, and the page changes the
 * link's code for a session. Works while the vault is locked; its password is asked for on the page then.
 */
export function createPageApi(
  gate: Gate,
  sessions: OwnerSessions,
  clock: VaultClock,
  localUrl: () => string,
): VaultApi['page'] {
  const codes = createSignInCodes(clock)
  return {
    link({ caller }) {
      if (caller.kind !== 'owner' || caller.via !== 'socket') throw new VaultError('OWNER_REQUIRED')
      const base = localUrl()
      if (base === '')
        throw new VaultError(
          'NOT_FOUND',
          'This vault serves no page, it speaks to one agent only. Decide with tollgate vault approvals and approve.',
        )
      const { code, expiresAtMs } = codes.create()
      // Behind #: a fragment is sent to nobody, so the code is in no log and no Referer.
      const url = `${base}${pagePath}/#code=${code}`
      return { url, expires_at: new Date(expiresAtMs).toISOString() }
    },
    async signIn(code, { caller, requestId }) {
      if (caller.via !== 'direct') throw new VaultError('OWNER_REQUIRED')
      if (!codes.redeem(code)) throw new VaultError('SIGN_IN_EXPIRED')
      await gate.note('CONFIG', requestId, pageOpened)
      const { token, expiresAtMs } = sessions.create()
      return { token, expires_at: new Date(expiresAtMs).toISOString() }
    },
    async signOut({ caller, requestId }) {
      assertOwner(caller)
      codes.endAll()
      sessions.endAll()
      await gate.note('CONFIG', requestId, pagesSignedOut)
      return { signed_out: true }
    },
  }
}

import { isVaultError } from '../../errors/error.ts'
import type { AuditLog, AuditStatus } from '../../ports/audit.ts'
import { eventOf } from '../eventOf.ts'
import type { VaultCall } from '../vaultCall.ts'
import type { HostPlugin } from './hostPlugin.ts'

/** Writes down what was refused and what failed; what was done or asked has its entry already. */
export function createAuditing(audit: AuditLog): HostPlugin {
  return {
    name: 'activity',
    route: (operation) =>
      operation === 'vault_preview'
        ? undefined
        : {
            async audit(x) {
              const status = x.isLogged ? undefined : statusOf(x)
              if (status === undefined) return
              const event = eventOf(x, status)
              // A call that failed may have been made; each of them counts. That it was let go has its entry already, which
              // is enough where the vault was locked meanwhile.
              if (event.action === 'CALL' && status === 'FAILED')
                await audit.append(event).catch(unlessLocked)
              else await audit.appendRefusal(event)
            },
          },
  }
}

const unlessLocked = (error: unknown): void => {
  if (!isVaultError(error) || error.code !== 'VAULT_LOCKED') throw error
}

/** Undefined for what never became a request of a known agent: it would let strangers fill the log. */
function statusOf({ failure }: VaultCall): AuditStatus | undefined {
  if (failure === null) return undefined
  const status = isVaultError(failure) ? failure.status : 500
  if (status === 403 || status === 422) return 'DENIED'
  return status >= 500 ? 'FAILED' : undefined
}

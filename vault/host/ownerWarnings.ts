import type { AuditWarning } from '../ports/audit.ts'
import { keyOn } from './chainOf.ts'
import type { VaultParts } from './parts.ts'

/** Something about this vault that its owner should know and mend; shown at the start, in the status and on the page. */
export interface OwnerWarning {
  readonly code: 'TEST_KEYS_SHARED' | 'RULES_WITHOUT_ASSET' | AuditWarning['code']
  readonly message: string
  /** What to do about it. */
  readonly action: string
}

/** What the owner should know; of a locked vault nothing is known but its log. */
export function ownerWarnings(parts: Pick<VaultParts, 'vault' | 'enabled' | 'assets'>): OwnerWarning[] {
  const { vault, enabled, assets } = parts
  const ofLog = vault.audit.warnings
  if (vault.state.locked) return [...ofLog]
  const shared = enabled
    .map((name) => assets.chains.of(name))
    .filter((facts) => facts.isTest && vault.keys.isShared(keyOn(vault, facts)))
  if (shared.length === 0) return [...ofLog]
  const titles = shared.map(({ title }) => title).join(' and ')
  return [
    ...ofLog,
    {
      code: 'TEST_KEYS_SHARED',
      message: `The address on ${titles} is the one of a chain where money is real, and a signature may be good on both. So you are asked each time.`,
      action:
        'Give test chains addresses of their own: tollgate vault keys separate. What lies at the address on test chains stays there; move it before, or ask a faucet again.',
    },
  ]
}

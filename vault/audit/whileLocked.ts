import type { AuditEvent } from '../ports/audit.ts'

/** The note of a changed password: the one act of the owner's that needs no open vault and is written down. */
export const passwordChanged = 'the password changed'

/**
 * Whether an event is one that happens while the vault is locked. Nothing else may stand in the log without a keyed code:
 * the log refuses to write it, and a check names it as the first bad entry. Whoever can write the files could add an entry
 * of this kind, so those are told as what nobody vouches for.
 */
export function mayHappenLocked({ action, status, note }: AuditEvent): boolean {
  if (action === 'UNLOCK') return status === 'DENIED' || status === 'FAILED'
  if (action === 'LOCK') return status === 'APPROVED'
  return action === 'CONFIG' && note === passwordChanged && (status === 'APPROVED' || status === 'DENIED')
}

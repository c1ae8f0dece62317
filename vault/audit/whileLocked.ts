import type { AuditEvent } from '../ports/audit.ts'

/** The note of a changed password, which needs no open vault. */
export const passwordChanged = 'the password changed'

/** The notes of an approvals page that is opened, to unlock the vault on it, and of all that are signed out. */
export const pageOpened = 'the approvals page was opened'
export const pagesSignedOut = 'every approvals page was signed out'

/**
 * Whether an event is one that happens while the vault is locked. Nothing else may stand in the log without a keyed code:
 * the log refuses to write it, and a check names it as the first bad entry. Whoever can write the files could add an entry
 * of this kind, so those are told as what nobody vouches for.
 */
export function mayHappenLocked({ action, status, note }: AuditEvent): boolean {
  if (action === 'UNLOCK') return status === 'DENIED' || status === 'FAILED'
  if (action === 'LOCK') return status === 'APPROVED'
  if (action !== 'CONFIG') return false
  if (note === passwordChanged) return status === 'APPROVED' || status === 'DENIED'
  return (note === pageOpened || note === pagesSignedOut) && status === 'APPROVED'
}

/**
 * Whether an event is one that vaults of version 1 wrote down, without a code, when it ended after the vault was locked: a call
 * that was under way, a request that came to nothing. In what such a vault wrote they are told and are no damage.
 */
export function mayHaveComeLate({ action, status }: AuditEvent): boolean {
  if (status === 'DENIED' || status === 'FAILED') return true
  return action === 'CALL' && (status === 'APPROVED' || status === 'AUTO_APPROVED')
}

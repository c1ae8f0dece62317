import type { AuditAction } from '../ports/audit.ts'
import { hashOf } from './hashOf.ts'

/** Names an agent's signature over these very bytes, whatever is claimed of them and whoever allows it. */
export const signatureId = (agentId: string, action: AuditAction, frozenHash: string): string =>
  `sig_${hashOf('signature', agentId, action, frozenHash)}`

import { createHash } from 'node:crypto'
import type { AuditAction } from '../ports/audit.ts'

/** SHA-256, hex, over values in their order; every value is told apart from its neighbours. */
export function hashOf(...parts: readonly (string | number | boolean | null | Uint8Array)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) {
    const bytes = part instanceof Uint8Array ? part : Buffer.from(JSON.stringify(part), 'utf8')
    hash.update(`${part instanceof Uint8Array ? 'b' : 'j'}${bytes.length}:`)
    hash.update(bytes)
  }
  return hash.digest('hex')
}

/** Names an agent's signature over these very bytes, whatever is claimed of them and whoever allows it. */
export const signatureId = (agentId: string, action: AuditAction, frozenHash: string): string =>
  `sig_${hashOf('signature', agentId, action, frozenHash)}`

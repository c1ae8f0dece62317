import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/ports/clock.ts'
import { hashToken } from './token.ts'

const ttlMs = 120_000
const mostOpen = 8

/**
 * One-time codes of the approvals page's link. A link is seen by more than its reader (a terminal's history, the browser's),
 * so a code works once and for two minutes; the session that it becomes never stands in an address. In memory only, the
 * hashes of the newest 8.
 */
export interface SignInCodes {
  create(): { code: string; expiresAtMs: number }
  /** Whether it was good. It is not from then on, whatever the answer. */
  redeem(code: string): boolean
  endAll(): void
}

export function createSignInCodes(clock: Clock): SignInCodes {
  const open = new Map<string, number>()
  return {
    create() {
      if (open.size >= mostOpen) open.delete(open.keys().next().value!)
      const code = randomBytes(24).toString('base64url')
      const expiresAtMs = clock.now() + ttlMs
      open.set(hashToken(code), expiresAtMs)
      return { code, expiresAtMs }
    },
    redeem(code) {
      const hash = hashToken(code)
      const expiresAtMs = open.get(hash)
      open.delete(hash)
      return expiresAtMs !== undefined && clock.now() < expiresAtMs
    },
    endAll: () => open.clear(),
  }
}

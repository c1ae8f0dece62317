import { randomBytes } from 'node:crypto'
import { endsIn, type VaultClock } from '../ports/clock.ts'
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

export function createSignInCodes(clock: VaultClock): SignInCodes {
  const open = new Map<string, () => boolean>()
  return {
    create() {
      if (open.size >= mostOpen) open.delete(open.keys().next().value!)
      const code = randomBytes(24).toString('base64url')
      open.set(hashToken(code), endsIn(clock, ttlMs))
      return { code, expiresAtMs: clock.now() + ttlMs }
    },
    redeem(code) {
      const hash = hashToken(code)
      const isOver = open.get(hash)
      open.delete(hash)
      return isOver?.() === false
    },
    endAll: () => open.clear(),
  }
}

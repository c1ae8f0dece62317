import { randomBytes } from 'node:crypto'
import { endsIn, type VaultClock } from '../ports/clock.ts'
import { createToken, hashToken } from './token.ts'

const CODE_TTL_MS = 120_000
const MOST_OPEN = 8
const DEFAULT_TTL_MS = 12 * 3_600_000
const MOST_SESSIONS = 32

/**
 * Owner credentials for the approvals page: made for whoever speaks on the owner's socket, kept in memory only, gone when
 * they end, when the vault closes, and beyond 32 the oldest.
 */
export interface OwnerSessions {
  create(ttlMs?: number): { token: string; expiresAtMs: number }
  isValid(token: string): boolean
  end(token: string): void
  endAll(): void
}

export function createOwnerSessions(clock: VaultClock): OwnerSessions {
  const sessions = new Map<string, () => boolean>()
  return {
    create(ttlMs = DEFAULT_TTL_MS) {
      if (sessions.size >= MOST_SESSIONS) sessions.delete(sessions.keys().next().value!)
      const token = createToken('vow')
      sessions.set(hashToken(token), endsIn(clock, ttlMs))
      return { token, expiresAtMs: clock.now() + ttlMs }
    },
    isValid(token) {
      const hash = hashToken(token)
      const isOver = sessions.get(hash)
      if (isOver === undefined) return false
      if (!isOver()) return true
      sessions.delete(hash)
      return false
    },
    end: (token) => void sessions.delete(hashToken(token)),
    endAll: () => sessions.clear(),
  }
}

/**
 * One-time codes of the approvals page's link. A link is seen by more than its reader (a terminal's history, the browser's),
 * so a code works once and for two minutes; the session that it becomes never stands in an address. In memory only, the
 * hashes of the newest 8.
 */
interface SignInCodes {
  create(): { code: string; expiresAtMs: number }
  /** Whether it was good. It is not from then on, whatever the answer. */
  redeem(code: string): boolean
  endAll(): void
}

export function createSignInCodes(clock: VaultClock): SignInCodes {
  const open = new Map<string, () => boolean>()
  return {
    create() {
      if (open.size >= MOST_OPEN) open.delete(open.keys().next().value!)
      const code = randomBytes(24).toString('base64url')
      open.set(hashToken(code), endsIn(clock, CODE_TTL_MS))
      return { code, expiresAtMs: clock.now() + CODE_TTL_MS }
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

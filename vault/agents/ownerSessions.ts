import { randomBytes } from 'node:crypto'
import { endsIn, type VaultClock } from '../ports/clock.ts'
import { createToken, hashToken } from './agents.ts'

const CODE_TTL_MS = 120_000
const MAX_OPEN = 8
const DEFAULT_TTL_MS = 12 * 3_600_000
const MAX_SESSIONS = 32

/**
 * Owner credentials of the approvals page. A caller on the owner's socket creates them. They are kept only in memory, and end
 * on sign-out and when the vault closes. If there are more than 32, the oldest ends.
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
      if (sessions.size >= MAX_SESSIONS) sessions.delete(sessions.keys().next().value!)
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
 * One-time codes in links to the approvals page. Other users may see a link (in a terminal's or the browser's history), so a
 * code works only once and for two minutes. The browser session that it creates is never in a URL. Memory has only the hashes
 * of the newest 8 codes.
 */
interface SignInCodes {
  create(): { code: string; expiresAtMs: number }
  /** Whether the code was valid. The code is invalid afterwards. */
  redeem(code: string): boolean
  endAll(): void
}

export function createSignInCodes(clock: VaultClock): SignInCodes {
  const open = new Map<string, () => boolean>()
  return {
    create() {
      if (open.size >= MAX_OPEN) open.delete(open.keys().next().value!)
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

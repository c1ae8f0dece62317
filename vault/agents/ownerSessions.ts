import { endsIn, type VaultClock } from '../ports/clock.ts'
import { createToken, hashToken } from './token.ts'

const defaultTtlMs = 12 * 3_600_000
const mostSessions = 32

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
    create(ttlMs = defaultTtlMs) {
      if (sessions.size >= mostSessions) sessions.delete(sessions.keys().next().value!)
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

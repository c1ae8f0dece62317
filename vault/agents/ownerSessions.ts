import type { Clock } from '../../core/ports/clock.ts'
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

export function createOwnerSessions(clock: Clock): OwnerSessions {
  const sessions = new Map<string, number>()
  return {
    create(ttlMs = defaultTtlMs) {
      if (sessions.size >= mostSessions) sessions.delete(sessions.keys().next().value!)
      const token = createToken('vow')
      const expiresAtMs = clock.now() + ttlMs
      sessions.set(hashToken(token), expiresAtMs)
      return { token, expiresAtMs }
    },
    isValid(token) {
      const hash = hashToken(token)
      const expiresAtMs = sessions.get(hash)
      if (expiresAtMs === undefined) return false
      if (clock.now() < expiresAtMs) return true
      sessions.delete(hash)
      return false
    },
    end: (token) => void sessions.delete(hashToken(token)),
    endAll: () => sessions.clear(),
  }
}

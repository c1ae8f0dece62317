import type { DatabaseSync } from 'node:sqlite'
import { tellingOfExpiry } from '../webhooks/telling.ts'

export interface ExpireArgs {
  readonly ids: readonly string[]
  readonly nowMs: number
}

/** The writes of the port Sessions that are more than a statement, inside the writer's transaction. */
export function sessionOperations(database: DatabaseSync) {
  const expire = database.prepare(`
    UPDATE payment_sessions SET state = 'expired', ended_at_ms = expires_at_ms
    WHERE id = ? AND state = 'open' AND payment_id IS NULL AND expires_at_ms <= ?`)
  const tell = tellingOfExpiry(database)
  const forget = database.prepare(`
    DELETE FROM payment_sessions WHERE id = :id AND NOT EXISTS (SELECT 1 FROM payments WHERE session_id = :id)`)
  const keep = database.prepare('UPDATE payment_sessions SET is_kept = 1 WHERE id = ?')

  return {
    /** @returns how many were open still */
    expireSessions({ ids, nowMs }: ExpireArgs): number {
      let expired = 0
      for (const id of ids) {
        if (Number(expire.run(id, nowMs).changes) === 0) continue
        tell(id)
        expired++
      }
      return expired
    },

    /** Of sessions that have ended, which they do for good. @returns how many are deleted */
    forgetSessions(ids: readonly string[]): number {
      let forgotten = 0
      for (const id of ids) {
        if (Number(forget.run({ id }).changes) === 0) keep.run(id)
        else forgotten++
      }
      return forgotten
    },
  }
}

import type { BrowserSession } from '../../../core/domain/browserSession.ts'
import type { StoreId } from '../../../core/domain/link.ts'
import type { ChainName } from '../../../core/domain/network.ts'
import type { BrowserSessions } from '../../../core/ports/store/browserSessions.ts'
import type { BrowserSessionTable } from '../sql/schema.ts'
import { type CallsOf, free, type Reads, row, type Steps, type Tx } from './transaction.ts'

/** The owner of a browser session as stored in its column. The column is empty for the operator, who has no store. */
const holderOf = (storeId: StoreId | null) => storeId ?? ''

export const browserSessionWrites = {
  *add(tx: Tx, session: BrowserSession, nowMs: number, maxLive: number): Steps<void> {
    const holder = holderOf(session.storeId)
    yield* tx.hold(`browser_sessions:${holder}`)
    yield* tx.run`DELETE FROM browser_sessions
      WHERE id IN (SELECT id FROM browser_sessions WHERE ends_at_ms <= ${nowMs} ${free})`
    yield* tx.run`DELETE FROM browser_sessions WHERE store_id = ${holder} AND id NOT IN (
      SELECT id FROM browser_sessions WHERE store_id = ${holder} ORDER BY last_seen_at_ms DESC, id LIMIT ${maxLive - 1} + 0)`
    const columns = {
      id: session.id,
      store_id: holder,
      token_hash: session.tokenHash,
      chain: session.wallet?.chain ?? null,
      address: session.wallet?.address ?? null,
      user_agent: session.userAgent,
      created_at_ms: session.createdAtMs,
      last_seen_at_ms: session.lastSeenAtMs,
      ends_at_ms: session.endsAtMs,
    }
    yield* tx.run`INSERT INTO browser_sessions ${row(columns)}`
  },

  *end(tx: Tx, storeId: StoreId | null, id: string): Steps<boolean> {
    const ended =
      yield* tx.run`DELETE FROM browser_sessions WHERE id = ${id} AND store_id = ${holderOf(storeId)}`
    return ended > 0
  },

  *touch(tx: Tx, id: string, lastSeenAtMs: number, endsAtMs: number): Steps<void> {
    yield* tx.run`
      UPDATE browser_sessions SET last_seen_at_ms = ${lastSeenAtMs}, ends_at_ms = ${endsAtMs} WHERE id = ${id}`
  },
}

/** Browser sessions of sellers and of the operator. */
export function createBrowserSessions(
  { browserSessions }: { readonly browserSessions: CallsOf<typeof browserSessionWrites> },
  reads: Reads,
): BrowserSessions {
  return {
    ...browserSessions,

    async byHash(tokenHash, nowMs) {
      const found = await reads.one<BrowserSessionTable>`
        SELECT * FROM browser_sessions WHERE token_hash = ${tokenHash} AND ends_at_ms > ${nowMs}`
      return found && toBrowserSession(found)
    },

    async ofHolder(storeId, nowMs) {
      const rows = await reads.all<BrowserSessionTable>`
        SELECT * FROM browser_sessions WHERE store_id = ${holderOf(storeId)} AND ends_at_ms > ${nowMs}
        ORDER BY last_seen_at_ms DESC, id`
      return rows.map(toBrowserSession)
    },
  }
}

const toBrowserSession = (row: BrowserSessionTable): BrowserSession => ({
  id: row.id,
  storeId: row.store_id || null,
  tokenHash: row.token_hash,
  wallet:
    row.chain === null || row.address === null
      ? null
      : { chain: row.chain as ChainName, address: row.address },
  userAgent: row.user_agent,
  createdAtMs: row.created_at_ms,
  lastSeenAtMs: row.last_seen_at_ms,
  endsAtMs: row.ends_at_ms,
})

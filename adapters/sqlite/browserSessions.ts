import type { BrowserSession } from '../../core/domain/browserSession.ts'
import type { ChainName } from '../../core/domain/network.ts'
import type { BrowserSessions } from '../../core/ports/browserSessions.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'
import { reading } from './failure.ts'
import type { BrowserSessionTable } from './schema.ts'

/** Who is signed in with a browser, in SQLite. The operator's sessions have no store. */
export function createBrowserSessions({ reader, query, writer }: Database): BrowserSessions {
  const byHashRow = reader.prepare('SELECT * FROM browser_sessions WHERE token_hash = ? AND ends_at_ms > ?')
  const ofHolder = (storeId: string | null) =>
    query
      .selectFrom('browser_sessions')
      .where('store_id', 'is', storeId)
      .orderBy('last_seen_at_ms', 'desc')
      .orderBy('id')

  return {
    async add(session, nowMs, maxLive) {
      const forget = query.deleteFrom('browser_sessions').where('ends_at_ms', '<=', nowMs)
      const beyond = query
        .deleteFrom('browser_sessions')
        .where('store_id', 'is', session.storeId)
        .where(
          'id',
          'not in',
          ofHolder(session.storeId)
            .select('id')
            .limit(maxLive - 1),
        )
      const add = query.insertInto('browser_sessions').values(toColumns(session))
      await writer.write('runAll', [compiled(forget), compiled(beyond), compiled(add)])
    },

    async byHash(tokenHash, nowMs) {
      const row = reading(() => byHashRow.get(tokenHash, nowMs))
      return row && toSession(row as unknown as BrowserSessionTable)
    },

    async ofHolder(storeId, nowMs) {
      const rows = await ofHolder(storeId).selectAll().where('ends_at_ms', '>', nowMs).execute()
      return rows.map(toSession)
    },

    async end(storeId, id) {
      const end = query.deleteFrom('browser_sessions').where('id', '=', id).where('store_id', 'is', storeId)
      return (await writer.write('run', compiled(end))).changes > 0
    },

    async touch(id, lastSeenAtMs, endsAtMs) {
      const change = query
        .updateTable('browser_sessions')
        .set({ last_seen_at_ms: lastSeenAtMs, ends_at_ms: endsAtMs })
        .where('id', '=', id)
      await writer.write('run', compiled(change), 'visible')
    },
  }
}

const toColumns = (session: BrowserSession): BrowserSessionTable => ({
  id: session.id,
  store_id: session.storeId,
  token_hash: session.tokenHash,
  chain: session.wallet?.chain ?? null,
  address: session.wallet?.address ?? null,
  user_agent: session.userAgent,
  created_at_ms: session.createdAtMs,
  last_seen_at_ms: session.lastSeenAtMs,
  ends_at_ms: session.endsAtMs,
})

const toSession = (row: BrowserSessionTable): BrowserSession => ({
  id: row.id,
  storeId: row.store_id,
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

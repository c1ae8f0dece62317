import type { BrowserSessions } from '../../../core/ports/store/browserSessions.ts'
import { browserSessionQueries } from '../../sql/stores/browserSessionQueries.ts'
import { toBrowserSession, toSessionColumns } from '../../sql/stores/browserSessionRows.ts'
import type { Database } from '../database.ts'
import { holdName, transact, unflushed } from '../transact.ts'

/** Who is signed in with a browser, in PostgreSQL. The operator's sessions have no store. */
export function createBrowserSessions(database: Pick<Database, 'query'>): BrowserSessions {
  const { query } = database
  const queries = browserSessionQueries(query)
  return {
    async add(session, nowMs, maxLive) {
      const { storeId } = session
      await transact(database, async (transaction) => {
        await holdName(transaction, `browser_sessions:${storeId ?? ''}`)
        // What somebody else takes away at this moment is not waited for.
        const ended = transaction
          .selectFrom('browser_sessions')
          .select('id')
          .where('ends_at_ms', '<=', nowMs)
          .forUpdate()
          .skipLocked()
        await transaction.deleteFrom('browser_sessions').where('id', 'in', ended).execute()
        await browserSessionQueries(transaction)
          .removeBeyond(storeId, maxLive - 1)
          .execute()
        await transaction.insertInto('browser_sessions').values(toSessionColumns(session)).execute()
      })
    },

    async byHash(tokenHash, nowMs) {
      const row = await query
        .selectFrom('browser_sessions')
        .selectAll()
        .where('token_hash', '=', tokenHash)
        .where('ends_at_ms', '>', nowMs)
        .executeTakeFirst()
      return row && toBrowserSession(row)
    },

    async ofHolder(storeId, nowMs) {
      const rows = await queries.ofHolder(storeId).selectAll().where('ends_at_ms', '>', nowMs).execute()
      return rows.map(toBrowserSession)
    },

    async end(storeId, id) {
      const { numDeletedRows } = await queries.end(storeId, id).executeTakeFirst()
      return numDeletedRows > 0n
    },

    async touch(id, lastSeenAtMs, endsAtMs) {
      await queries.touch(id, lastSeenAtMs, endsAtMs).where(unflushed).execute()
    },
  }
}

import type { BrowserSessions } from '../../core/ports/store/browserSessions.ts'
import type { BrowserSessionTable } from '../sql/schema.ts'
import { browserSessionQueries } from '../sql/stores/browserSessionQueries.ts'
import { toBrowserSession, toSessionColumns } from '../sql/stores/browserSessionRows.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'
import { reading } from './failure.ts'

/** Who is signed in with a browser, in SQLite. The operator's sessions have no store. */
export function createBrowserSessions({ reader, query, writer }: Database): BrowserSessions {
  const byHashRow = reader.prepare('SELECT * FROM browser_sessions WHERE token_hash = ? AND ends_at_ms > ?')
  const queries = browserSessionQueries(query)

  return {
    async add(session, nowMs, maxLive) {
      const forget = query.deleteFrom('browser_sessions').where('ends_at_ms', '<=', nowMs)
      const beyond = queries.removeBeyond(session.storeId, maxLive - 1)
      const add = query.insertInto('browser_sessions').values(toSessionColumns(session))
      await writer.write('runAll', [compiled(forget), compiled(beyond), compiled(add)])
    },

    async byHash(tokenHash, nowMs) {
      const row = reading(() => byHashRow.get(tokenHash, nowMs))
      return row && toBrowserSession(row as unknown as BrowserSessionTable)
    },

    async ofHolder(storeId, nowMs) {
      const rows = await queries.ofHolder(storeId).selectAll().where('ends_at_ms', '>', nowMs).execute()
      return rows.map(toBrowserSession)
    },

    async end(storeId, id) {
      return (await writer.write('run', compiled(queries.end(storeId, id)))).changes > 0
    },

    async touch(id, lastSeenAtMs, endsAtMs) {
      await writer.write('run', compiled(queries.touch(id, lastSeenAtMs, endsAtMs)), 'visible')
    },
  }
}

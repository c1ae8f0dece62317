import { join } from 'node:path'
import t from 'tap'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { testClock } from '../samples.ts'
import { sessionRace } from '../sessions/sessionRace.ts'

t.test('of two stores on one file one begins to pay a session, or cancels it, and never both', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const open = async () => {
    const store = await openSqlite({ path, clock: testClock(), log: silentLog })
    t.teardown(() => store.close())
    return store
  }
  await sessionRace(t, [await open(), await open()])
})

import t from 'tap'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { testClock } from '../samples.ts'
import { portsContract } from './ports.ts'

portsContract(t, async (t) => {
  const clock = testClock()
  const storeClock = testClock()
  const store = await openSqlite({ path: ':memory:', clock, storeClock, log: silentLog })
  t.teardown(() => store.close())
  return { ...store, clock, storeClock }
})

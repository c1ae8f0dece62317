import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { mailboxContract } from '../mailbox.ts'

const open = (path: string) => openSqlite({ path, clock: systemClock, log: silentLog })

/** The same file, opened twice as by two processes. */
async function make(t: Test) {
  const path = join(t.testdir(), 'tollgate.db')
  const two = [await open(path), await open(path)] as const
  t.teardown(() => Promise.all(two.map((store) => store.close())))
  return two
}

// Looking for letters keeps no process alive; these tests wait for them.
const alive = setInterval(() => {}, 60_000)
t.teardown(() => clearInterval(alive))

t.test('letters in SQLite', async (t) => mailboxContract(t, make))

t.test('letters that were heard are removed, and those to a lease that is no more', async (t) => {
  const [here, there] = await make(t)
  const [a, b] = await Promise.all([here.leases.take('a', 60_000), there.leases.take('b', 60_000)])
  const left = () => Number(here.database.reader.prepare('SELECT count(*) AS n FROM messages').get()!['n'])
  const body = Buffer.from('x')
  const received = Promise.withResolvers<void>()
  t.teardown(there.mailbox.listen(b!.id, () => received.resolve()))
  await here.mailbox.post([{ to: b!.id, from: a!.id, body }])
  await received.promise
  while (left() > 0) await new Promise(setImmediate)
  await here.mailbox.post([{ to: 999_999, from: a!.id, body }])
  t.equal(left(), 1)
  // The first of another process looks for such.
  await there.mailbox.post([{ to: 999_998, from: b!.id, body }])
  t.equal(left(), 1)
})

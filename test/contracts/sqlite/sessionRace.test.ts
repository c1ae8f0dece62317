import { join } from 'node:path'
import t from 'tap'
import { openSqlite } from '../../../adapters/sqlite/openSqlite.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { change, claimed, sampleAttempt, sampleClaim, startMs, testClock } from '../samples.ts'
import { sampleSession } from '../sessions.ts'

t.test('of two stores on one file one begins to pay a session, or cancels it, and never both', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  const open = async () => {
    const store = await openSqlite({ path, clock: testClock(), log: silentLog })
    t.teardown(() => store.close())
    return store
  }
  const [here, there] = [await open(), await open()]
  for (let round = 0; round < 25; round++) {
    const id = `session-${round}`
    await here.sessions.create(sampleSession(id))
    const begin = async (store: typeof here, name: string) => {
      const claim = sampleClaim(`${round}-${name}`, { sessionId: id, linkId: null })
      const row = await claimed(store, claim)
      return () =>
        store.books.apply(
          change(claim, row, 'claimed', 'settling', {
            ...{ attempt: sampleAttempt, durability: 'flushed', session: { id, does: 'take' } },
          }),
        )
    }
    const [one, two] = [await begin(here, 'one'), await begin(there, 'two')]
    const cancel = async () => (await there.sessions.cancel(id, startMs))!.state === 'canceled'
    const turns = [one, two, cancel]
    const done = await Promise.all(
      [...turns.slice(round % 3), ...turns.slice(0, round % 3)].map((run) => run()),
    )
    t.equal(done.filter(Boolean).length, 1, `one of them, in round ${round}`)
  }
})

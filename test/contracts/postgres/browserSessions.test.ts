import t from 'tap'
import { browserSessionsContract } from '../browserSessions.ts'
import { startMs } from '../samples.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('browser sessions in PostgreSQL', { skip }, async (t) => browserSessionsContract(t, makePostgres))

t.test('a holder never has more than it may, however many are added at once', { skip }, async (t) => {
  const here = await makePostgres(t)
  const there = await makePostgres(t, { schema: here.schema })
  for (const storeId of ['s1', null]) {
    const add = (i: number) =>
      (i % 2 === 0 ? here : there).browserSessions.add(
        {
          ...{
            id: `${storeId}-${i}`,
            storeId,
            tokenHash: `hash-${storeId}-${i}`,
            wallet: null,
            userAgent: 'x',
          },
          ...{ createdAtMs: startMs, lastSeenAtMs: startMs + i, endsAtMs: startMs + 1_000 },
        },
        startMs,
        3,
      )
    await Promise.all(Array.from({ length: 12 }, (_, i) => add(i)))
    t.equal((await here.browserSessions.ofHolder(storeId, startMs)).length, 3)
  }
})

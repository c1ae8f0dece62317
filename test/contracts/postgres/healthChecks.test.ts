import t from 'tap'
import { HOUR_MS } from '../../../core/ports/store/stats.ts'
import { healthChecksContract } from '../healthChecks.ts'
import { sampleKey, sampleLink, sampleStore, startMs } from '../samples.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('health checks in PostgreSQL', { skip }, async (t) => healthChecksContract(t, makePostgres))

t.test('what two processes note and count at once of the same links adds up', { skip }, async (t) => {
  const here = await makePostgres(t)
  const there = await makePostgres(t, { schema: here.schema })
  const ids = ['a', 'b', 'c', 'd']
  await here.stores.create(sampleStore('s1'), null, sampleKey('k1', 's1'))
  for (const id of ids) await here.links.create(sampleLink(id, 's1'))
  const hour = Math.floor(startMs / HOUR_MS)
  const seen = (linkId: string, i: number) => ({
    ...{ linkId, atMs: hour * HOUR_MS + i, ok: i % 2 === 0, status: 200, latencyMs: 10, detail: 'a\0b' },
    next: { atMs: startMs + HOUR_MS, isFailing: false, calledSinceMs: startMs },
  })
  const calls = (linkId: string) => ({ linkId, hour, calls: 1, failedCalls: 0, views: 1, challenges: 1 })
  for (let i = 0; i < 20; i++)
    await Promise.all([
      here.healthChecks.note(ids.map((id) => seen(id, i))),
      there.healthChecks.note(ids.toReversed().map((id) => seen(id, i))),
      there.stats.addTraffic(ids.toReversed().map(calls)),
      here.healthChecks.putOff(ids, startMs + i),
    ])
  for (const id of ids) {
    t.match(await here.healthChecks.hours(id, startMs), [
      { hour, checks: 40, failedChecks: 20, latencyMs: 10 },
    ])
    t.match((await there.stats.healthDays(id, 0)).days, [{ probes: 40, failedProbes: 20 }])
  }
})

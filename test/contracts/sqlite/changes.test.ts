import { join } from 'node:path'
import t from 'tap'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import type { Change } from '../../../core/ports/store/changes.ts'
import { sampleKey, sampleLink, sampleStore } from '../samples.ts'

t.test('a process knows what it changed itself when the change is answered', async (t) => {
  // No process polls within this test.
  const options = { path: join(t.testdir(), 'tollgate.db'), clock: systemClock, log: silentLog, pollMs: 1e9 }
  const [here, there] = [await openSqlite(options), await openSqlite(options)]
  t.teardown(() => Promise.all([here.close(), there.close()]))
  const received: Change[] = []
  here.changes.subscribe((change) => received.push(change))
  here.changes.subscribe(() => {
    throw new Error('out of order')
  })
  await here.stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
  t.strictSame(received.splice(0), [{ kind: 'store', username: 'ann' }], 'whoever else listens')
  await t.rejects(here.stores.create(sampleStore('s2', { username: 'ann' }), null, sampleKey('k2', 's2')))
  t.strictSame(received, [], 'nothing changed')
  await here.images.set(
    's1',
    { hash: 'a'.repeat(64), mediaType: 'image/png', bytes: Buffer.from('x') },
    '/a',
    0,
  )
  t.strictSame(received.splice(0), [{ kind: 'store', username: 'ann' }], 'a picture, too')
  // More of them than are told in one turn.
  for (let i = 0; i < 250; i++) await there.links.create(sampleLink(`l${i}`, 's1'))
  const rename = async (username: string) => {
    await here.stores.update('s1', { username }, 0)
    t.match(received.at(-1), { kind: 'store' })
    t.ok(received.some((change) => change.username === username))
  }
  await Promise.all([rename('ben'), rename('cid')])
  t.equal(received.filter(({ kind }) => kind === 'link').length, 250, 'and what others changed before')
})

import t from 'tap'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { sampleKey, sampleLink, sampleStore, startMs, testClock } from '../samples.ts'
import { sampleSession } from '../sessions/sessions.ts'

t.test(
  'whatever may be many rows is read without the connection of the thread that answers calls',
  async (t) => {
    const store = await openSqlite({ path: ':memory:', clock: testClock(), log: silentLog })
    t.teardown(() => store.close())
    const { links, sessions, webhooks, purchases, reviews } = store
    await store.stores.create(sampleStore('s1'), null, sampleKey('k1', 's1'))
    await links.create(sampleLink('l1', 's1'))
    await sessions.create(sampleSession('a', { storeId: 's1' }))
    const hook = { url: 'https://seller.test/hook', description: '', kinds: [], salt: 'aa' }
    await webhooks.create({ ...hook, id: 'w1', storeId: 's1', createdAtMs: startMs }, 1)

    store.database.reader.close()
    const page = { limit: 100, nowMs: startMs }
    t.equal((await sessions.list('s1', page)).sessions.length, 1)
    t.equal((await sessions.list('s1', { ...page, status: 'expired' })).sessions.length, 0)
    t.equal((await webhooks.ofStore('s1')).length, 1)
    t.equal((await webhooks.deliveries('w1', page)).deliveries.length, 0)
    t.equal((await links.findAll(['l1', 'l2'])).get('l1')?.id, 'l1')
    t.equal((await links.titlesOf(['l1', 'l2'])).size, 1)
    t.equal((await links.page('s1', page)).links.length, 1)
    t.equal((await links.listedOf('s1', page)).links.length, 1)
    t.equal((await purchases.page('s1', page)).purchases.length, 0)
    t.equal((await reviews.ofStore('s1', { limit: 100, offset: 0 })).reviews.length, 0)
  },
)

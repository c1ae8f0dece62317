import pg from 'pg'
import t from 'tap'
import { sampleLink, sampleStore } from '../samples.ts'
import { databaseUrl, makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('however many search for what takes long, links are found and leases given', { skip }, async (t) => {
  const store = await makePostgres(t, { maxConnections: 8 })
  const other = new pg.Client({ connectionString: databaseUrl })
  await other.connect()
  t.teardown(() => other.end())
  // As long as this has the table, no search ends.
  await other.query(`BEGIN; LOCK TABLE ${store.schema}.listings IN ACCESS EXCLUSIVE MODE`)
  const wanted = { sort: 'newest', limit: 10, offset: 0 } as const
  const searches = Array.from({ length: 20 }, () => store.discovery.search(wanted))
  const ends = Promise.allSettled(searches)
  t.equal(await store.links.served('nobody', 'nothing'), undefined)
  t.ok(await store.leases.take('process:one', 10_000))
  t.strictSame(await store.health(), [])
  await other.query('COMMIT')
  t.ok((await ends).every((end) => end.status === 'fulfilled' && end.value.total === 0))
})

t.test(
  'however many calls of a store wait for each other, links are found and leases given',
  { skip },
  async (t) => {
    const store = await makePostgres(t, { maxConnections: 8 })
    await store.stores.create(sampleStore('s1'), null, null)
    const lease = await store.leases.take('process:one', 10_000)
    const other = new pg.Client({ connectionString: databaseUrl })
    await other.connect()
    t.teardown(() => other.end())
    // As long as this has the name, no link of the store is created.
    await other.query('BEGIN')
    await other.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`${store.schema}:links:s1`])
    const links = Array.from({ length: 20 }, (_, i) => store.links.create(sampleLink(`l${i}`, 's1')))
    const ends = Promise.allSettled(links)
    t.equal(await store.links.served('nobody', 'nothing'), undefined)
    t.equal(await store.leases.renew(lease!, 10_000), true)
    t.strictSame(await store.health(), [])
    await other.query('COMMIT')
    t.ok((await ends).every((end) => end.status === 'fulfilled'))
  },
)

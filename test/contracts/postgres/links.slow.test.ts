import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { linksContract } from '../links.ts'
import { sampleKey, sampleLink, sampleStore, startMs } from '../samples.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('links in PostgreSQL', { skip }, async (t) => linksContract(t, makePostgres))

/** A store with so many links, `n-00000` and on, each of the second after the one before. */
async function manyLinks(t: Test, count: number) {
  const store = await makePostgres(t)
  await store.stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
  await store.links.create(sampleLink('n', 's1', { createdAtMs: startMs, isPublic: false }))
  const { rows } = await sql<{ names: string }>`
    SELECT string_agg(attname, ', ') AS names FROM pg_attribute
    WHERE attrelid = 'links'::regclass AND attnum > 0 AND attname NOT IN ('id', 'slug', 'title', 'created_at_ms')`.execute(
    store.database.query,
  )
  const rest = sql.raw(rows[0]!.names)
  await sql`
    INSERT INTO links (id, slug, title, created_at_ms, ${rest})
    SELECT 'n-' || lpad(i::text, 5, '0'), 'n-' || i, 'Number ' || i, created_at_ms + i * 1000, ${rest}
    FROM links, generate_series(0, ${count - 1}::bigint) i WHERE id = 'n'`.execute(store.database.query)
  await store.links.deactivate('n', startMs)
  const ids = Array.from({ length: count }, (_, i) => `n-${String(i).padStart(5, '0')}`)
  return { ...store, ids }
}

t.test('of more links than are read at once each is there, once', { skip }, async (t) => {
  const { links, ids } = await manyLinks(t, 1_003)
  const served = await links.allServed()
  t.strictSame(
    served.map(({ id }) => id),
    ids,
  )
  t.match(served.at(-1), { username: 'ann', slug: 'n-1002' })
  const { links: found, nextCursor } = await links.page('s1', { limit: 2, words: ['number 7'] })
  t.strictSame(
    found.map(({ title }) => title),
    ['Number 799', 'Number 798'],
  )
  const more = await links.page('s1', { limit: 200, words: ['number 7'], cursor: nextCursor! })
  t.equal(more.links.length, 109)
  t.equal(more.nextCursor, null)
  t.equal((await links.page('s1', { limit: 9, words: ['number 7', '77', '1'] })).links.length, 1)
})

t.test('texts that no table of PostgreSQL can hold lead nowhere and break nothing', { skip }, async (t) => {
  const { links, stores } = await makePostgres(t)
  await stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
  const link = await links.create(sampleLink('l1', 's1', { title: 'a\0b', inputSchema: { title: 'a\0b' } }))
  t.match(link, { title: 'a\ufffdb', inputSchema: { title: 'a\0b' } })
  t.strictSame(await links.find('l1'), link)
  for (const [username, slug] of [
    ['ann\0', 'l1'],
    ['ann', 'l1\0'],
    ['ann', '\0'],
    ['\ud800', 'l1'],
  ] as const) {
    t.equal(await links.served(username, slug), undefined)
    t.equal(await links.redirectOf(username, slug, startMs), undefined)
  }
  t.strictSame((await links.page('s1', { limit: 9, words: ['\0'] })).links, [])
})

t.test('changes of links and of their store at once all come through', { skip }, async (t) => {
  const here = await makePostgres(t)
  const there = await makePostgres(t, { schema: here.schema })
  await here.stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
  for (const id of ['l1', 'l2']) await here.links.create(sampleLink(id, 's1'))
  const suspension = { sinceMs: startMs, reason: 'down', cooldownUntilMs: startMs, permanent: false }
  for (let i = 0; i < 15; i++) {
    const at = startMs + i
    await Promise.all([
      here.stores.update('s1', { username: `ann_${i}`, displayName: `Ann ${i}` }, at),
      there.stores.update('s1', { payout: { base: `0x${i}` } }, at),
      here.links.update('l1', { slug: `a-${i}`, title: `A ${i}` }, at),
      there.links.update('l2', { slug: `b-${i}`, tags: [`t${i}`] }, at),
      there.links.setSuspension('l1', i % 2 === 0 ? suspension : null, at),
      here.links.update('l2', { isPublic: i % 2 === 0 }, at),
      there.links.create(sampleLink(`new-${i}`, 's1'), 100),
    ])
  }
  t.equal((await here.links.served('ann_14', 'a-14'))?.title, 'A 14')
  t.equal(await here.links.countOf('s1'), 17)
  t.match(await here.links.find('l2'), { version: 31, slug: 'b-14', tags: ['t14'], isPublic: true })
})

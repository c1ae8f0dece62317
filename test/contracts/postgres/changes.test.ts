import { sql } from 'kysely'
import pg from 'pg'
import t, { type Test } from 'tap'
import { startChanges } from '../../../adapters/store/postgres/changes/changes.ts'
import { createNotices, type Notices } from '../../../adapters/store/postgres/changes/notices.ts'
import { silentLog } from '../../../core/ports/log.ts'
import type { Change, Changes } from '../../../core/ports/store/changes.ts'
import { changesContract } from '../changes.ts'
import { sampleKey, sampleLink, sampleStore, startMs } from '../samples.ts'
import { databaseUrl, makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false
const neverMs = 2 ** 31 - 1

/** What is heard, and a way to wait for it. */
function subscribe(changes: Changes) {
  const received: string[] = []
  const polls = new Set<() => void>()
  changes.subscribe((change: Change) => {
    received.push(change.kind === 'link' ? `${change.username}/${change.slug}` : change.username)
    for (const look of polls) look()
  })
  const until = (isThere: () => boolean) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (isThere()) resolve()
      }
      polls.add(look)
      look()
    })
  return {
    received,
    /** What was heard so far, when it is so much. */
    async take(count: number) {
      await until(() => received.length >= count)
      return received.splice(0)
    },
    receives: (name: string) => until(() => received.includes(name)),
  }
}

/** A connection of its own to the schema, such as an operator's. */
async function connection(t: Test, schema: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: databaseUrl, options: `-c search_path=${schema}` })
  await client.connect()
  t.teardown(() => client.end())
  return client
}

/** True when a connection that listens was there to be ended. */
async function endsListener(client: pg.Client, schema: string): Promise<boolean> {
  const { rowCount } = await client.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE application_name = 'tollgate notices' AND query LIKE 'LISTEN tollgate_' || md5($1)`,
    [schema],
  )
  return rowCount === 1
}

/** Notices that are given by hand. */
function byHand() {
  const listeners = new Set<(detail: string | null) => void>()
  const notices: Pick<Notices, 'subscribe' | 'close'> = {
    subscribe(_, listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    async close() {},
  }
  const give = () => {
    for (const listener of listeners) listener('')
  }
  return { notices, give }
}

const note = (client: pg.Client, ...names: string[]) =>
  client.query("INSERT INTO changes (kind, username) SELECT 'store', unnest($1::text[])", [names])

t.test('changes in PostgreSQL', { skip }, async (t) =>
  changesContract(t, async (t) => (await makePostgres(t)).changes),
)

t.test('a change made by a neighbour reaches the caches of this process', { skip }, async (t) => {
  const here = await makePostgres(t)
  const there = await makePostgres(t, { schema: here.schema })
  const { take } = subscribe(here.changes)
  await there.stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
  t.strictSame(await take(1), ['ann'])
  await there.links.create(sampleLink('l1', 's1', { slug: 'a' }))
  t.strictSame(await take(1), ['ann/a'])
  await there.links.update('l1', { slug: 'b' }, startMs)
  t.strictSame(await take(2), ['ann/b', 'ann/a'])
  await there.links.update('l1', { isStealth: true, privateSlug: 'p' }, startMs)
  t.strictSame(await take(2), ['ann/p', 'ann/b'])
  await there.links.deactivate('l1', startMs)
  t.strictSame(await take(1), ['ann/p'])
  await there.stores.update('s1', { username: 'anna' }, startMs)
  t.strictSame(await take(2), ['anna', 'ann'])
  await there.stores.update('s1', { username: 'anne' }, startMs)
  t.strictSame(await take(3), ['anne', 'anna', 'ann'], 'a name that is free again, too')
})

t.test('what commits late is heard when it does, and nothing waits for it', { skip }, async (t) => {
  const store = await makePostgres(t)
  const { received, receives } = subscribe(store.changes)
  const [first, second, third] = [
    await connection(t, store.schema),
    await connection(t, store.schema),
    await connection(t, store.schema),
  ]
  for (const client of [first, third]) await client.query('BEGIN')
  await note(first, 'early, open')
  await note(third, 'given up')
  await note(second, 'late, committed')
  await receives('late, committed')
  t.strictSame(received, ['late, committed'])
  await first.query('COMMIT')
  await third.query('ROLLBACK')
  await receives('early, open')
  await note(second, 'last')
  await receives('last')
  t.strictSame(received, ['late, committed', 'early, open', 'last'], 'each once')
})

t.test('a change that no notice tells of is found, and a notice needs no looking', { skip }, async (t) => {
  const { database, schema } = await makePostgres(t)
  const own = createNotices({ url: databaseUrl, schema, log: silentLog })
  const looking = await startChanges(database, { notices: byHand().notices, log: silentLog, pollMs: 10 })
  const notified = await startChanges(database, { notices: own, log: silentLog, pollMs: neverMs })
  t.teardown(() => Promise.all([looking.close(), notified.close(), own.close()]))
  const both = [subscribe(looking), subscribe(notified)]
  await note(await connection(t, schema), 'ann')
  for (const { take } of both) t.strictSame(await take(1), ['ann'])
})

t.test('a connection that ends is made again, and what was missed is read', { skip }, async (t) => {
  const { database, schema } = await makePostgres(t)
  const own = createNotices({ url: databaseUrl, schema, log: silentLog })
  const changes = await startChanges(database, { notices: own, log: silentLog, pollMs: neverMs })
  t.teardown(() => Promise.all([changes.close(), own.close()]))
  const { take } = subscribe(changes)
  const client = await connection(t, schema)
  await note(client, 'first')
  t.strictSame(await take(1), ['first'])
  for (const round of ['second', 'third']) {
    // One that is being ended may still have been notified by the former round, before the next one is there.
    while (!(await endsListener(client, schema))) await sql`SELECT pg_sleep(0.01)`.execute(database.query)
    await note(client, round)
    t.strictSame(await take(1), [round])
  }
})

t.test('who slept while changes were pruned is told that every store changed', { skip }, async (t) => {
  const store = await makePostgres(t)
  const { database, schema } = store
  for (const name of ['ann', 'ben'])
    await store.stores.create(sampleStore(name, { username: name }), null, sampleKey(`k-${name}`, name))
  await store.stores.update('ann', { username: 'anna' }, startMs)
  const hand = byHand()
  const sleeper = await startChanges(database, { notices: hand.notices, log: silentLog, pollMs: neverMs })
  const awake = await startChanges(database, {
    ...{ notices: byHand().notices, log: silentLog, pollMs: 5, keepMs: 0 },
  })
  t.teardown(() => Promise.all([sleeper.close(), awake.close()]))
  const [late, early] = [subscribe(sleeper), subscribe(awake)]
  const client = await connection(t, schema)
  await note(client, 'zoe')
  t.strictSame(await early.take(1), ['zoe'])
  const count = async () => Number((await client.query('SELECT count(*) FROM changes')).rows[0].count)
  while ((await count()) > 0) await sql`SELECT pg_sleep(0.01)`.execute(database.query)
  hand.give()
  t.strictSame(await late.take(3), ['ann', 'anna', 'ben'])
  t.strictSame(early.received, [], 'who was awake hears nothing again')
})

t.test('after a crash of the server every store may have changed', { skip }, async (t) => {
  const store = await makePostgres(t)
  await store.stores.create(sampleStore('s1', { username: 'ann' }), null, sampleKey('k1', 's1'))
  const hand = byHand()
  const changes = await startChanges(store.database, {
    ...{ notices: hand.notices, log: silentLog, pollMs: neverMs },
  })
  t.teardown(() => changes.close())
  const { take } = subscribe(changes)
  const client = await connection(t, store.schema)
  await client.query('TRUNCATE changes_run')
  await note(client, 'zoe')
  hand.give()
  t.strictSame(await take(2), ['ann', 'zoe'])
  await note(client, 'zoe')
  hand.give()
  t.strictSame(await take(1), ['zoe'])
})

t.test(
  'many changes at once are heard in their order, each once, though a listener fails',
  { skip },
  async (t) => {
    const store = await makePostgres(t)
    store.changes.subscribe(({ username }) => {
      if (username === 'u300') throw new Error('this one can not take it')
    })
    const { received, receives } = subscribe(store.changes)
    const names = Array.from({ length: 1_000 }, (_, i) => `u${i}`)
    const client = await connection(t, store.schema)
    await note(client, ...names)
    await note(client, 'end')
    await receives('end')
    t.strictSame(received, [...names, 'end'])
  },
)

t.test('of many that change at once, each change is heard once by every process', { skip }, async (t) => {
  const here = await makePostgres(t)
  const there = await makePostgres(t, { schema: here.schema })
  const both = [subscribe(here.changes), subscribe(there.changes)]
  const clients = await Promise.all(Array.from({ length: 6 }, () => connection(t, here.schema)))
  const expected: string[] = []
  await Promise.all(
    clients.map(async (client, c) => {
      for (let i = 0; i < 60; i++) {
        const isKept = i % 4 !== 3
        await client.query('BEGIN')
        await note(client, `c${c}-${i}-a`)
        if (i % 3 === 0) await client.query('SELECT pg_sleep(0.003)')
        await note(client, `c${c}-${i}-b`)
        await client.query(isKept ? 'COMMIT' : 'ROLLBACK')
        if (isKept) expected.push(`c${c}-${i}-a`, `c${c}-${i}-b`)
      }
    }),
  )
  await note(clients[0]!, 'end')
  for (const { received, receives } of both) {
    await receives('end')
    t.strictSame(received.toSorted(), [...expected, 'end'].toSorted())
  }
})

import pg from 'pg'
import t, { type Test } from 'tap'
import { runCall } from '../../../adapters/store/postgres/calls.ts'
import { ConstraintError } from '../../../adapters/store/postgres/failure.ts'
import type { Methods } from '../../../adapters/store/repositories/calls.ts'
import type { Steps, Tx } from '../../../adapters/store/repositories/transaction.ts'
import type { Durability } from '../../../core/ports/store/ledger.ts'
import { numberMethods } from '../numberMethods.ts'
import { sampleKey, sampleStore } from '../samples.ts'
import { databaseUrl, makePostgres, makeTwo, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

const methods = {
  ...numberMethods,
  server: {
    *setting(tx: Tx): Steps<unknown> {
      return (yield* tx.one<{ value: string }>`SELECT current_setting('synchronous_commit') AS value`)!.value
    },
    *addAndLose(tx: Tx, n: number): Steps<void> {
      yield* tx.run`INSERT INTO numbers (n) VALUES (${n})`
      yield* tx.one`SELECT pg_terminate_backend(pg_backend_pid())`
    },
    *addName(tx: Tx, name: string): Steps<unknown> {
      yield* tx.run`INSERT INTO names (name) VALUES (${name})`
      return (yield* tx.one<{ name: string }>`SELECT name FROM names WHERE name = ${name}`)!.name
    },
  },
} satisfies Methods

async function openNumbers(t: Test, maxConnections = 4) {
  const { database } = await makePostgres(t, { maxConnections })
  await database.pool.query('CREATE TABLE numbers (n bigint PRIMARY KEY); CREATE TABLE names (name text)')
  const call = (name: string, args: readonly unknown[] = [], durability: Durability = 'flushed') => {
    const [noun, method] = name.split('.') as [string, string]
    return runCall(database, { noun, method, args }, durability, methods)
  }
  const numbers = async () =>
    (await database.pool.query<{ n: number }>('SELECT n FROM numbers ORDER BY n')).rows.map(({ n }) => n)
  return { database, call, numbers }
}

t.test('a call is one transaction: what it throws takes back all of it', { skip }, async (t) => {
  // One connection: each call has the one that the call before it left.
  const { call, numbers } = await openNumbers(t, 2)
  t.equal(await call('numbers.add', [1, 2]), 2)
  await t.rejects(call('numbers.addAndRefuse', [3]), { code: 'RATE_LIMIT_EXCEEDED', retryAfterSeconds: 60 })
  await t.rejects(call('numbers.addAndFail', [3]), /refused a statement: .*nowhere/)
  await t.rejects(call('numbers.add', [3, 1]), new ConstraintError('numbers_pkey', ''))
  t.strictSame(await numbers(), [1, 2])
  t.equal(await call('numbers.add', [3]), 3)
})

t.test('a connection that ends in the middle of a call took nothing with it', { skip }, async (t) => {
  const { call, numbers } = await openNumbers(t, 2)
  await t.rejects(call('server.addAndLose', [1]), { code: 'store_unavailable' })
  t.equal(await call('numbers.add', [2]), 1)
  t.strictSame(await numbers(), [2])
})

t.test('two calls that wait for each other are both made', { skip }, async (t) => {
  const { database, call, numbers } = await openNumbers(t, 8)
  await call('numbers.add', [1, 2])
  const gate = new pg.Client({ connectionString: databaseUrl })
  await gate.connect()
  t.teardown(() => gate.end())
  const name = `${(await database.pool.query('SELECT current_schema() AS schema')).rows[0].schema}:gate`
  await gate.query('BEGIN')
  await gate.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [name])
  // Each has changed one row; the first through the gate waits for the other one's, which waits at the gate.
  const both = [call('numbers.moveWithin', ['gate', 1, 2]), call('numbers.moveWithin', ['gate', 2, 1])]
  const waiting = `SELECT count(*) AS count FROM pg_locks l WHERE NOT l.granted AND l.locktype = 'advisory'
    AND (l.classid, l.objid) = (SELECT classid, objid FROM pg_locks WHERE pid = $1 AND locktype = 'advisory')`
  const { rows } = await gate.query('SELECT pg_backend_pid() AS pid')
  while (Number((await gate.query(waiting, [rows[0].pid])).rows[0].count) < 2);
  await gate.query('COMMIT')
  await Promise.all(both)
  t.strictSame(await numbers(), [1, 2], 'each was moved twice')
})

/** A thousand calls, twenty at a time: more of them would wait for a connection for longer than a caller waits. */
async function thousand<T>(call: (i: number) => Promise<T>): Promise<PromiseSettledResult<T>[]> {
  const results: PromiseSettledResult<T>[] = []
  const caller = async (_: unknown, first: number) => {
    for (let i = first; i < 1_000; i += 20) results.push(...(await Promise.allSettled([call(i)])))
  }
  await Promise.all(Array.from({ length: 20 }, caller))
  return results
}

t.test('of a thousand calls each is alone with the name that it holds', { skip }, async (t) => {
  const { call } = await openNumbers(t)
  const counts = await thousand(() => call('numbers.countTwice', ['a name']))
  const counted = counts.map((one) => (one.status === 'fulfilled' ? (one.value as [number, number]) : []))
  t.strictSame(
    counted.toSorted(([a = -1], [b = -1]) => a - b),
    Array.from({ length: 1_000 }, (_, i) => [i, i + 1]),
  )
})

t.test('of a thousand calls in two processes no more are done than may be', { skip }, async (t) => {
  const [here, there] = await makeTwo(t)
  for (const id of ['s1', 's2']) await here.stores.create(sampleStore(id), null, null)
  const added = await thousand((i) =>
    (i % 3 ? here : there).keys.add(sampleKey(`key${i}`, i % 2 ? 's1' : 's2'), 50),
  )
  t.equal(added.filter(({ status }) => status === 'fulfilled').length, 100)
  t.ok(added.every((one) => one.status === 'fulfilled' || one.reason.code === 'LIMIT_REACHED'))
  await t.rejects(here.keys.add(sampleKey('orphan', 'nobody'), 9), ConstraintError)
})

t.test('only what may be lost does not wait for the disk, and a NUL breaks nothing', { skip }, async (t) => {
  const { call } = await openNumbers(t, 2)
  t.equal(await call('server.setting', [], 'visible'), 'off')
  t.equal(await call('server.setting'), 'on')
  t.equal(await call('server.addName', ['a\0b']), 'a\ufffdb')
})

t.test('the clocks of a call are people’s and the one that all processes share', { skip }, async (t) => {
  const { database } = await makePostgres(t)
  const call = { noun: 'numbers', method: 'times', args: [] }
  const storeMs = database.storeNowMs()
  t.strictSame(await runCall(database, call, 'flushed', methods), [database.clock.now(), storeMs])
  const own = { ...database, storeNowMs: () => null }
  const before = (await database.pool.query('SELECT extract(epoch FROM now()) * 1000 AS ms')).rows[0].ms
  const [, serverMs] = (await runCall(own, call, 'flushed', methods)) as [number, number]
  t.ok(serverMs >= Math.floor(before))
})

t.test('however a store is changed, its connection keeps one statement for it', { skip }, async (t) => {
  // One connection for calls.
  const { stores, database } = await makePostgres(t, { maxConnections: 2 })
  await stores.create(sampleStore('s1'), null, null)
  const patches = [
    { bio: 'New' },
    { displayName: 'New', bio: 'Newer' },
    { username: 'new', socials: [] },
    { payout: { base: null } },
  ]
  for (const [i, patch] of patches.entries()) t.ok(await stores.update('s1', patch, i))
  const { rows } = await database.pool.query(
    `SELECT count(*) AS count FROM pg_prepared_statements WHERE statement LIKE 'UPDATE stores SET %'`,
  )
  t.equal(Number(rows[0].count), 1)
})

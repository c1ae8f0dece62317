import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { GroupCommit } from '../../../adapters/store/sqlite/commit/groupCommit.ts'
import { startWriter, type WriteRequest } from '../../../adapters/store/sqlite/commit/writer.ts'
import { migrate } from '../../../adapters/store/sqlite/migrate.ts'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { systemClock } from '../../../core/ports/clock.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { numberMethods } from '../numberMethods.ts'
import { keyOf, sampleClaim, sampleKey, sampleStore } from '../samples.ts'

const call = (method: keyof typeof numberMethods.numbers, ...args: number[]): WriteRequest => [
  'call',
  { noun: 'numbers', method, args, nowMs: 5, storeNowMs: 7 },
  true,
]
/** A write as the writer has without methods. */
const insert = (n: number): WriteRequest => [
  'run',
  { sql: 'INSERT INTO numbers (n) VALUES (?)', parameters: [n] },
  true,
]

async function openNumbers(t: Test) {
  const database = new DatabaseSync(join(t.testdir(), 'tollgate.db'))
  t.teardown(() => database.close())
  await migrate(database)
  database.exec('CREATE TABLE numbers (n INTEGER PRIMARY KEY)')
  const commit = new GroupCommit(database, false, numberMethods)
  const numbers = () =>
    database
      .prepare('SELECT n FROM numbers ORDER BY n')
      .all()
      .map(({ n }) => n)
  return { commit, numbers }
}

t.test('the calls and writes of a group are done in their order', async (t) => {
  const { commit, numbers } = await openNumbers(t)
  const { results, failures } = commit.run([call('add', 1, 2), insert(3), call('add', 4), call('times')])
  t.equal(failures, null)
  t.match(results, [2, { changes: 1 }, 4, [5, 7]])
  t.strictSame(numbers(), [1, 2, 3, 4])
})

for (const [method, what, failure] of [
  [
    'addAndRefuse',
    'a refusal',
    { kind: 'refusal', refusal: { code: 'RATE_LIMIT_EXCEEDED', retryAfterSeconds: 60 } },
  ],
  ['addAndFail', 'a mistake in a statement', { kind: 'fault', message: /no such table/ }],
  ['addAndAwait', 'a wait for something else than a statement', { kind: 'fault' }],
] as const)
  t.test(`${what} takes back its own call and leaves its neighbours standing`, async (t) => {
    const { commit, numbers } = await openNumbers(t)
    const { results, failures } = commit.run([
      call('add', 1),
      insert(2),
      call(method, 3),
      insert(4),
      call('add', 5),
    ])
    t.match(results, [1, { changes: 1 }, undefined, { changes: 1 }, 4])
    t.match([...failures!], [[2, failure]])
    t.strictSame(numbers(), [1, 2, 4, 5])
  })

t.test('a broken rule takes back the call or the write that broke it', async (t) => {
  const { commit, numbers } = await openNumbers(t)
  commit.run([insert(1)])
  const called = commit.run([call('add', 2), call('add', 3, 1), insert(4)])
  t.match([...called.failures!], [[1, { kind: 'constraint', message: /UNIQUE/ }]])
  t.strictSame(numbers(), [1, 2, 4])
  // A write without a method has no savepoint: its group is done again, and each call is there once.
  const written = commit.run([call('add', 5), insert(1), call('addAndRefuse', 6), insert(7)])
  t.match(
    [...written.failures!].map(([i, { kind }]) => [i, kind]),
    [
      [1, 'constraint'],
      [2, 'refusal'],
    ],
  )
  t.strictSame(numbers(), [1, 2, 4, 5, 7])
})

t.test('a process that is killed in the middle of a call leaves nothing of its group', async (t) => {
  const path = join(t.testdir(), 'tollgate.db')
  await (await openSqlite({ path, clock: systemClock, log: silentLog })).close()
  const read = () => {
    const database = new DatabaseSync(path)
    try {
      return database
        .prepare('SELECT n FROM numbers ORDER BY n')
        .all()
        .map(({ n }) => n)
    } finally {
      database.close()
    }
  }
  const before = new DatabaseSync(path)
  before.exec('CREATE TABLE numbers (n INTEGER PRIMARY KEY)')
  before.close()
  const program = fileURLToPath(new URL('./fixtures/dyingCall.ts', import.meta.url))
  const killed = spawnSync(process.execPath, [program, path], { stdio: 'inherit' })
  t.equal(killed.signal, 'SIGKILL')
  t.strictSame(read(), [1, 2], 'the group before it was committed')
  const store = await openSqlite({ path, clock: systemClock, log: silentLog })
  t.teardown(() => store.close())
  t.strictSame(await store.health(), [])
})

t.test('a thousand callers at once: each limit holds, and no claim beside them fails', async (t) => {
  const store = await openSqlite({ path: ':memory:', clock: systemClock, log: silentLog })
  t.teardown(() => store.close())
  for (const id of ['s1', 's2']) await store.stores.create(sampleStore(id), null, null)
  const claims = Array.from({ length: 50 }, (_, i) => store.ledger.claim(sampleClaim(`k${i}`)))
  const added = await Promise.allSettled(
    Array.from({ length: 1_000 }, (_, i) => store.keys.add(sampleKey(`key${i}`, i % 2 ? 's1' : 's2'), 100)),
  )
  await Promise.all(claims)
  t.equal(added.filter(({ status }) => status === 'fulfilled').length, 200)
  const refused = added.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
  t.ok(refused.every(({ code }) => code === 'LIMIT_REACHED'))
  t.equal((await store.keys.ofStore('s1')).length, 100)
  t.ok(await store.ledger.find(keyOf('k49')))
  await t.rejects(store.keys.add(sampleKey('orphan', 'nobody'), 9), /FOREIGN KEY/)
})

t.test('a call that holds up the writer is named in the log', async (t) => {
  const { commit } = await openNumbers(t)
  const slowOne = { noun: 'numbers', method: 'lingerAndAdd' }
  t.match(commit.run([call('add', 1), call('lingerAndAdd', 2)]).slow, [slowOne])
  const again = commit.run([call('lingerAndAdd', 2)])
  t.equal(again.failures?.size, 1)
  t.match(again.slow, [slowOne], 'one that fails, too')
  t.equal(commit.run([call('add', 3)]).slow, undefined)

  const warned: unknown[] = []
  const log = { ...silentLog, warn: (fields: unknown) => void warned.push(fields) }
  const slow = new URL(
    `data:text/javascript,${encodeURIComponent(`
    import { parentPort } from 'node:worker_threads'
    parentPort.on('message', (message) => {
      if ('close' in message) return process.exit()
      parentPort.postMessage({ results: [1], failures: null, slow: [{ noun: 'links', method: 'create', ms: 30 }] })
    })
    parentPort.postMessage('ready')`)}`,
  )
  const writer = await startWriter({ path: '', isDurable: false, flushMs: 0, maxRows: 1 }, log, slow)
  await writer.write('probe', 0)
  await writer.close()
  t.strictSame(warned, [{ event: 'slow_call', noun: 'links', method: 'create', ms: 30 }])
})

import { sql } from 'kysely'
import t from 'tap'
import { holdName, transact } from '../../../adapters/store/postgres/transact.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

/** Resolves for all when so many have come. */
function meeting(count: number): () => Promise<void> {
  let resolve: () => void
  const all = new Promise<void>((done) => {
    resolve = done
  })
  return () => {
    if (--count <= 0) resolve()
    return all
  }
}

t.test('two transactions that wait for each other are both made', { skip }, async (t) => {
  const { database } = await makePostgres(t)
  await sql`CREATE TABLE numbers (id bigint PRIMARY KEY, n bigint NOT NULL)`.execute(database.query)
  await sql`INSERT INTO numbers VALUES (1, 0), (2, 0)`.execute(database.query)
  const bothHaveOne = meeting(2)
  let runs = 0
  const addTo = (first: number, second: number) =>
    transact(database, async (transaction) => {
      runs++
      await sql`UPDATE numbers SET n = n + 1 WHERE id = ${first}`.execute(transaction)
      await bothHaveOne()
      await sql`UPDATE numbers SET n = n + 1 WHERE id = ${second}`.execute(transaction)
    })
  await Promise.all([addTo(1, 2), addTo(2, 1)])
  const { rows } = await sql`SELECT n FROM numbers ORDER BY id`.execute(database.query)
  t.strictSame(rows, [{ n: 2 }, { n: 2 }])
  // More often where the server takes long to see that they wait for each other.
  t.ok(runs > 2, 'one of the two had to begin again')
})

t.test('what fails leaves nothing, and its connection is as good as new', { skip }, async (t) => {
  const { database } = await makePostgres(t, { maxConnections: 1 })
  await sql`CREATE TABLE numbers (id bigint PRIMARY KEY)`.execute(database.query)
  const failing = transact(database, async (transaction) => {
    await sql`INSERT INTO numbers VALUES (1)`.execute(transaction)
    throw new Error('on purpose')
  })
  await t.rejects(failing, { message: 'on purpose' })
  const { rows } = await sql`SELECT count(*) AS count FROM numbers`.execute(database.query)
  t.strictSame(rows, [{ count: 0 }])
})

t.test('who holds a name is alone with it until it ends', { skip }, async (t) => {
  const { database } = await makePostgres(t)
  let [inside, most] = [0, 0]
  await Promise.all(
    Array.from({ length: 8 }, () =>
      transact(database, async (transaction) => {
        await holdName(transaction, 'a name')
        most = Math.max(most, ++inside)
        await sql`SELECT 1`.execute(transaction)
        inside--
      }),
    ),
  )
  t.equal(most, 1)
})

t.test('only what may be lost does not wait for the disk', { skip }, async (t) => {
  const { database } = await makePostgres(t, { maxConnections: 1 })
  const setting = sql<{ value: string }>`SELECT current_setting('synchronous_commit') AS value`
  const inside = (durability?: 'visible') =>
    transact(database, async (transaction) => (await setting.execute(transaction)).rows[0]!.value, durability)
  t.equal(await inside('visible'), 'off')
  t.equal(await inside(), 'on')
  t.equal((await setting.execute(database.query)).rows[0]!.value, 'on', 'it ends with its transaction')
})

t.test('a NUL breaks no statement, and what is looked for with one is not there', { skip }, async (t) => {
  const { database } = await makePostgres(t)
  await sql`CREATE TABLE names (name text PRIMARY KEY)`.execute(database.query)
  await sql`INSERT INTO names VALUES ('ann')`.execute(database.query)
  const found = async (name: string) =>
    (
      await sql`SELECT name FROM names WHERE name = ${name} OR name = any(${[name]}::text[])`.execute(
        database.query,
      )
    ).rows.length
  t.equal(await found('ann'), 1)
  t.equal(await found('ann\0'), 0)
  t.equal(await found('\0'), 0)
  await sql`INSERT INTO names VALUES (${'b\0b'})`.execute(database.query)
  t.equal(await found('b\0b'), 1, 'the same text leads to it again')
})

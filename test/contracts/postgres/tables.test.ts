import { hash, randomBytes } from 'node:crypto'
import pg from 'pg'
import t, { type Test } from 'tap'
import { statements } from '../../../adapters/store/postgres/migrate.ts'
import { openPostgres } from '../../../adapters/store/postgres/openPostgres.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { newSchema } from '../../helpers/postgres.ts'
import { testClock } from '../samples.ts'
import { databaseUrl, makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false
const newName = () => `tollgate_test_${process.pid}_${randomBytes(4).toString('hex')}`

async function runAsOwner(t: Test, statement: string, undo: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  t.teardown(async () => {
    await client.query(undo)
    await client.end()
  })
  await client.query(statement)
}

const urlWith = (change: (url: URL) => void): string => {
  const url = new URL(databaseUrl)
  change(url)
  return url.href
}

t.test('processes that start at once make the tables once', { skip }, async (t) => {
  const first = await makePostgres(t)
  const others = await Promise.all([1, 2, 3, 4].map(() => makePostgres(t, { schema: first.schema })))
  for (const store of others) t.strictSame(await store.health(), [])
})

t.test(
  'processes that start at once where there is nothing, not even the schema, all start',
  { skip },
  async (t) => {
    for (let round = 0; round < 5; round++) {
      const { schema } = newSchema(t)
      const stores = await Promise.all([1, 2, 3, 4, 5, 6].map(() => makePostgres(t, { schema })))
      for (const store of stores) t.strictSame(await store.health(), [])
      await Promise.all(stores.map((store) => store.close()))
    }
  },
)

t.test('a database that a newer version wrote is refused in words', { skip }, async (t) => {
  const { schema } = await makePostgres(t)
  await runAsOwner(
    t,
    `INSERT INTO ${schema}.kysely_migration VALUES ('9999-future', '2030-01-01')`,
    'SELECT 1',
  )
  await t.rejects(makePostgres(t, { schema }), { message: /9999-future.*newer version/ })
})

// When this fails: before the first release, set the pin to the new hash. After it, put the migration back as it was and add another
// one beside it, since databases that applied the released one don't apply it again.
t.test('a released migration is frozen', async (t) => {
  const hashes = Object.entries(statements).map(([name, text]) => [name, hash('sha256', text('"default"'))])
  t.strictSame(Object.fromEntries(hashes), {
    '0001-schema': '45383e6b9fddbbbc1a35f4bd637cea30ad6ae59839f9d5d5d2e27158f2fdfeec',
  })
})

t.test('a server that does not answer is said in a second', async (t) => {
  const options = { clock: testClock(), log: silentLog }
  await t.rejects(openPostgres({ ...options, url: 'postgres://nobody@127.0.0.1:1/none' }), {
    code: 'store_unavailable',
  })
})

t.test('a role that may make no schema uses the one that was made for it', { skip }, async (t) => {
  const role = newName()
  await runAsOwner(t, `CREATE ROLE ${role} LOGIN PASSWORD 'secret'`, `DROP ROLE ${role}`)
  const url = urlWith((own) => {
    own.username = role
    own.password = 'secret'
  })
  const options = { url, schema: role, clock: testClock(), log: silentLog }
  await t.rejects(openPostgres(options), {
    message: new RegExp(`^The role ${role} may not make the schema ${role} in the database .*CREATE SCHEMA`),
  })
  await runAsOwner(t, `CREATE SCHEMA ${role} AUTHORIZATION ${role}`, `DROP SCHEMA ${role} CASCADE`)
  const store = await openPostgres(options)
  t.teardown(() => store.close())
  t.strictSame(await store.health(), [])
})

for (const encoding of ['SQL_ASCII', 'LATIN1'])
  t.test(`a database in ${encoding} is refused in words, and nothing is made in it`, { skip }, async (t) => {
    const name = newName()
    await runAsOwner(
      t,
      `CREATE DATABASE ${name} ENCODING '${encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`,
      `DROP DATABASE ${name} WITH (FORCE)`,
    )
    const url = urlWith((own) => {
      own.pathname = `/${name}`
    })
    await t.rejects(openPostgres({ url, clock: testClock(), log: silentLog }), {
      message: new RegExp(
        `^Expected the database ${name} to have the encoding UTF8, but it has ${encoding}\\.`,
      ),
    })
  })

t.test('a server that answers and takes no writes is not taken for well', { skip }, async (t) => {
  // One connection reads, and one commits.
  const store = await makePostgres(t, { maxConnections: 2 })
  t.strictSame(await store.health(), [])
  // As a standby does.
  await store.database.pool.query('SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY')
  t.match(await store.health(), [/accepts no writes: .*read-only/])
  t.equal((await store.stores.byUsername('nobody')) ?? null, null)
})

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import pg from 'pg'
import t, { type Test } from 'tap'
import { copyIn } from '../../../adapters/store/postgres/move/copyIn.ts'
import { moveFromSqlite } from '../../../adapters/store/postgres/move/moveFromSqlite.ts'
import { openSqlite } from '../../../adapters/store/sqlite/openSqlite.ts'
import { type Filled, fillStore } from '../../../bench/scale/fillStore.ts'
import { silentLog } from '../../../core/ports/log.ts'
import type { DataStore } from '../../../core/ports/store/store.ts'
import { claimed, sampleClaim, sampleKey, sampleStore, startMs, testClock } from '../samples.ts'
import { databaseUrl, makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

const HOUR_MS = 3_600_000
const nowMs = Math.floor(startMs / HOUR_MS) * HOUR_MS

async function filled(t: Test) {
  const folder = join(t.testdir({}), 'filled')
  await fillStore({ folder, links: 60, sales: 600, upstreamPort: 1, nowMs })
  return {
    path: join(folder, 'tollgate.db'),
    ...(JSON.parse(readFileSync(join(folder, 'filled.json'), 'utf8')) as Filled),
  }
}

/** All that a seller, his buyers and the operator can ask about one store. */
async function seen(store: DataStore, username: string) {
  const found = (await store.stores.byUsername(username))!
  const { links } = await store.links.page(found.id, { limit: 100 })
  const always = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER }
  const purchases = await store.purchases.page(found.id, { limit: 100 })
  return {
    found,
    links,
    purchases,
    payments: await Promise.all(purchases.purchases.map(({ paymentKey }) => store.ledger.find(paymentKey))),
    totals: await store.stats.totals(found.id, always),
    days: await store.stats.series(found.id, { ...always, bucketMs: 86_400_000 }),
    ofLinks: await store.stats.ofLinks(
      found.id,
      links.map(({ id }) => id),
      0,
    ),
    fees: await store.fees.months(found.id),
    endpoints: await store.webhooks.ofStore(found.id),
    served: await Promise.all(links.map(({ slug }) => store.links.served(username, slug))),
    listed: (await store.discovery.search({ username, sort: 'newest', limit: 50, offset: 0 })).links,
  }
}

t.test('a store that is moved answers everything as its file did', { skip }, async (t) => {
  const { path, largest, usual } = await filled(t)
  const sqlite = await openSqlite({ path, clock: testClock(), log: silentLog })
  const before = [await seen(sqlite, largest.username), await seen(sqlite, usual.username)]
  const { broken: _, ...ledger } = await sqlite.purchases.ledgerCheck()
  await sqlite.close()

  const postgres = await makePostgres(t)
  const received: string[] = []
  const moved = await moveFromSqlite(path, { url: databaseUrl, schema: postgres.schema }, (table) =>
    received.push(table),
  )
  t.ok(moved.find(({ table }) => table === 'purchases')!.rows >= 600)
  t.ok(received.includes('ledger'))
  t.ok(before[0]!.purchases.purchases.length > 50)
  t.ok(before[0]!.listed.length > 3)
  t.strictSame(await seen(postgres, largest.username), before[0])
  t.strictSame(await seen(postgres, usual.username), before[1])
  const { broken, ...after } = await postgres.purchases.ledgerCheck()
  t.strictSame(broken, [])
  t.strictSame(after, ledger)

  const row = await claimed(postgres, sampleClaim('after the move'))
  t.ok(row > moved.find(({ table }) => table === 'payments')!.rows - 1)
})

/** Everything that the tables of a schema are held together by, without the schema's name. */
async function rulesOf({ database: { pool }, schema }: Awaited<ReturnType<typeof makePostgres>>) {
  const { rows } = await pool.query(`
    SELECT conrelid::regclass::text AS of, conname AS name, pg_get_constraintdef(oid) AS is, convalidated::text AS how
      FROM pg_constraint WHERE connamespace = current_schema()::regnamespace
    UNION ALL SELECT tablename, indexname, replace(indexdef, current_schema() || '.', ''), ''
      FROM pg_indexes WHERE schemaname = current_schema()
    UNION ALL SELECT tgrelid::regclass::text, tgname, replace(pg_get_triggerdef(g.oid), current_schema() || '.', ''), tgenabled::text
      FROM pg_trigger g JOIN pg_class c ON c.oid = tgrelid
      WHERE c.relnamespace = current_schema()::regnamespace AND NOT tgisinternal
    ORDER BY 1, 2, 3`)
  return rows.map((row) => ({ ...row, name: String(row.name).replaceAll(schema, '') }))
}

t.test(
  'tables that were moved into have the keys, indexes and triggers that they had',
  { skip },
  async (t) => {
    const { path } = await filled(t)
    const postgres = await makePostgres(t)
    const before = await rulesOf(postgres)
    t.ok(before.length > 150)
    await moveFromSqlite(path, { url: databaseUrl, schema: postgres.schema }, () => {})
    t.strictSame(await rulesOf(postgres), before)
    await t.rejects(postgres.database.pool.query(`DELETE FROM stores`), {
      code: '23503',
    })
  },
)

t.test('rows arrive as they were, whatever stands in them', { skip }, async (t) => {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  t.teardown(() => client.end())
  await client.query(
    'CREATE TEMPORARY TABLE kept (n int PRIMARY KEY, of_text text, of_bytes bytea, of_number double precision)',
  )
  const odd = fc.stringMatching(/^[\\\t\n\r\0Nx.,a ]*$/)
  const row = fc.tuple(
    fc.option(fc.oneof(fc.string({ unit: 'grapheme' }), odd)),
    fc.option(fc.uint8Array({ maxLength: 40 })),
    fc.option(fc.oneof(fc.maxSafeInteger(), fc.double({ noNaN: true, noDefaultInfinity: true }))),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(row, { maxLength: 20 }), async (rows) => {
      const given = rows.map((values, n) => [n, ...values] as const)
      await client.query('TRUNCATE kept')
      t.equal(await copyIn(client, 'COPY kept FROM STDIN', given), rows.length)
      const { rows: found } = await client.query({ text: 'SELECT * FROM kept ORDER BY n', rowMode: 'array' })
      const expected = given.map(([n, text, bytes, number]) => [
        n,
        text?.replaceAll('\0', '\ufffd') ?? null,
        bytes && Buffer.from(bytes),
        number === null ? null : number + 0,
      ])
      t.strictSame(found, expected)
    }),
    { numRuns: 60 },
  )
})

t.test(
  'rows that break a rule, and rows that can not be read, leave nothing and the connection in order',
  { skip },
  async (t) => {
    const client = new pg.Client({ connectionString: databaseUrl })
    await client.connect()
    t.teardown(() => client.end())
    await client.query('CREATE TEMPORARY TABLE kept (n int PRIMARY KEY, filler text)')
    const filler = 'x'.repeat(100_000)
    const copy = (rows: Iterable<readonly [number, string]>) => copyIn(client, 'COPY kept FROM STDIN', rows)
    await t.rejects(copy([1, 2, 2].map((n) => [n, filler])), { code: '23505' })
    await t.rejects(copy(Array.from({ length: 100 }, (_, n) => [n === 3 ? 0.5 : n, filler])), {
      code: '22P02',
    })
    function* broken(): Generator<readonly [number, string]> {
      yield [1, filler]
      throw new Error('the file ends here')
    }
    await t.rejects(copy(broken()), { message: 'the file ends here' })
    t.equal((await client.query('SELECT * FROM kept')).rows.length, 0)
    t.equal(await copy([[1, filler]]), 1)
  },
)

t.test(
  'a file that a gateway works on is not moved, and nothing is moved over another store',
  { skip },
  async (t) => {
    const { path } = await filled(t)
    const postgres = await makePostgres(t)
    const move = () => moveFromSqlite(path, { url: databaseUrl, schema: postgres.schema }, () => {})
    const sqlite = await openSqlite({ path, clock: testClock(), log: silentLog })
    const lease = await sqlite.leases.take('process:1', 60_000)
    await t.rejects(move(), { message: /Stop the gateway first/ })
    // One that stands still has no lease any more, and goes on selling when it wakes up.
    const past = new DatabaseSync(path)
    past.exec('UPDATE leases SET expires_at_ms = expires_at_ms - 61000')
    past.close()
    await t.rejects(move(), { message: /is paused.*Stop the gateway first/ })
    await sqlite.leases.release(lease!)
    await sqlite.close()
    await postgres.stores.create(sampleStore('s1'), null, sampleKey('k1', 's1'))
    await t.rejects(move(), { message: /it has some in api_keys, stores. Nothing was moved/ })
    t.equal((await postgres.links.page('s1', { limit: 9 })).links.length, 0)
  },
)

t.test(
  'a file that is written to while it is copied is not moved: nothing of it is there',
  { skip },
  async (t) => {
    const { path } = await filled(t)
    const postgres = await makePostgres(t)
    const move = moveFromSqlite(path, { url: databaseUrl, schema: postgres.schema }, (table) => {
      if (table !== 'payments') return
      // As a gateway does that an operator or a service manager starts in the middle.
      const other = new DatabaseSync(path)
      other.exec("UPDATE stores SET bio = 'New since it was copied'")
      other.close()
    })
    await t.rejects(move, { message: /wrote to the file during the copy.*Nothing was moved/ })
    const { rows } = await postgres.database.pool.query('SELECT count(*) AS n FROM payments')
    t.equal(Number(rows[0].n), 0)
  },
)

t.test('a payment that is on its way as the store is moved is taken up there', { skip }, async (t) => {
  const { path } = await filled(t)
  const sqlite = await openSqlite({ path, clock: testClock(), log: silentLog })
  await claimed(sqlite, sampleClaim('on its way'))
  const before = await sqlite.ledger.list({ states: ['claimed'], limit: 10 })
  await sqlite.close()
  const postgres = await makePostgres(t)
  await moveFromSqlite(path, { url: databaseUrl, schema: postgres.schema }, () => {})
  t.equal(before.length, 1)
  t.strictSame(await postgres.ledger.list({ states: ['claimed'], limit: 10 }), before)
  t.strictSame((await postgres.purchases.ledgerCheck()).broken, [])
})

t.test(
  'a server that ends the connection in the middle has moved nothing, which is said',
  { skip },
  async (t) => {
    const { path } = await filled(t)
    const postgres = await makePostgres(t)
    const { schema } = postgres
    const url = new URL(databaseUrl)
    url.searchParams.set('application_name', schema)
    // Beside this thread, which waits for it: the next rows find no server.
    const end = `
    import pg from 'pg'
    const client = new pg.Client(${JSON.stringify(databaseUrl)})
    await client.connect()
    const { rowCount } = await client.query(
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', ['${schema}'])
    await client.end()
    if (rowCount !== 1) process.exit(1)`
    const move = (at: string | undefined) =>
      moveFromSqlite(path, { url: url.href, schema }, (what) => {
        if (what !== at) return
        at = undefined
        execFileSync(process.execPath, ['--input-type=module', '-e', end], { cwd: import.meta.dirname })
      })
    for (const at of ['payments', 'indexes of payments'])
      await t.rejects(move(at), { message: /^PostgreSQL failed during the move: .*Nothing was moved/ })
    t.equal((await postgres.database.pool.query('SELECT 1 FROM payments')).rowCount, 0)
    t.ok((await move(undefined)).length > 10, 'the next try moves everything')
  },
)

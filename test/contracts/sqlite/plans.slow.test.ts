import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { prepareOperations } from '../../../adapters/store/sqlite/commit/operations.ts'
import { migrate } from '../../../adapters/store/sqlite/migrate.ts'

/** What may read a whole table without an index, and why that does not grow with sales, links or checks. */
const allowed: readonly { readonly table: string; readonly sql: RegExp; readonly why: string }[] = [
  { table: 'leases', sql: /./, why: 'one row a process' },
  { table: 'messages', sql: /^DELETE FROM messages/, why: 'what processes have not read yet' },
  { table: 'rollups_due', sql: /./, why: 'what waits to be added up, two seconds of sales' },
  { table: 'channel_sums', sql: /./, why: 'what waits to be booked, a second of calls' },
  { table: 'channel_claims', sql: /./, why: 'what waits to be booked, a second of claims' },
  { table: 'channel_payouts', sql: /./, why: 'wallets that the contract owes money, which claims pay out' },
  {
    table: 'channel_totals',
    sql: /^SELECT store_id, network, token, kind/,
    why: 'the check of channels reads everything, and of this a row a store and token',
  },
  {
    table: 'channel_configs',
    sql: /^SELECT store_id, network, token, kind/,
    why: 'the check of channels reads everything',
  },
  {
    table: 'payments',
    sql: /^UPDATE payments SET .* AND \(0\)/,
    why: 'a change from no state at all: SQLite sees that it is never true, and reads nothing',
  },
  {
    table: 'fee_rollups',
    sql: /^SELECT (DISTINCT month FROM fee_rollups|\* FROM fee_rollups WHERE month = \?)$/,
    why: 'the ledger check reads everything, and of this a row a store, month and token',
  },
  {
    table: 'ledger_checked_days',
    sql: /^DELETE FROM ledger_checked_days/,
    why: 'one row a day, when something of an old one moves',
  },
  {
    table: 'username_redirects',
    sql: /^DELETE FROM username_redirects/,
    why: 'one row a store that was renamed, when one is',
  },
  {
    table: 'slug_redirects',
    sql: /^INSERT INTO links/,
    why: 'children of a new row: SQLite looks for them only while a foreign key is broken',
  },
]

/** Every text that is prepared meanwhile, as {@link statementsOf} gives them. */
async function preparedBy(database: DatabaseSync, work: () => unknown): Promise<Set<string>> {
  const texts = new Set<string>()
  database.prepare = (sql, ...more) => {
    texts.add(inOneLine(sql))
    return DatabaseSync.prototype.prepare.call(database, sql, ...more)
  }
  await work()
  database.prepare = DatabaseSync.prototype.prepare
  return texts
}

const inOneLine = (sql: string) => sql.replaceAll(/\s+/g, ' ').trim()

/** The tables that a statement reads from beginning to end. Names in a plan are those that the statement gives them. */
function scansOf(database: DatabaseSync, sql: string): string[] {
  const isTable = database.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?")
  const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all()
  return plan.flatMap(({ detail }) => {
    const name = /^SCAN (\w+)$/.exec(String(detail))?.[1]
    if (name === undefined || name === 'CONSTANT') return []
    if (name === 'sqlite_master' || isTable.get(name)) return [name]
    const named = sql.matchAll(new RegExp(`(\\w+|\\))"?\\s+(?:as\\s+)?"?${name}"?(?=[\\s),]|$)`, 'gi'))
    const whose = [...named].map(([, before]) => before!)
    const tables = whose.filter((one) => isTable.get(one))
    // A part of the statement itself is read as the plan's other lines say.
    const isPart = [name, ...whose].some(
      (one) => one === ')' || new RegExp(`\\b${one}( \\([^)]*\\))? AS (MATERIALIZED )?\\(`).test(sql),
    )
    return tables.length > 0 ? tables : isPart ? [] : [`${name}, which nothing is known of`]
  })
}

/** What triggers run, with values in the place of the row's. */
const stepsOfTriggers = (database: DatabaseSync): string[] =>
  database
    .prepare("SELECT sql FROM sqlite_master WHERE type = 'trigger'")
    .all()
    .flatMap(({ sql }) => /BEGIN(.*)END/s.exec(String(sql))![1]!.split(';'))
    .map((step) => step.replaceAll(/\b(NEW|OLD)\.\w+/gi, '?').trim())
    .filter((step) => step !== '' && !step.includes('RAISE('))

/** Runs a program of this folder. @returns the texts that its threads prepared */
async function statementsOf(t: Test, program: string, ...args: string[]): Promise<Set<string>> {
  const file = join(t.testdir(), 'statements')
  writeFileSync(file, '')
  const recorder = new URL('./fixtures/recordStatements.ts', import.meta.url).href
  const child = spawn(process.execPath, [fileURLToPath(new URL(program, import.meta.url)), ...args], {
    env: { ...process.env, NODE_OPTIONS: `--import ${recorder}`, RECORDED_STATEMENTS: file },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [code] = await once(child, 'exit')
  t.equal(code, 0, program)
  return new Set(
    readFileSync(file, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => inOneLine(JSON.parse(line) as string)),
  )
}

t.test(
  'no statement reads a table that grows with sales, links or checks from beginning to end',
  async (t) => {
    const database = new DatabaseSync(join(t.testdir(), 'tollgate.db'))
    t.teardown(() => database.close())
    for (const name of ['sum_atomic', 'count_buyers'])
      database.aggregate(name, { start: 0, step: (sum: number, _) => sum })
    database.function('folded', { deterministic: true }, (text) => text)
    // A migration is written for the tables of its time, and runs once.
    const ofMigrations = await preparedBy(database, () => migrate(database))
    for (const sql of await preparedBy(database, () => prepareOperations(database))) ofMigrations.delete(sql)
    t.notOk(
      database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'").get(),
      'no statistics are kept: plans are the same whatever there is',
    )

    t.strictSame(scansOf(database, "SELECT * FROM purchases u WHERE u.amount_atomic = '1'"), ['purchases'])
    t.strictSame(scansOf(database, 'select * from "links" as "l" where "l"."price" = ?'), ['links'])
    t.strictSame(scansOf(database, 'WITH x AS MATERIALIZED (SELECT * FROM ledger) SELECT * FROM x'), [
      'ledger',
    ])
    t.strictSame(scansOf(database, 'DELETE FROM purchases WHERE payment_id = 1'), [])

    const statements = await statementsOf(t, './ports.slow.test.ts')
    const isOfAll = (part: string) => [...statements].some((sql) => sql.includes(part))
    for (const part of [
      'INSERT INTO payments',
      'count_buyers',
      'SELECT status, headers, body',
      'rollups_due',
    ])
      t.ok(isOfAll(part), `every thread is listened to: ${part}`)
    const unused = new Set(allowed)
    for (const sql of [...statements, ...stepsOfTriggers(database)]) {
      if (ofMigrations.has(sql) || !/^(SELECT|WITH|INSERT|UPDATE|DELETE)\b/i.test(sql)) continue
      for (const table of scansOf(database, sql)) {
        const permits = allowed.filter((one) => one.table === table && one.sql.test(sql))
        for (const one of permits) unused.delete(one)
        if (permits.length === 0) t.fail(`${table} is read from beginning to end: ${sql}`)
      }
    }
    t.strictSame(
      [...unused].map(({ table, why }) => `${table}: ${why}`),
      [],
      'what is allowed happens',
    )
  },
)

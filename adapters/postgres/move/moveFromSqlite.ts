import type { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { machineClock } from '../../../core/ports/clock.ts'
import { type Packed, packed } from '../../sql/packed.ts'
import { connectReader } from '../../sqlite/connect.ts'
import { workerOf } from '../../sqlite/workerOf.ts'
import { type CopyValue, copyIn } from './copyIn.ts'
import { withoutIndexes } from './withoutIndexes.ts'

/** What was moved of one table. */
export interface MovedTable {
  readonly table: string
  readonly rows: number
}

/**
 * What is not moved: who holds what and who was told of what, which ends with the processes; and what triggers keep beside the
 * rows, which is made anew.
 */
const notMoved = new Set([
  ...['changes', 'leases', 'letters', 'probes', 'sqlite_sequence'],
  ...[
    'listings',
    'listing_tags',
    'judged_days',
    'judged_months',
    'kysely_migration',
    'kysely_migration_lock',
  ],
])

/**
 * Copies the store in a SQLite file into the tables of a PostgreSQL schema, which are there and empty. In one transaction: it is there
 * as a whole, or nothing is. The file is only read. Nobody else reads or writes these tables meanwhile.
 *
 * @param onProgress hears in words what is being done, and of which rows how many are there
 * @throws in words when a gateway works on the file or somebody writes to it meanwhile, the schema is not empty, or a table's rows are not all there afterwards
 */
export async function moveFromSqlite(
  path: string,
  { url, schema }: { readonly url: string; readonly schema: string },
  onProgress: (what: string, rows?: number) => void,
): Promise<MovedTable[]> {
  const from = connectReader(path)
  const observer = connectReader(path)
  const to = new pg.Client({
    connectionString: url,
    options: `-c search_path=${schema}`,
    connectionTimeoutMillis: 5_000,
  })
  let isLost = false
  // Who asks is told by what he asked.
  to.on('error', () => {
    isLost = true
  })
  let isCommitting = false
  try {
    const version = versionOf(observer)
    // All tables as they stand at one moment.
    from.exec('BEGIN')
    refuseWhileInUse(from)
    const tables = tablesOf(from)
    const names = tables.map(({ table }) => table)
    await to.connect()
    await to.query('BEGIN')
    // Minutes, whatever is usual on this server.
    await to.query('SET LOCAL statement_timeout = 0')
    await to.query(`LOCK TABLE ${names.join(', ')} IN ACCESS EXCLUSIVE MODE`)
    await refuseUnlessEmpty(to, schema, names)
    // A table that is emptied here takes its rows frozen: they are never looked through again for who sees them.
    await to.query(`TRUNCATE ${names.join(', ')}`)
    for (const table of names) await to.query(`ALTER TABLE ${table} DISABLE TRIGGER USER`)
    const moved = await withoutIndexes(
      to,
      names,
      (table) => onProgress(`indexes of ${table}`),
      async () => {
        const all: MovedTable[] = []
        for (const { table, columns } of tables) {
          onProgress(table)
          const rows = await copyTable(from, to, table, columns, (done) => onProgress(table, done))
          all.push({ table, rows })
        }
        return all
      },
    )
    // The server would look at so many new rows in a minute or later, and find its way by none until then.
    onProgress('statistics')
    await to.query(`ANALYZE ${names.join(', ')}`)
    for (const table of names) await to.query(`ALTER TABLE ${table} ENABLE TRIGGER USER`)
    onProgress('listings')
    await to.query('SELECT list_links(ARRAY(SELECT id FROM links WHERE is_active = 1))')
    await to.query('ANALYZE listings, listing_tags')
    await goOnCounting(from, to, schema)
    // A payment that was taken meanwhile would be forgotten.
    if (versionOf(observer) !== version)
      throw new Error(
        'The file was written to while it was copied: a gateway works on it. Nothing was moved. Stop it, and try again.',
      )
    isCommitting = true
    await to.query('COMMIT')
    return moved
  } catch (error) {
    if (!isLost && !(error instanceof pg.DatabaseError)) throw error
    const outcome = isCommitting
      ? 'It may have moved everything or nothing: try again, and a schema that is refused for its rows has everything.'
      : 'Nothing was moved, and it can be tried again.'
    throw new Error(`PostgreSQL broke the move off: ${(error as Error).message}. ${outcome}`, {
      cause: error,
    })
  } finally {
    await to.end()
    from.close()
    observer.close()
  }
}

/** Another number after each commit of anybody else. */
const versionOf = (database: DatabaseSync) => database.prepare('PRAGMA data_version').get()!['data_version']

function refuseWhileInUse(from: DatabaseSync): void {
  const worker = workerOf(from, machineClock.now())
  if (worker?.standsStill)
    throw new Error(
      `A gateway of this database, process ${worker.pid}, stands still, and would go on selling on it. Stop it first, and try again.`,
    )
  if (worker !== undefined)
    throw new Error(
      'A gateway works on this database, or did some seconds ago. Stop it first, and try again.',
    )
}

async function refuseUnlessEmpty(to: pg.Client, schema: string, tables: readonly string[]): Promise<void> {
  const looks = tables.map((table) => `SELECT '${table}' AS name WHERE EXISTS (SELECT 1 FROM ${table})`)
  const { rows } = await to.query<{ name: string }>(looks.join(' UNION ALL '))
  if (rows.length > 0)
    throw new Error(
      `Expected a schema ${schema} without rows, but it has some in ${rows.map(({ name }) => name).join(', ')}. Nothing was moved. Name a new one in storage.postgres.schema, or drop this one when it holds nothing that is needed.`,
    )
}

function tablesOf(from: DatabaseSync) {
  const names = from
    .prepare(
      `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'listing_words%' ORDER BY name`,
    )
    .all()
    .map(({ name }) => String(name))
  return names
    .filter((name) => !notMoved.has(name))
    .map((table) => ({
      table,
      columns: from
        .prepare(`SELECT name FROM pragma_table_info(?)`)
        .all(table)
        .map(({ name }) => String(name)),
    }))
}

/** @returns how many rows there are, in both */
async function copyTable(
  from: DatabaseSync,
  to: pg.Client,
  table: string,
  columns: readonly string[],
  onRows: (rows: number) => void,
): Promise<number> {
  const list = columns.map((name) => `"${name}"`).join(', ')
  const select = from.prepare(`SELECT ${list} FROM ${table}`)
  select.setReturnArrays(true)
  const unpacked = columns.flatMap((name, i) => {
    const textOf = packedColumns[`${table}.${name}`]
    return textOf === undefined ? [] : [[i, textOf] as const]
  })
  let read = 0
  function* rows() {
    for (const row of select.iterate()) {
      read++
      const values = row as unknown as CopyValue[]
      for (const [i, textOf] of unpacked) if (values[i] !== null) values[i] = textOf(values[i] as Packed)
      yield values
    }
  }
  await copyIn(to, `COPY ${table} (${list}) FROM STDIN (FREEZE)`, rows(), onRows)
  const { rows: counted } = await to.query<{ count: string }>(`SELECT count(*) FROM ${table}`)
  if (Number(counted[0]!.count) !== read)
    throw new Error(
      `Expected ${read} rows in ${table}, but ${counted[0]!.count} came over. Nothing was moved.`,
    )
  return read
}

/** What SQLite keeps as bytes and PostgreSQL as text. */
const packedColumns: Readonly<Record<string, (kept: Packed) => string>> = {
  'payments.payer': packed.hexText,
  'payments.pay_to': packed.hexText,
  'payments.nonce': packed.hexText,
  'payments.request_hash': packed.callText,
  'payments.tx_hash': packed.hexText,
  'purchases.tx_hash': packed.hexText,
  'purchases.review_token_hash': packed.callText,
}

/** Numbers that are given out next are above all that were, those of leases included: fencing tokens never come back. */
async function goOnCounting(from: DatabaseSync, to: pg.Client, schema: string): Promise<void> {
  const { rows } = await to.query<{ table_name: string; column_name: string }>(
    `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = $1 AND is_identity = 'YES'`,
    [schema],
  )
  const sequences = from.prepare('SELECT seq FROM sqlite_sequence WHERE name = ?')
  for (const { table_name: table, column_name: column } of rows) {
    const given = Number(sequences.get(table)?.['seq'] ?? 0)
    await to.query(
      `SELECT setval(pg_get_serial_sequence('${table}', '${column}'),
        greatest($1::bigint, (SELECT coalesce(max("${column}"), 0) FROM ${table})) + 1, false)`,
      [given],
    )
  }
}

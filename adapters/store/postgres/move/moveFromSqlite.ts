import type { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { machineClock } from '../../../../core/ports/clock.ts'
import { packed } from '../../sql/sales/paymentRows.ts'
import type { Packed } from '../../sql/schema.ts'
import { workerOf } from '../../sqlite/backup/backup.ts'
import { connectReader } from '../../sqlite/connect.ts'
import { type CopyValue, copyIn } from './copyIn.ts'

/** The progress of one table. */
export interface MovedTable {
  readonly table: string
  readonly rows: number
}

/** Tables that are not moved. Leases, messages and changes end with the processes. Triggers rebuild the other tables. */
const notMoved = new Set([
  ...['changes', 'leases', 'messages', 'probes', 'sqlite_sequence'],
  ...[
    'listings',
    'listing_tags',
    'ledger_checked_days',
    'ledger_checked_months',
    'kysely_migration',
    'kysely_migration_lock',
  ],
])

/**
 * Copies the database in a SQLite file into the existing, empty tables of a PostgreSQL schema. The move is one transaction, so it
 * moves everything or nothing. It only reads the file. No other process may use these tables meanwhile.
 *
 * @param onProgress called with the name of the step, and for rows with the number copied
 * @throws when a gateway uses the file or writes to it meanwhile, the schema is not empty, or rows of a table are missing
 * afterwards
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
  // The listener needs no error, because the statement in progress fails with the same one.
  to.on('error', () => {
    isLost = true
  })
  let isCommitting = false
  try {
    const version = versionOf(observer)
    // One transaction reads all tables as of the same moment.
    from.exec('BEGIN')
    refuseWhileInUse(from)
    const tables = tablesOf(from)
    const names = tables.map(({ table }) => table)
    await to.connect()
    await to.query('BEGIN')
    // The move takes minutes, so the server's usual timeout must not apply.
    await to.query('SET LOCAL statement_timeout = 0')
    await to.query(`LOCK TABLE ${names.join(', ')} IN ACCESS EXCLUSIVE MODE`)
    await refuseUnlessEmpty(to, schema, names)
    // PostgreSQL can store rows as frozen if their table was emptied in the same transaction. Then the server never has to check
    // their visibility again.
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
    // Without this, the server would collect statistics only a minute later or more, and would plan badly until then.
    onProgress('statistics')
    await to.query(`ANALYZE ${names.join(', ')}`)
    for (const table of names) await to.query(`ALTER TABLE ${table} ENABLE TRIGGER USER`)
    onProgress('listings')
    await to.query('SELECT list_links(ARRAY(SELECT id FROM links WHERE is_active = 1))')
    await to.query('ANALYZE listings, listing_tags')
    await goOnCounting(from, to, schema)
    // A payment that the gateway accepted meanwhile would be lost.
    if (versionOf(observer) !== version)
      throw new Error(
        'A gateway wrote to the file during the copy. Nothing was moved. Stop the gateway, and try again.',
      )
    isCommitting = true
    await to.query('COMMIT')
    return moved
  } catch (error) {
    if (!isLost && !(error instanceof pg.DatabaseError)) throw error
    const outcome = isCommitting
      ? 'Either everything was moved or nothing. Try again. If the schema is refused because it has rows, everything was moved.'
      : 'Nothing was moved. Try again.'
    throw new Error(`PostgreSQL failed during the move: ${(error as Error).message}. ${outcome}`, {
      cause: error,
    })
  } finally {
    await to.end()
    from.close()
    observer.close()
  }
}

/** A number that changes with each commit of another connection. */
const versionOf = (database: DatabaseSync) => database.prepare('PRAGMA data_version').get()!['data_version']

function refuseWhileInUse(from: DatabaseSync): void {
  const worker = workerOf(from, machineClock.now())
  if (worker?.standsStill)
    throw new Error(
      `A gateway of this database, process ${worker.pid}, is paused and would continue to sell. Stop the gateway first, and try again.`,
    )
  if (worker !== undefined)
    throw new Error(
      'A gateway uses this database, or used it some seconds ago. Stop the gateway first, and try again.',
    )
}

async function refuseUnlessEmpty(to: pg.Client, schema: string, tables: readonly string[]): Promise<void> {
  const counts = tables.map((table) => `SELECT '${table}' AS name WHERE EXISTS (SELECT 1 FROM ${table})`)
  const { rows } = await to.query<{ name: string }>(counts.join(' UNION ALL '))
  if (rows.length > 0)
    throw new Error(
      `Expected a schema ${schema} without rows, but it has some in ${rows.map(({ name }) => name).join(', ')}. Nothing was moved. Set storage.postgres.schema to a new schema, or drop this schema if you do not need its rows.`,
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

/** @returns the number of rows, which is the same in both databases */
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
    throw new Error(`Expected ${read} rows in ${table}, but ${counted[0]!.count} arrived. Nothing was moved.`)
  return read
}

/** Columns that SQLite stores as bytes and PostgreSQL as text. */
const packedColumns: Readonly<Record<string, (stored: Packed) => string>> = {
  'payments.payer': packed.hexText,
  'payments.pay_to': packed.hexText,
  'payments.nonce': packed.hexText,
  'payments.request_hash': packed.callText,
  'payments.tx_hash': packed.hexText,
  'purchases.tx_hash': packed.hexText,
  'purchases.review_token_hash': packed.callText,
}

/**
 * Sets each sequence above all numbers that were ever used. This includes numbers of leases, because fencing tokens are never
 * reused.
 */
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

interface Definition {
  readonly table: string
  readonly name: string
  readonly definition: string
  /** The kind of the constraint (primary key, unique, foreign key). Null for an index without a constraint. */
  readonly kind: 'p' | 'u' | 'f' | null
}

/** Memory for building an index, in kB. It is used if the server's own setting is lower. */
const INDEX_MEMORY_KB = 256 * 1024

/**
 * Runs `work` while the tables have no indexes, keys and foreign keys, and then recreates all of them. This is faster, because
 * building an index sorts the rows once instead of searching for each row's position. It runs in the caller's transaction.
 *
 * @param tables that no other transaction reads or writes before the commit
 * @param onTable called with the table whose keys and indexes are being created
 * @throws the server's error if the rows break a key; the caller's transaction has then failed
 */
async function withoutIndexes<T>(
  client: pg.Client,
  tables: readonly string[],
  onTable: (table: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  const { rows: found } = await client.query<Definition>(definitions, [tables])
  const [indexes, keys, references] = [
    found.filter(({ kind }) => kind === null),
    found.filter(({ kind }) => kind === 'p' || kind === 'u'),
    found.filter(({ kind }) => kind === 'f'),
  ]
  for (const { table, name } of [...references, ...keys])
    await client.query(`ALTER TABLE ${table} DROP CONSTRAINT ${name}`)
  for (const { name } of indexes) await client.query(`DROP INDEX ${name}`)
  const done = await work()
  await client.query(
    `SELECT set_config('maintenance_work_mem', $1, true)
    FROM pg_settings WHERE name = 'maintenance_work_mem' AND setting::bigint < ${INDEX_MEMORY_KB}`,
    [`${INDEX_MEMORY_KB}kB`],
  )
  for (const table of tables) {
    onTable(table)
    for (const one of keys) if (one.table === table) await addConstraint(one)
    for (const one of indexes) if (one.table === table) await client.query(one.definition)
  }
  for (const one of references) await addConstraint(one)
  return done

  async function addConstraint({ table, name, definition }: Definition): Promise<void> {
    await client.query(`ALTER TABLE ${table} ADD CONSTRAINT ${name} ${definition}`)
  }
}

const definitions = `
  SELECT c.conrelid::regclass::text AS table, quote_ident(c.conname) AS name, pg_get_constraintdef(c.oid) AS definition, c.contype AS kind
  FROM pg_constraint c WHERE c.conrelid = ANY ($1::regclass[]) AND c.contype IN ('p', 'u', 'f')
  UNION ALL
  SELECT i.indrelid::regclass::text, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), NULL
  FROM pg_index i WHERE i.indrelid = ANY ($1::regclass[])
    AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid AND c.contype IN ('p', 'u', 'x'))
  ORDER BY 1, 2`

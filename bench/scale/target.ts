import { hash } from 'node:crypto'
import { createReadStream, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import { cpuSeconds } from '../harness/machine.ts'
import { runShipped } from '../harness/shipped.ts'

export const storeNames = ['sqlite', 'postgres'] as const
export type StoreName = (typeof storeNames)[number]

/** Where PostgreSQL is measured. */
export const postgresUrl = process.env['TEST_DATABASE_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'

/** How a program of `servers/` opens a store. */
export type StoreAt = { readonly dbPath: string } | { readonly postgresUrl: string; readonly schema: string }

/** Location of a filled database, to start a gateway on it. */
export interface Place {
  readonly store: StoreName
  /** The configuration file of a gateway on it. */
  readonly config: string
  readonly at: StoreAt
  /** How long it took to be moved here, in seconds; null of what was filled here, or moved before. */
  readonly movedS: number | null
  /** Of the tables that a sale is in, with their indexes. */
  bytesOfSales(): Promise<number>
  /**
   * CPU so far of the database's processes that serve who opened `at`, in seconds by their ids; null where it has none, or they run on
   * another machine.
   */
  databaseCpu(): Promise<ReadonlyMap<number, number> | null>
  /** Takes away what was made for this run. */
  close(): Promise<void>
}

const tablesOfSales = ['payments', 'payment_payloads', 'attempts', 'purchases', 'ledger']

/**
 * A folder that was filled: its SQLite file, which is read through into the system's memory, where a gateway that has run for a while
 * has it. Else it is the disk that is measured.
 */
export async function inFile(folder: string): Promise<Place> {
  const file = join(folder, 'tollgate.db')
  for await (const _ of createReadStream(file));
  return {
    store: 'sqlite',
    config: join(folder, 'tollgate.yaml'),
    at: { dbPath: file },
    movedS: null,
    async bytesOfSales() {
      const database = new DatabaseSync(file, { readOnly: true })
      const { bytes } = database
        .prepare(`SELECT sum(pgsize) AS bytes FROM dbstat JOIN sqlite_schema USING (name)
          WHERE tbl_name IN (${tablesOfSales.map((name) => `'${name}'`).join()})`)
        .get()!
      database.close()
      return Number(bytes)
    },
    databaseCpu: async () => null,
    close: async () => {},
  }
}

/**
 * The same store in a schema of its own, moved there by `tollgate migrate`.
 *
 * @param isKept the schema stays, and is used as it is when it is there
 */
export async function inPostgres(
  folder: string,
  isKept: boolean,
  env: NodeJS.ProcessEnv,
  progress: (line: string) => void,
): Promise<Place> {
  const schema = `tollgate_scale_${isKept ? hash('sha256', resolve(folder)).slice(0, 12) : process.pid}`
  const config = join(folder, 'postgres.yaml')
  writeFileSync(
    config,
    readFileSync(join(folder, 'tollgate.yaml'), 'utf8').replace(
      'storage:\n',
      `storage:\n  postgres:\n    url: \${BENCH_DATABASE_URL}\n    schema: ${schema}\n`,
    ),
  )
  const client = new pg.Client({ connectionString: postgresUrl })
  await client.connect()
  const one = async (text: string, ...values: unknown[]) => (await client.query(text, values)).rows[0]
  const isThere = (await one('SELECT to_regclass($1) IS NOT NULL AS is_there', `${schema}.stores`)).is_there
  const application = `tollgate bench ${process.pid}`
  const own = new URL(postgresUrl)
  own.searchParams.set('application_name', application)
  let movedS: number | null = null
  if (!isThere || !(await one(`SELECT 1 FROM ${schema}.stores LIMIT 1`))) {
    const movedMs = await runShipped(['migrate', '--to', 'postgres', '--config', config], env)
    movedS = movedMs / 1_000
    progress(`moved to PostgreSQL in ${movedS.toFixed(1)} s`)
  }
  return {
    store: 'postgres',
    config,
    at: { postgresUrl: own.href, schema },
    movedS,
    async bytesOfSales() {
      const names = tablesOfSales.map((name) => `${schema}.${name}`)
      return Number(
        (await one('SELECT sum(pg_total_relation_size(t)) AS n FROM unnest($1::regclass[]) t', names)).n,
      )
    },
    async databaseCpu() {
      const { rows } = await client.query<{ pid: number }>(
        'SELECT pid FROM pg_stat_activity WHERE application_name = $1',
        [application],
      )
      const here = rows.filter(({ pid }) => isPostgres(pid))
      return here.length === 0 ? null : new Map(here.map(({ pid }) => [pid, cpuOf(pid)]))
    },
    async close() {
      if (!isKept) await client.query(`DROP SCHEMA ${schema} CASCADE`)
      await client.end()
    },
  }
}

function isPostgres(pid: number): boolean {
  const file = `/proc/${pid}/comm`
  return existsSync(file) && readFileSync(file, 'utf8').startsWith('postgres')
}

function cpuOf(pid: number): number {
  try {
    return cpuSeconds(pid)
  } catch {
    // It ended meanwhile.
    return 0
  }
}

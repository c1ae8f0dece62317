import { type Kysely, sql } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import pg from 'pg'
import type { Schema } from '../sql/schema.ts'
import { channels } from './schema/channels.ts'
import { claims } from './schema/claims.ts'
import { discovery } from './schema/discovery.ts'
import { bookChanges } from './schema/ledgerChanges.ts'
import { links } from './schema/links.ts'
import { payments } from './schema/payments.ts'
import { changes, processes } from './schema/processes.ts'
import { purchases } from './schema/purchases.ts'
import { sessions } from './schema/sessions.ts'
import { rollups, stats } from './schema/stats.ts'
import { signIn, stores } from './schema/stores.ts'
import { webhooks } from './schema/webhooks.ts'

/**
 * Brings the tables up to date in one transaction. If several processes start at the same time, the first one migrates and the
 * others wait.
 *
 * @returns how many migrations were applied
 * @throws when a newer version wrote the tables, the database's encoding is not UTF8, the role may not create the schema, or a
 * migration fails
 */
export async function migrate(query: Kysely<Schema>, schema: string): Promise<number> {
  await prepare(query, schema)
  await refuseNewer(query, schema)
  const provider = { getMigrations: async () => ({ ...migrations }) }
  const migrator = new Migrator({ db: query, provider, migrationTableSchema: schema })
  const { error, results } = await migrator.migrateToLatest()
  if (error !== undefined) throw error
  return results?.length ?? 0
}

/** @throws when a newer version of Tollgate migrated the tables */
async function refuseNewer(query: Kysely<Schema>, schema: string): Promise<void> {
  const { rows: tables } = await sql`
    SELECT 1 FROM pg_tables WHERE schemaname = ${schema} AND tablename = 'kysely_migration'`.execute(query)
  if (tables.length === 0) return
  const { rows } = await sql<{ name: string }>`
    SELECT name FROM ${sql.id(schema, 'kysely_migration')} ORDER BY name`.execute(query)
  const unknown = rows.find(({ name }) => !Object.hasOwn(migrations, name))
  if (unknown !== undefined)
    throw new Error(
      `Expected a database of this version or an older one, but it has the migration ${unknown.name}, which this version does not know. ` +
        'A newer version or a development version of Tollgate wrote the database. Install that version again, or restore a backup.',
    )
}

/**
 * Creates the schema if it is missing. The function checks first, because PostgreSQL demands the right to create schemas even for
 * CREATE SCHEMA IF NOT EXISTS on an existing schema. A role that owns its schema may not have that right.
 */
async function prepare(query: Kysely<Schema>, schema: string): Promise<void> {
  const { rows } = await sql<{ encoding: string; isThere: boolean; role: string; database: string }>`
    SELECT current_setting('server_encoding') AS encoding, current_user AS role, current_database() AS database,
      EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = ${schema}) AS "isThere"`.execute(query)
  const { encoding, isThere, role, database } = rows[0]!
  if (encoding !== 'UTF8')
    throw new Error(
      `Expected the database ${database} to have the encoding UTF8, but it has ${encoding}. Make a database with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0.`,
    )
  if (isThere) return
  try {
    await sql`CREATE SCHEMA IF NOT EXISTS ${sql.id(schema)}`.execute(query)
  } catch (error) {
    const { cause } = error as Error
    const code = cause instanceof pg.DatabaseError ? cause.code : undefined
    // IF NOT EXISTS does not see a schema that another process is creating. The statement waits for that commit and then fails,
    // because the name is taken.
    if (code === UNIQUE_VIOLATION || code === DUPLICATE_SCHEMA) return
    if (code !== INSUFFICIENT_PRIVILEGE) throw error
    throw new Error(
      `The role ${role} may not make the schema ${schema} in the database ${database}. Make the schema with CREATE SCHEMA ${schema} AUTHORIZATION ${role}, or grant CREATE on the database.`,
      { cause: error },
    )
  }
}

const UNIQUE_VIOLATION = '23505'
const DUPLICATE_SCHEMA = '42P06'
const INSUFFICIENT_PRIVILEGE = '42501'

/**
 * The statements of each migration. The parameter is the collation of words. A released migration is never edited. Every change is
 * a new migration. The columns are the same as in SQLite. Money is text of decimal digits, times are ms since 1970, flags are 0 or
 * 1, and lists and free JSON are text. Text is compared by its bytes in every locale.
 */
export const statements: Readonly<Record<string, (collation: string) => string>> = {
  '0001-schema': (collation) =>
    [
      stores,
      signIn,
      links,
      payments,
      purchases,
      channels,
      sessions,
      webhooks,
      claims,
      bookChanges,
      rollups,
      discovery(collation),
      stats,
      processes,
      changes,
    ].join('\n'),
}

/** Migrations in the order of their names. They are in a list, so that a bundled or compiled copy needs no directory to read. */
const migrations: Readonly<Record<string, Migration>> = Object.fromEntries(
  Object.entries(statements).map(([name, text]) => [
    name,
    {
      async up(db) {
        await sql.raw(text(await collationOf(db))).execute(db)
      },
    },
  ]),
)

/** A collation that knows the lower case of every script, independent of the database's locale. A build without ICU has none. */
async function collationOf(db: Kysely<unknown>): Promise<string> {
  const { rows } = await sql`SELECT 1 FROM pg_collation WHERE collname = 'und-x-icu'`.execute(db)
  return rows.length > 0 ? '"und-x-icu"' : '"default"'
}

import { type Kysely, sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import pg from 'pg'
import type { Schema } from '../sql/schema.ts'
import { migrations } from './schema/migrations.ts'

/**
 * Brings the tables up to date. Several processes may start at once: the first one migrates, in one transaction, and the others
 * wait for it.
 *
 * @returns how many migrations were applied
 * @throws when the tables were written by a newer version, the database's encoding is not UTF8, the role may not make the schema, or a
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
      `Expected a database of this version or an older one, but it has the migration ${unknown.name}. ` +
        'A newer version of Tollgate wrote it: install that version again, or restore a backup.',
    )
}

/** Makes the schema. A role that owns one which was made for it needs no right to make any: the server asks for it all the same. */
async function prepare(query: Kysely<Schema>, schema: string): Promise<void> {
  const { rows } = await sql<{ encoding: string; isThere: boolean; role: string; database: string }>`
    SELECT current_setting('server_encoding') AS encoding, current_user AS role, current_database() AS database,
      EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = ${schema}) AS "isThere"`.execute(query)
  const { encoding, isThere, role, database } = rows[0]!
  if (encoding !== 'UTF8')
    throw new Error(
      `Expected the database ${database} to have the encoding UTF8, and it has ${encoding}. Make one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0.`,
    )
  if (isThere) return
  try {
    await sql`CREATE SCHEMA IF NOT EXISTS ${sql.id(schema)}`.execute(query)
  } catch (error) {
    const { cause } = error as Error
    const code = cause instanceof pg.DatabaseError ? cause.code : undefined
    // IF NOT EXISTS does not see one that another process is making: it waits for its commit, and then finds the name taken.
    if (code === UNIQUE_VIOLATION || code === DUPLICATE_SCHEMA) return
    if (code !== INSUFFICIENT_PRIVILEGE) throw error
    throw new Error(
      `The role ${role} may not make the schema ${schema} in the database ${database}. Make it with CREATE SCHEMA ${schema} AUTHORIZATION ${role}, or grant CREATE on the database.`,
      { cause: error },
    )
  }
}

const UNIQUE_VIOLATION = '23505'
const DUPLICATE_SCHEMA = '42P06'
const INSUFFICIENT_PRIVILEGE = '42501'

import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { Test } from 'tap'

export const databaseUrl = process.env['TEST_DATABASE_URL'] ?? 'postgres://postgres@127.0.0.1:5432/test'

/** Why the tests of PostgreSQL are skipped; undefined where it answers. With CI=true they are never skipped: they fail. */
export async function whySkipped(): Promise<string | undefined> {
  try {
    await ask('SELECT 1')
    return undefined
  } catch (error) {
    if (process.env['CI'] === 'true') return undefined
    return `no PostgreSQL answers at TEST_DATABASE_URL: ${(error as Error).message}`
  }
}

/** Where a test's store is: a schema of its own, which goes with the test. */
export function newSchema(t: Pick<Test, 'teardown'>): { readonly url: string; readonly schema: string } {
  const schema = `tollgate_test_${process.pid}_${randomBytes(4).toString('hex')}`
  t.teardown(() => ask(`DROP SCHEMA IF EXISTS ${schema} CASCADE`))
  return { url: databaseUrl, schema }
}

async function ask(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: 2_000 })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

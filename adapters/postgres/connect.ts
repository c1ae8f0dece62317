import { type DatabaseIntrospector, Kysely, PostgresDialect, type PostgresPool, sql } from 'kysely'
import pg from 'pg'
import type { Log } from '../../core/ports/log.ts'
import type { Schema } from '../sql/schema.ts'
import { errorOf } from './failure.ts'

export interface ConnectOptions {
  /** `postgres://user:password@host:port/database`, with parameters such as `sslmode` as libpq knows them. */
  readonly url: string
  /** The schema that holds the tables; it is made when it is missing. */
  readonly schema: string
  /** Connections of this process at the same time. */
  readonly maxConnections: number
  /** How long a caller waits for a connection, a new one or one that others have, in ms. */
  readonly connectTimeoutMs: number
  /** How long a statement may take before its caller is told that the store does not answer, in ms. */
  readonly queryTimeoutMs: number
  readonly log: Log
}

// Rows, times and counts are all below 2^53; money is text.
const types = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === int8 || oid === numeric ? Number : pg.types.getTypeParser(oid, format as never),
}
const int8 = 20
const numeric = 1700

export function connectPool(options: ConnectOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.maxConnections,
    connectionTimeoutMillis: options.connectTimeoutMs,
    query_timeout: options.queryTimeoutMs,
    statement_timeout: options.queryTimeoutMs,
    options: `-c search_path=${options.schema}`,
    application_name: 'tollgate',
    keepAlive: true,
    types: types as never,
  })
  // One that ends while somebody has it fails what he asked, which is how he hears of it.
  pool.on('connect', (client) => client.on('error', () => {}))
  // An idle connection that ends (a restart of the server) is replaced at the next use. The pool's error carries the whole client,
  // with the backend's cancel key and statements: only its message is logged.
  pool.on('error', (error) => options.log.warn({ err: errorOf(error) }, 'A connection to PostgreSQL ended.'))
  return pool
}

/** The typed query layer over a pool; the errors that it throws are those of {@link errorOf}. */
export function queryLayer(pool: pg.Pool): Kysely<Schema> {
  const guarded: PostgresPool = {
    async connect() {
      const client = await pool.connect().catch(rejected)
      let isInDoubt = false
      return {
        query: (async (text: string, values: unknown[] = []) => {
          return client.query(text, values.map(storable)).catch((error: unknown) => {
            // Nobody knows what it is in the middle of: whoever had it next would be in the same transaction.
            if (!(error instanceof pg.DatabaseError)) isInDoubt = true
            return rejected(error)
          })
        }) as never,
        release: () => client.release(isInDoubt),
      }
    },
    end: async () => {},
    options: {},
  }
  return new Kysely<Schema>({ dialect: new OneSchema({ pool: guarded }) })
}

/** Looks for tables in the own schema only: what else is in the database may be much, and go while it is looked at. */
class OneSchema extends PostgresDialect {
  override createIntrospector(query: Kysely<unknown>): DatabaseIntrospector {
    const getTables = async () => {
      const { rows } = await sql<{ schema: string; name: string }>`
        SELECT schemaname AS schema, tablename AS name FROM pg_tables WHERE schemaname = current_schema()`.execute(
        query,
      )
      return rows.map((row) => ({ ...row, isView: false, isForeign: false, columns: [] }))
    }
    return {
      getTables,
      async getSchemas() {
        return (await sql<{ name: string }>`SELECT current_schema() AS name`.execute(query)).rows
      },
    }
  }
}

/**
 * PostgreSQL's text has no NUL. A text from outside that has one (a path, a title) is stored, and looked for, with U+FFFD in
 * its place: it is found by nothing that could have been stored without it, and breaks no statement.
 */
export function storable(value: unknown): unknown {
  if (typeof value === 'string') return value.includes('\0') ? value.replaceAll('\0', '\ufffd') : value
  return Array.isArray(value) ? value.map(storable) : value
}

const rejected = (error: unknown): never => {
  throw errorOf(error)
}

import { type DatabaseIntrospector, Kysely, PostgresDialect, type PostgresPool, sql } from 'kysely'
import pg from 'pg'
import type { Log } from '../../../core/ports/log.ts'
import type { SharedClock } from '../repositories/leases.ts'
import type { Schema } from '../sql/schema.ts'
import { errorOf } from './failure.ts'

export interface ConnectOptions {
  /** `postgres://user:password@host:port/database`, with the parameters of libpq, such as `sslmode`. */
  readonly url: string
  /** The schema of the tables, which is created if it is missing. */
  readonly schema: string
  /** Maximum number of connections that this process opens. */
  readonly maxConnections: number
  /** How long a caller waits for a connection, new or pooled, in ms. */
  readonly connectTimeoutMs: number
  /** How long a statement may take before its caller gets `store_unavailable`, in ms. */
  readonly queryTimeoutMs: number
  readonly log: Log
}

// Row numbers, times and counts are below 2^53, so they are numbers. Money is text.
const types = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === int8 || oid === numeric ? Number : pg.types.getTypeParser(oid, format as never),
}
const int8 = 20
const numeric = 1700

export function connectPool(options: ConnectOptions): pg.Pool {
  // The server ends a transaction that is idle for this long. Otherwise a process that freezes or loses its network could hold its
  // locks for longer than other processes wait for them.
  const idleTimeoutMs = options.queryTimeoutMs / 2
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.maxConnections,
    connectionTimeoutMillis: options.connectTimeoutMs,
    query_timeout: options.queryTimeoutMs,
    statement_timeout: options.queryTimeoutMs,
    options: `-c search_path=${options.schema} -c idle_in_transaction_session_timeout=${idleTimeoutMs}`,
    application_name: 'tollgate',
    keepAlive: true,
    types: types as never,
  })
  // An error event without a listener would end the process. The caller still gets the error, because its statement fails when the
  // connection ends.
  pool.on('connect', (client) => client.on('error', () => {}))
  // The pool replaces an idle connection that ends, for example when the server restarts. The log gets only the error's message,
  // because the error contains the whole client with the backend's cancel key and statements.
  pool.on('error', (error) => options.log.warn({ err: errorOf(error) }, 'A connection to PostgreSQL ended.'))
  return pool
}

/** The typed query layer over a pool. Its errors are those of {@link errorOf}. */
export function queryLayer(pool: pg.Pool): Kysely<Schema> {
  const guarded: PostgresPool = {
    async connect() {
      const client = await pool.connect().catch(rejected)
      let isInDoubt = false
      return {
        query: (async (text: string, values: unknown[] = []) => {
          return client.query(text, values.map(storable)).catch((error: unknown) => {
            // The connection may still be inside a transaction, so the next caller must not get it.
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

/**
 * Introspects only the pool's own schema. The rest of the database may be large, and its tables may be dropped during the search.
 */
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
 * Replaces each NUL in a text from outside (a path, a title) by U+FFFD, because PostgreSQL's text has no NUL. Stored and searched
 * texts are both converted, so that no statement fails and a search finds the stored text.
 */
export function storable(value: unknown): unknown {
  if (typeof value === 'string') return value.includes('\0') ? value.replaceAll('\0', '\ufffd') : value
  return Array.isArray(value) ? value.map(storable) : value
}

const rejected = (error: unknown): never => {
  throw errorOf(error)
}

const first = `SELECT current_setting('search_path') AS "searchPath", pg_is_in_recovery() AS "isStandby",
  current_setting('transaction_read_only') = 'on' AS "isReadOnly", pg_backend_pid() AS pid,
  current_setting('transaction_isolation') AS isolation`
const again = 'SELECT pg_backend_pid() AS pid'

/**
 * Checks the connections before anything is created. The server must accept writes, and its transactions must be READ COMMITTED.
 * Connections must use the configured schema. Each connection must belong to one server session as long as it is open.
 * @throws an error that names the failed condition; `store_unavailable` if the server does not respond
 */
export async function checkConnection(pool: pg.Pool, schema: string): Promise<void> {
  const open: pg.PoolClient[] = []
  const connect = async () => {
    const client = await pool.connect().catch((error: unknown) => {
      throw isRefusedByPooler(error) ? pooled((error as Error).message, error) : errorOf(error)
    })
    open.push(client)
    return client
  }
  const queryText = async (client: pg.PoolClient, text: string) =>
    (
      await client.query(text).catch((error: unknown) => {
        throw errorOf(error)
      })
    ).rows[0]
  try {
    const { searchPath, isStandby, isReadOnly, isolation, pid } = await queryText(await connect(), first)
    if (isStandby || isReadOnly)
      throw new Error(
        `The database accepts no writes: ${isStandby ? 'the server is a standby' : 'it is set to read-only'}. storage.postgres.url must name the primary.`,
      )
    // After a statement has waited for a lock, it must see the commits of the other transactions, because the ledger's rules depend
    // on it.
    if (isolation !== 'read committed')
      throw new Error(
        `The database's transactions are ${isolation}, and the ledger needs read committed. Reset default_transaction_isolation for the server, the database and the role of storage.postgres.url.`,
      )
    if (searchPath !== schema)
      throw pooled(`a connection was opened with the search_path ${schema} but has ${searchPath}`)
    // A pool of one connection has no second connection to compare.
    if (pool.options.max < 2) return
    if ((await queryText(await connect(), again)).pid === pid)
      throw pooled('two connections are one of the server at the same time')
  } finally {
    for (const client of open) client.release()
  }
}

/** PgBouncer refuses startup parameters that it does not know. */
const isRefusedByPooler = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.message.includes('unsupported startup parameter')

const pooled = (seen: string, cause?: unknown): Error =>
  new Error(
    `Expected a direct connection or session pooling, but the pooler in front of the database does neither: ${seen}. Set storage.postgres.url to the server itself, or see "Poolers" in docs/how-to/run-several-gateways.md.`,
    { cause },
  )

/**
 * How far the server's clock may differ from its expected time, in ms, before it counts as set. The tolerance is for late responses
 * and for clocks that are adjusted in small steps.
 */
const STEP_MS = 3_000
/** A running process renews its leases within this time, in ms. */
const RENEWED_MS = 5_000

/**
 * Compares the server's clock with this machine's monotonic clock. It detects that the server's clock was set, or that a standby
 * with another clock took over. The leases of running processes then look expired until each process has renewed its own.
 *
 * @param machineNowMs this machine's monotonic clock, in ms
 */
export function createServerClock(machineNowMs: () => number): SharedClock {
  /** Lower and upper limit of the server's offset from this machine's clock, in ms. */
  let [least, most] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]
  let steadyFromMs = Number.POSITIVE_INFINITY
  return {
    startReading() {
      const sentAtMs = machineNowMs()
      return (nowMs) => {
        const receivedAtMs = machineNowMs()
        const [low, high] = [nowMs - receivedAtMs, nowMs - sentAtMs]
        const isFirst = most === Number.POSITIVE_INFINITY
        if (isFirst || low > most + STEP_MS || high < least - STEP_MS)
          steadyFromMs = receivedAtMs + RENEWED_MS
        ;[least, most] = [low, high]
      }
    },
    get window() {
      const nowMs = machineNowMs()
      if (nowMs < steadyFromMs) return undefined
      return { fromMs: Math.floor(nowMs + least - STEP_MS), toMs: Math.ceil(nowMs + most + STEP_MS) }
    },
  }
}

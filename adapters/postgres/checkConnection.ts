import pg from 'pg'
import { errorOf } from './failure.ts'

const first = `SELECT current_setting('search_path') AS "searchPath", pg_is_in_recovery() AS "isStandby",
  current_setting('transaction_read_only') = 'on' AS "isReadOnly", pg_backend_pid() AS pid,
  current_setting('transaction_isolation') AS isolation`
const again = 'SELECT pg_backend_pid() AS pid'

/**
 * Whether connections are what the store needs, before anything is made: the server takes writes, lets transactions see what others have committed, and was told in which schema the
 * tables are, and a connection is one of the server's for as long as it is open.
 *
 * @throws an error in words where one of it is not so, `store_unavailable` when the server does not answer
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
  const ask = async (client: pg.PoolClient, text: string) =>
    (
      await client.query(text).catch((error: unknown) => {
        throw errorOf(error)
      })
    ).rows[0]
  try {
    const { searchPath, isStandby, isReadOnly, isolation, pid } = await ask(await connect(), first)
    if (isStandby || isReadOnly)
      throw new Error(
        `The database takes no writes: ${isStandby ? 'the server is a standby' : 'it is set to read-only'}. storage.postgres.url has to lead to the primary.`,
      )
    // What waits for a lock and looks then has to see what others have committed meanwhile: rules of the books rest on it.
    if (isolation !== 'read committed')
      throw new Error(
        `The database's transactions are ${isolation}, and the books need read committed. Reset default_transaction_isolation for the server, the database and the role of storage.postgres.url.`,
      )
    if (searchPath !== schema)
      throw pooled(`a connection was told the search_path ${schema} and has ${searchPath}`)
    // A pool of one connection has no second one to compare.
    if (pool.options.max < 2) return
    if ((await ask(await connect(), again)).pid === pid)
      throw pooled('two connections are one of the server at the same time')
  } finally {
    for (const client of open) client.release()
  }
}

/** PgBouncer refuses what it does not know at the beginning of a connection. */
const isRefusedByPooler = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.message.includes('unsupported startup parameter')

const pooled = (seen: string, cause?: unknown): Error =>
  new Error(
    `Between this gateway and the database is a pooler that does not do: ${seen}. Let storage.postgres.url lead to the server itself, or see "Poolers" in docs/scaling.md.`,
    { cause },
  )

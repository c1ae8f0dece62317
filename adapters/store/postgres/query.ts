import { hash } from 'node:crypto'
import pg from 'pg'
import type { Row } from '../sql/rows.ts'
import { storable } from './connect.ts'
import { errorOf, isToRepeat } from './failure.ts'

/** Maximum number of attempts for a statement that deadlocks. One of two deadlocked statements always commits. */
const MAX_TRIES = 5

/**
 * Runs one statement in a transaction of its own. Each connection prepares a statement once, because there are few different texts.
 * A deadlocked statement is run again.
 *
 * @throws the errors of {@link errorOf}
 */
export async function queryRows(pool: pg.Pool, text: string, values: readonly unknown[]): Promise<Row[]> {
  const statement = { name: nameOf(text), text, values: values.map(storable) }
  for (let tries = 1; ; tries++) {
    try {
      return await run(pool, statement)
    } catch (error) {
      if (tries === MAX_TRIES || !isToRepeat(error)) throw errorOf(error)
    }
  }
}

async function run(pool: pg.Pool, statement: pg.QueryConfig): Promise<Row[]> {
  const client = await pool.connect()
  try {
    const { rows } = await client.query(statement)
    client.release()
    return rows
  } catch (error) {
    // The error does not come from the server, so the state of the connection is unknown.
    client.release(!(error instanceof pg.DatabaseError))
    throw error
  }
}

const names = new Map<string, string>()

/**
 * The name of a prepared statement. The same text has the same name in every process, because processes may share a pooler's
 * connection.
 */
export function nameOf(text: string): string {
  let name = names.get(text)
  if (name === undefined) names.set(text, (name = `tollgate_${hash('sha256', text).slice(0, 24)}`))
  return name
}

/** JSON that PostgreSQL's jsonb accepts. U+FFFD replaces NUL and lone surrogates, as it does in parameters of other statements. */
export function jsonText(value: unknown): string {
  const text = JSON.stringify(value)
  // The pattern finds the only characters that JSON.stringify writes as numeric escapes and that jsonb refuses.
  return odd.test(text) ? JSON.stringify(value, mended) : text
}

const odd = /\\u(?:0000|d[89a-f])/

const mended = (_: string, value: unknown): unknown =>
  typeof value === 'string' ? value.toWellFormed().replaceAll('\0', '\ufffd') : value

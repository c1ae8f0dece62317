import { hash } from 'node:crypto'
import pg from 'pg'
import type { Row } from '../sql/row.ts'
import { storable } from './connect.ts'
import { errorOf, isToRepeat } from './failure.ts'

/** Two that wait for each other are rare, and of each two one goes on: so often nobody is unlucky. */
const MOST_TRIES = 5

/**
 * One statement by itself, in a transaction of its own, prepared once for each connection: its text is one of few. Where it and
 * another waited for each other it is run again.
 *
 * @throws what {@link errorOf} says
 */
export async function ask(pool: pg.Pool, text: string, values: readonly unknown[]): Promise<Row[]> {
  const statement = { name: nameOf(text), text, values: values.map(storable) }
  for (let tries = 1; ; tries++) {
    try {
      return await run(pool, statement)
    } catch (error) {
      if (tries === MOST_TRIES || !isToRepeat(error)) throw errorOf(error)
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
    // What did not come from the server leaves the connection in the middle of something.
    client.release(!(error instanceof pg.DatabaseError))
    throw error
  }
}

const names = new Map<string, string>()

/** The same text has the same name, in every process: those that share a connection of a pooler agree. */
export function nameOf(text: string): string {
  let name = names.get(text)
  if (name === undefined) names.set(text, (name = `tollgate_${hash('sha256', text).slice(0, 24)}`))
  return name
}

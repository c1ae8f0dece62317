import { sql, type Transaction } from 'kysely'
import type { Schema } from '../sql/schema.ts'
import type { Database } from './database.ts'
import { isToRepeat } from './failure.ts'

/** Two that wait for each other are rare, and of each two one goes on: so often nobody is unlucky. */
const MOST_TRIES = 5

/**
 * Runs statements in one transaction (READ COMMITTED): all of them or none. Where two transactions waited for each other it
 * runs again from its beginning, so `work` does nothing that a second run may not do.
 *
 * @param durability `visible`: the commit does not wait for the disk, and a crash of the server may lose it whole
 * @throws what `work` throws; a `ConstraintError`; `store_unavailable`
 */
export async function transact<T>(
  { query }: Pick<Database, 'query'>,
  work: (transaction: Transaction<Schema>) => Promise<T>,
  durability: 'visible' | 'flushed' = 'flushed',
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await query.transaction().execute(async (transaction) => {
        if (durability === 'visible') await sql`SET LOCAL synchronous_commit = off`.execute(transaction)
        return work(transaction)
      })
    } catch (error) {
      if (tries === MOST_TRIES || !isToRepeat(error)) throw error
    }
  }
}

/** Waits until no other transaction holds this name, and holds it until this one ends: for what has no row to lock. */
export async function holdName(transaction: Transaction<Schema>, name: string): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(hashtextextended(current_schema()::text || ':' || ${name}::text, 0))`.execute(
    transaction,
  )
}

/** A condition that always holds; in a statement of its own it makes that one `visible`, see {@link transact}. */
export const unflushed = sql<boolean>`set_config('synchronous_commit', 'off', true) = 'off'`

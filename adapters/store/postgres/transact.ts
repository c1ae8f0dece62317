import { sql, type Transaction } from 'kysely'
import type { Schema } from '../sql/schema.ts'
import type { Database } from './database.ts'
import { isToRepeat } from './failure.ts'

/** Maximum number of attempts for a transaction that deadlocks. One of two deadlocked transactions always commits. */
const MAX_TRIES = 5

/**
 * Runs statements in one transaction (READ COMMITTED). After a deadlock it runs `work` again from the beginning, so `work` must
 * have no effect outside the transaction.
 *
 * @param durability with `visible`, the commit does not wait for the disk, and a crash of the server may lose the whole transaction
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
      if (tries === MAX_TRIES || !isToRepeat(error)) throw error
    }
  }
}

/**
 * Locks a name until the transaction ends, for conditions that have no row to lock. If another transaction has the name locked,
 * this one waits for it.
 */
export async function holdName(transaction: Transaction<Schema>, name: string): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(hashtextextended(current_schema()::text || ':' || ${name}::text, 0))`.execute(
    transaction,
  )
}

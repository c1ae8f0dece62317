import type { Transaction } from 'kysely'
import type { Schema } from '../../sql/schema.ts'

/** Until the transaction ends, whoever else counts what a store has waits for it. @returns whether there is such a store */
export async function holdStore(transaction: Transaction<Schema>, storeId: string): Promise<boolean> {
  const store = await transaction
    .selectFrom('stores')
    .select('id')
    .where('id', '=', storeId)
    .forNoKeyUpdate()
    .executeTakeFirst()
  return store !== undefined
}

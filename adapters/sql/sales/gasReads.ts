import type { Kysely } from 'kysely'
import type { GasBook } from '../../../core/ports/store/gasBook.ts'
import type { Schema } from '../schema.ts'

/** Days that are kept: what a clock that was ahead has written counts until that day is over. */
export const KEPT_DAYS = 7

/** How the gas of stores is read, in any SQL. */
export function gasReads(query: Kysely<Schema>): Pick<GasBook, 'read'> {
  return {
    async read(network, fromDay) {
      const rows = await query
        .selectFrom('gas_spent')
        .select(['store_id', 'day', 'spent'])
        .where('network', '=', network)
        .where('day', '>=', fromDay)
        .orderBy('day')
        .execute()
      return rows.map(({ store_id, day, spent }) => ({ storeId: store_id, day, spent: BigInt(spent) }))
    },
  }
}

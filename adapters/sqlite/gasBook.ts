import type { GasBook } from '../../core/ports/gasBook.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'

/** Days that are kept: what a clock that was ahead has written counts until that day is over. */
const KEPT_DAYS = 7

/** The gas of stores by day in SQLite. */
export function createGasBook({ query, writer }: Database): GasBook {
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

    async write(network, { storeId, day, spent }) {
      const forget = query
        .deleteFrom('gas_spent')
        .where('network', '=', network)
        .where('store_id', '=', storeId)
        .where('day', '<', day - KEPT_DAYS)
      const put = query
        .insertInto('gas_spent')
        .values({ network, store_id: storeId, day, spent: String(spent) })
        .onConflict((c) => c.columns(['network', 'store_id', 'day']).doUpdateSet({ spent: String(spent) }))
      await writer.write('runAll', [compiled(forget), compiled(put)])
    },
  }
}

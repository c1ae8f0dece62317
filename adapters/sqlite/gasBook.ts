import type { GasBook } from '../../core/ports/store/gasBook.ts'
import { gasReads, KEPT_DAYS } from '../sql/sales/gasReads.ts'
import { compiled } from './compiled.ts'
import type { Database } from './database.ts'

/** The gas of stores by day in SQLite. */
export function createGasBook({ query, writer }: Database): GasBook {
  return {
    ...gasReads(query),

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

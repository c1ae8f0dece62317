import type { GasBook } from '../../core/ports/store/gasBook.ts'
import { gasReads } from '../sql/sales/gasReads.ts'
import type { Database } from './database.ts'

/** The gas of stores by day in SQLite. */
export function createGasBook({ query, writer }: Database): GasBook {
  return {
    ...gasReads(query),
    add: (network, { storeId, day, spent }) => writer.write('addGas', [network, storeId, day, spent]),
  }
}

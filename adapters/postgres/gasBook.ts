import type { GasBook } from '../../core/ports/store/gasBook.ts'
import { gasReads, KEPT_DAYS } from '../sql/sales/gasReads.ts'
import { ask } from './ask.ts'
import type { Database } from './database.ts'

const add = `WITH forgotten AS (
    DELETE FROM gas_spent WHERE network = $1 AND store_id = $2 AND day < $3::bigint - ${KEPT_DAYS})
  INSERT INTO gas_spent (network, store_id, day, spent) VALUES ($1, $2, $3, $4)
  ON CONFLICT (network, store_id, day) DO UPDATE SET spent = (gas_spent.spent::numeric + excluded.spent::numeric)::text
  RETURNING spent`

/** The gas of stores by day in PostgreSQL. */
export function createGasBook({ pool, query }: Pick<Database, 'pool' | 'query'>): GasBook {
  return {
    ...gasReads(query),

    async add(network, { storeId, day, spent }) {
      const [row] = await ask(pool, add, [network, storeId, day, String(spent)])
      return BigInt(row!['spent'] as string)
    },
  }
}

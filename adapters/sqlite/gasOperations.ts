import type { DatabaseSync } from 'node:sqlite'
import { KEPT_DAYS } from '../sql/sales/gasReads.ts'

/** network, store, day, what is added: beyond what SQLite counts with. */
export type GasArgs = readonly [network: string, storeId: string, day: number, spent: bigint]

/** The writes of the port GasBook, inside the writer's transaction. */
export function gasOperations(database: DatabaseSync) {
  const forget = database.prepare('DELETE FROM gas_spent WHERE network = ? AND store_id = ? AND day < ?')
  const find = database.prepare('SELECT spent FROM gas_spent WHERE network = ? AND store_id = ? AND day = ?')
  const put = database.prepare(`INSERT INTO gas_spent (network, store_id, day, spent) VALUES (?, ?, ?, ?)
    ON CONFLICT (network, store_id, day) DO UPDATE SET spent = excluded.spent`)

  return {
    addGas([network, storeId, day, spent]: GasArgs): bigint {
      forget.run(network, storeId, day - KEPT_DAYS)
      const sum = BigInt(String(find.get(network, storeId, day)?.['spent'] ?? 0)) + spent
      put.run(network, storeId, day, String(sum))
      return sum
    },
  }
}

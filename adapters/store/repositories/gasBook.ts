import type { NetworkId } from '../../../core/domain/network.ts'
import type { GasBook, GasOfStore } from '../../../core/ports/store/gasBook.ts'
import { type CallsOf, type Reads, row, type Steps, type Tx } from './transaction.ts'

/** How many days the sums are stored. If a clock is ahead, its costs count until that day is over. */
const RETENTION_DAYS = 7

export const gasBookWrites = {
  *add(tx: Tx, network: NetworkId, { storeId, day, spent }: GasOfStore): Steps<bigint> {
    yield* tx.hold(`gas_spent:${network}:${storeId}`)
    yield* tx.run`DELETE FROM gas_spent
      WHERE network = ${network} AND store_id = ${storeId} AND day < ${day - RETENTION_DAYS}`
    const before = yield* tx.one<{ spent: string }>`
      SELECT spent FROM gas_spent WHERE network = ${network} AND store_id = ${storeId} AND day = ${day}`
    // The sum is added here, because it can exceed the 64 bits of SQLite's integers.
    const sum = BigInt(before?.spent ?? 0) + spent
    yield* tx.run`INSERT INTO gas_spent ${row({ network, store_id: storeId, day, spent: String(sum) })}
      ON CONFLICT (network, store_id, day) DO UPDATE SET spent = excluded.spent`
    return sum
  },
}

/** The gas costs of each store by day. */
export function createGasBook(
  { gasBook }: { readonly gasBook: CallsOf<typeof gasBookWrites> },
  reads: Reads,
): GasBook {
  return {
    ...gasBook,

    async read(network, fromDay) {
      const rows = await reads.all<{ store_id: string; day: number; spent: string }>`
        SELECT store_id, day, spent FROM gas_spent WHERE network = ${network} AND day >= ${fromDay} ORDER BY day`
      return rows.map(({ store_id, day, spent }) => ({ storeId: store_id, day, spent: BigInt(spent) }))
    },
  }
}

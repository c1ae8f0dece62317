import type { GasBook } from '../../../core/ports/store/gasBook.ts'
import type { Access } from './access.ts'
import type { Tables } from './memory.ts'

/** Days that are kept, as SQLite keeps them. */
const KEPT_DAYS = 7

/** The gas of stores by day in memory. */
export function createGasBook({ gas }: Tables, { read, write }: Access): GasBook {
  return {
    read: (network, fromDay) =>
      read(() =>
        gas
          .values()
          .filter((row) => row.network === network && row.day >= fromDay)
          .sort((a, b) => a.day - b.day)
          .map(({ storeId, day, spent }) => ({ storeId, day, spent })),
      ),

    add: (network, { storeId, day, spent }) =>
      write('flushed', () => {
        for (const key of gas.keys()) {
          const row = gas.get(key)!
          if (row.network === network && row.storeId === storeId && row.day < day - KEPT_DAYS) gas.delete(key)
        }
        const id = `${network} ${storeId} ${day}`
        const sum = (gas.get(id)?.spent ?? 0n) + spent
        gas.set(id, { network, storeId, day, spent: sum })
        return sum
      }),
  }
}

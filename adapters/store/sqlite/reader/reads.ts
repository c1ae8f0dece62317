import type { DatabaseSync } from 'node:sqlite'
import { foldedText } from '../../../../core/ports/store/links.ts'
import { countBuyers, PAIR_BYTES } from '../../sql/sales/buyerCounts.ts'
import { preparing, type Row, type Statement } from '../statement.ts'

/**
 * Creates the reads of a reader thread on its connection, and defines the functions that SQLite lacks.
 *
 * @returns a function that reads the rows of each statement, all as of the same moment
 */
export function createReads(database: DatabaseSync): (steps: readonly Statement[]) => Row[][] {
  // SQLite's own sum has 64 bits, but amounts are decimal digits of any length.
  database.aggregate('sum_atomic', {
    start: () => 0n,
    step: (sum: bigint, digits) => sum + BigInt(String(digits)),
    result: (sum: bigint) => sum.toString(),
  })
  // The accumulator is a list of columns, which SQLite never reads.
  const columns = (gathered: unknown) => gathered as Uint8Array[]
  database.aggregate('count_buyers', {
    start: () => [] as never,
    step: (gathered, column) => {
      if (column instanceof Uint8Array) columns(gathered).push(column)
      return gathered
    },
    result: (gathered) => {
      const [only, ...others] = columns(gathered)
      // A single column contains each buyer only once.
      return others.length === 0 ? (only?.length ?? 0) / PAIR_BYTES : countBuyers(columns(gathered))
    },
  })
  database.function('folded', { deterministic: true }, (text) => foldedText(String(text)))
  const prepare = preparing(database)

  return (steps) => {
    database.exec('BEGIN')
    try {
      return steps.map(({ sql, parameters }) => prepare(sql).statement.all(...parameters))
    } finally {
      database.exec('COMMIT')
    }
  }
}

import { constants, getPriority, setPriority } from 'node:os'
import type { StatementSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { foldedText } from '../../../core/ports/store/links.ts'
import { countBuyers, PAIR_BYTES } from '../../sql/sales/buyerCounts.ts'
import { connectReader } from '../connect.ts'
import { failureOf } from '../failure.ts'
import type { Row, Statement } from '../statement.ts'
import type { FromReader, ToReader } from './readerThread.ts'

const MAX_PREPARED = 200
/** As `nice` counts: a thread that answers calls has nine times as much of a CPU that both want. */
const STEP_BACK = 10

const database = connectReader(workerData as string)
database.exec('PRAGMA cache_size = -32000')
// Amounts are decimal digits of any length: SQLite's own sum knows 64 bits.
database.aggregate('sum_atomic', {
  start: () => 0n,
  step: (sum: bigint, digits) => sum + BigInt(String(digits)),
  result: (sum: bigint) => sum.toString(),
})
// What it gathers are columns: SQLite never sees them.
const columns = (gathered: unknown) => gathered as Uint8Array[]
database.aggregate('count_buyers', {
  start: () => [] as never,
  step: (gathered, column) => {
    if (column instanceof Uint8Array) columns(gathered).push(column)
    return gathered
  },
  result: (gathered) => {
    const [only, ...others] = columns(gathered)
    // A single column has each buyer once.
    return others.length === 0 ? (only?.length ?? 0) / PAIR_BYTES : countBuyers(columns(gathered))
  },
})
database.function('folded', { deterministic: true }, (text) => foldedText(String(text)))
stepBack()
const prepared = new Map<string, StatementSync>()

/** Where calls and reads want a CPU at once, calls come first. Only on Linux, where 0 is the thread that asks (setpriority(2), Bugs). */
function stepBack(): void {
  if (process.platform !== 'linux') return
  try {
    setPriority(0, Math.min(getPriority(0) + STEP_BACK, constants.priority.PRIORITY_LOW))
  } catch {
    // Not allowed here: reads take their turn like everything else.
  }
}

function prepare(sql: string): StatementSync {
  let statement = prepared.get(sql)
  if (statement === undefined) {
    statement = database.prepare(sql)
    if (prepared.size >= MAX_PREPARED) prepared.delete(prepared.keys().next().value!)
    prepared.set(sql, statement)
  }
  return statement
}

function read(steps: readonly Statement[]): Row[][] {
  database.exec('BEGIN')
  try {
    return steps.map(({ sql, parameters }) => prepare(sql).all(...parameters))
  } finally {
    database.exec('COMMIT')
  }
}

parentPort!.on('message', ({ id, steps }: ToReader) => {
  let answer: FromReader
  try {
    answer = { id, results: read(steps) }
  } catch (error) {
    answer = { id, failure: failureOf(error) }
  }
  parentPort!.postMessage(answer)
})

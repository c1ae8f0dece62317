import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { ConstraintError } from '../failure.ts'
import { gasOperations } from '../gasOperations.ts'
import { letterOperations } from '../letterOperations.ts'
import { bookOperations } from '../payments/bookOperations.ts'
import { leaseOperations } from '../payments/leaseOperations.ts'
import { sessionOperations } from '../sessions/sessionOperations.ts'
import type { Row, Statement } from '../statement.ts'
import { sumOperations } from '../sums/sumOperations.ts'
import { webhookOperations } from '../webhooks/webhookOperations.ts'

export type Operations = ReturnType<typeof prepareOperations>
export type OperationName = keyof Operations

/** A statement of several. With `must`, it has to change a row, or everything is taken back and `must` is the reason. */
export interface Step extends Statement {
  readonly must?: string
}

export interface StepResult {
  readonly rows: Row[]
  readonly changes: number
}

/** As much as the largest payment writes: on a disk with less room left, the answer must be that it is full. */
const PROBE_BYTES = 48 * 1024

/** Prepares everything that the writer can do. Runs in the writer thread, inside its transaction. */
export function prepareOperations(database: DatabaseSync) {
  const prepare = preparing(database)
  const probe = database.prepare(`
    INSERT INTO probes (id, at_ms, room) VALUES (1, ?, zeroblob(${PROBE_BYTES}))
    ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms, room = excluded.room`)

  function run({ sql, parameters, must }: Step): StepResult {
    const { statement, returnsRows } = prepare(sql)
    if (returnsRows) {
      const rows = statement.all(...parameters)
      return { rows, changes: rows.length }
    }
    const changes = Number(statement.run(...parameters).changes)
    if (changes === 0 && must !== undefined) throw new ConstraintError(must)
    return { rows: [], changes }
  }

  return {
    ...bookOperations(database),
    ...leaseOperations(database),
    ...gasOperations(database),
    ...letterOperations(database),
    ...webhookOperations(database),
    ...sessionOperations(database),
    ...sumOperations(database),
    /** A write like any other, for whoever asks whether writes get through. */
    probe: (nowMs: number): void => void probe.run(nowMs),
    /** One statement that Kysely compiled. */
    run,
    /** Several of them, together or not at all. */
    runAll: (steps: readonly Step[]): StepResult[] => steps.map(run),
  }
}

/** Keeps the latest statements prepared: Kysely gives the same text for the same query. */
function preparing(database: DatabaseSync) {
  const cache = new Map<string, { statement: StatementSync; returnsRows: boolean }>()
  return (sql: string) => {
    let prepared = cache.get(sql)
    if (prepared === undefined) {
      const statement = database.prepare(sql)
      prepared = { statement, returnsRows: statement.columns().length > 0 }
      if (cache.size >= 200) cache.delete(cache.keys().next().value!)
      cache.set(sql, prepared)
    }
    return prepared
  }
}

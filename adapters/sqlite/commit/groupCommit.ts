import type { DatabaseSync } from 'node:sqlite'
import { BUSY_TIMEOUT_MS } from '../connect.ts'
import { type Failure, failureOf, isBusy } from '../failure.ts'
import type { FromWriter, WriteRequest } from './messages.ts'
import { type OperationName, prepareOperations } from './operations.ts'

/** Nobody wakes it: a wait of this thread, which has nothing else to do. */
const never = new Int32Array(new SharedArrayBuffer(4))

/**
 * Runs a group of writes in one transaction, so that they share one flush to disk. A write that fails (a constraint)
 * leaves its neighbours standing; when the database itself fails, none of the group happened and all of them are told.
 */
export function createGroupCommit(
  database: DatabaseSync,
  isDurable: boolean,
): (group: readonly WriteRequest[]) => FromWriter {
  const operations = prepareOperations(database) as Record<OperationName, (args: unknown) => unknown>
  const begin = database.prepare('BEGIN IMMEDIATE')
  const commit = database.prepare('COMMIT')
  const savepoint = database.prepare('SAVEPOINT write')
  const release = database.prepare('RELEASE write')
  const takeBack = database.prepare('ROLLBACK TO write')
  let flushes = true
  database.exec('PRAGMA busy_timeout = 0')

  /**
   * FULL flushes the log at the commit, and with it all that was committed before, by whichever connection; NORMAL only
   * when the log is copied back (sqlite.org/pragma.html#pragma_synchronous). Not possible inside a transaction, and not by
   * a prepared statement: SQLite runs this pragma when it is compiled.
   */
  function flushAtCommit(next: boolean): void {
    if (!isDurable || flushes === next) return
    database.exec(next ? 'PRAGMA synchronous = FULL' : 'PRAGMA synchronous = NORMAL')
    flushes = next
  }

  function runAlone(name: OperationName, args: unknown): unknown {
    savepoint.run()
    try {
      const result = operations[name](args)
      release.run()
      return result
    } catch (error) {
      // A full disk or an I/O error may have ended the whole transaction; then there is no savepoint to go back to.
      if (database.isTransaction) {
        takeBack.run()
        release.run()
      }
      throw error
    }
  }

  /** Without savepoints, which cost as much as the writes themselves; the first failure ends it. */
  const runPlain = (group: readonly WriteRequest[]): FromWriter => ({
    results: group.map(([name, args]) => operations[name](args)),
    failures: null,
  })

  function runEachAlone(group: readonly WriteRequest[]): FromWriter {
    const results: unknown[] = []
    let failures: Map<number, Failure> | null = null
    for (const [name, args] of group) {
      try {
        results.push(runAlone(name, args))
      } catch (error) {
        const failure = failureOf(error)
        if (failure.kind === 'unavailable' || !database.isTransaction) throw error
        failures ??= new Map()
        failures.set(results.length, failure)
        results.push(undefined)
      }
    }
    return { results, failures }
  }

  /** All of it is committed when this returns, and nothing has happened when it throws. */
  function inTransaction(run: typeof runPlain, group: readonly WriteRequest[]): FromWriter {
    try {
      whenFree(() => begin.run())
      const outcome = run(group)
      commit.run()
      return outcome
    } catch (error) {
      if (database.isTransaction) rollBack(database)
      throw error
    }
  }

  /** Failures are rare: a group that has one is taken back and done again, each write with a savepoint of its own. */
  function runGroup(group: readonly WriteRequest[]): FromWriter {
    try {
      return inTransaction(runPlain, group)
    } catch (error) {
      if (failureOf(error).kind === 'unavailable') throw error
      return inTransaction(runEachAlone, group)
    }
  }

  return (group) => {
    try {
      flushAtCommit(isFlushed(group))
      return runGroup(group)
    } catch (error) {
      const failure: Failure = { kind: 'unavailable', message: failureOf(error).message }
      return { results: group.map(() => undefined), failures: new Map(group.map((_, i) => [i, failure])) }
    }
  }
}

/** Whether anything of a group has to be on disk when it is answered: then all of it is. */
export const isFlushed = (group: readonly WriteRequest[]): boolean => group.some(([, , flushed]) => flushed)

/**
 * Waits for the write lock of another process. Here and not in SQLite, whose own wait grows to 100 ms a step: under load
 * the other process has the lock again long before, and this one is served last each time.
 */
function whenFree(take: () => void): void {
  const giveUpAt = performance.now() + BUSY_TIMEOUT_MS
  for (;;) {
    try {
      return take()
    } catch (error) {
      if (!isBusy(error) || performance.now() > giveUpAt) throw error
      Atomics.wait(never, 0, 0, 1)
    }
  }
}

function rollBack(database: DatabaseSync): void {
  try {
    database.exec('ROLLBACK')
  } catch {
    // Nothing was committed either way; the first error says why.
  }
}

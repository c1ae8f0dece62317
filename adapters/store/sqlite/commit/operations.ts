import type { DatabaseSync } from 'node:sqlite'
import { type Call, type Methods, stepsOf } from '../../repositories/calls.ts'
import { channelOperations } from '../channelOperations.ts'
import { bookOperations } from '../payments/ledgerOperations.ts'
import { sumOperations } from '../rollups/rollupOperations.ts'
import { preparing, type Row, type Statement } from '../statement.ts'
import { createAnswering, runSteps } from '../templates.ts'

export type Operations = ReturnType<typeof prepareOperations>
export type OperationName = keyof Operations

export interface StepResult {
  readonly rows: Row[]
  readonly changes: number
}

/**
 * Number of bytes that the probe writes. The largest payment writes as many, because the probe has to fail if the disk has less
 * space.
 */
const PROBE_BYTES = 48 * 1024

/**
 * Prepares all operations of the writer. They run in the writer thread, inside its transaction.
 * @param methods the methods that a call can run; tests replace them
 */
export function prepareOperations(database: DatabaseSync, methods?: Methods) {
  const prepare = preparing(database)
  const probe = database.prepare(`
    INSERT INTO probes (id, at_ms, room) VALUES (1, ?, zeroblob(${PROBE_BYTES}))
    ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms, room = excluded.room`)

  function run({ sql, parameters }: Statement): StepResult {
    const { statement, returnsRows } = prepare(sql)
    if (returnsRows) {
      const rows = statement.all(...parameters)
      return { rows, changes: rows.length }
    }
    return { rows: [], changes: Number(statement.run(...parameters).changes) }
  }

  return {
    ...bookOperations(database),
    ...channelOperations(database),
    ...messageOperations(database),
    ...sumOperations(database),
    /** Runs a method of a repository, either completely or not at all. */
    call: callOperation(database, methods),
    /** Makes a write that tests whether writes succeed. */
    probe: (nowMs: number): void => void probe.run(nowMs),
    /** Runs one statement that Kysely compiled. */
    run,
    /** Runs several compiled statements, either all of them or none. */
    runAll: (steps: readonly Statement[]): StepResult[] => steps.map(run),
  }
}

/** How often messages to ended leases are deleted, in ms. */
const PRUNE_MS = 60_000

/** recipient, sender, body */
type MessageArgs = readonly [recipient: number, sender: number, body: Uint8Array]

/** The mailbox's writes, inside the writer's transaction. */
function messageOperations(database: DatabaseSync) {
  const insert = database.prepare('INSERT INTO messages (recipient, sender, body) VALUES (?, ?, ?)')
  const remove = database.prepare('DELETE FROM messages WHERE recipient = ? AND id <= ?')
  const prune = database.prepare('DELETE FROM messages WHERE recipient NOT IN (SELECT id FROM leases)')
  let prunedAtMs = Number.NEGATIVE_INFINITY

  return {
    postMessages(mailbox: readonly MessageArgs[]): void {
      const nowMs = performance.now()
      if (nowMs - prunedAtMs >= PRUNE_MS) {
        prunedAtMs = nowMs
        prune.run()
      }
      for (const message of mailbox) insert.run(...message)
    },
    /** Deletes messages that were delivered. */
    removeMessages: ([recipient, upTo]: readonly [recipient: number, upTo: number]): void =>
      void remove.run(recipient, upTo),
  }
}

/** A call with the times of both clocks, because the writer reads no clock. */
interface TimedCall extends Call {
  readonly nowMs: number
  readonly storeNowMs: number
}

/** Runs a call. If it fails, only its own changes within the writer's transaction are rolled back. */
function callOperation(database: DatabaseSync, methods?: Methods): (call: TimedCall) => unknown {
  const respond = createAnswering(database)
  const savepoint = database.prepare('SAVEPOINT call')
  const release = database.prepare('RELEASE call')
  const takeBack = database.prepare('ROLLBACK TO call')
  return (call) => {
    savepoint.run()
    try {
      const steps = stepsOf(call, call.nowMs, methods)
      const result = runSteps(steps, (request) => respond(request, call.storeNowMs))
      release.run()
      return result
    } catch (error) {
      // A full disk or an I/O error may have ended the whole transaction. Then there is no savepoint to roll back to.
      if (database.isTransaction) {
        takeBack.run()
        release.run()
      }
      throw error
    }
  }
}

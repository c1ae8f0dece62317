import { closeSync, fdatasyncSync, openSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import type { Call, Methods } from '../../repositories/calls.ts'
import { BUSY_TIMEOUT_MS, connectWriter } from '../connect.ts'
import { type Failure, failureOf, isBusy } from '../failure.ts'
import { type OperationName, prepareOperations } from './operations.ts'
import type { FromWriter, SlowCall, ToWriter, WriteRequest, WriterOptions } from './writer.ts'

/** The log reports a call that blocks the writer for longer than this, in ms, because every claim waits for the writer. */
const SLOW_CALL_MS = 20

/** How long a commit without a flush may take to reach the disk, in ms. The documented limit is a second. */
const FLUSH_VISIBLE_MS = 800

/** Maximum number of writes in a group, so that no write waits for a whole backlog. */
const MAX_GROUP = 512

/** The thread waits on this value, which never changes, to block itself. */
const never = new Int32Array(new SharedArrayBuffer(4))

/**
 * The loop of the writer thread. It collects writes for a moment, commits them as one group, and responds. It collects the next
 * group while the previous one is written to the disk.
 */
export class WriterLoop {
  readonly #port: MessagePort
  readonly #options: WriterOptions
  readonly #database: DatabaseSync
  readonly #commit: GroupCommit
  readonly #queue: WriteRequest[] = []
  #timer: NodeJS.Timeout | undefined
  #isClosing = false
  #flushTimer: NodeJS.Timeout | undefined
  #log: number | undefined
  /** Number of writes in the previous group. The loop expects as many in the next group and does not wait for more. */
  #expected = 1

  constructor(port: MessagePort, options: WriterOptions) {
    this.#port = port
    this.#options = options
    this.#database = connectWriter(options.path, options.isDurable)
    this.#commit = new GroupCommit(this.#database, options.isDurable)
    port.on('message', (message: ToWriter) => {
      this.#take(message)
      this.#schedule()
    })
    port.postMessage('ready')
  }

  #take(message: ToWriter): void {
    if ('close' in message) this.#isClosing = true
    else for (const write of message.writes) this.#queue.push(write)
  }

  #schedule(): void {
    const { maxRows, flushMs } = this.#options
    const isDue = this.#isClosing || this.#queue.length >= Math.min(this.#expected, maxRows)
    if (isDue) return this.#flush()
    this.#timer ??= setTimeout(() => this.#flush(), flushMs)
  }

  #flush(): void {
    const { maxRows, isDurable } = this.#options
    clearTimeout(this.#timer)
    this.#timer = undefined
    do {
      this.#drain()
      const group = this.#queue.splice(0, maxRows === 1 ? 1 : MAX_GROUP)
      if (group.length === 0) break
      this.#port.postMessage(this.#commit.run(group))
      if (isDurable && !isFlushed(group))
        this.#flushTimer ??= setTimeout(() => this.#flushLog(), FLUSH_VISIBLE_MS)
      this.#expected = group.length
    } while (this.#queue.length > 0)
    if (this.#isClosing) this.#close()
  }

  /** Takes the writes that arrived while the last group was written to the disk. */
  #drain(): void {
    const port = this.#port
    for (let got = receiveMessageOnPort(port); got !== undefined; got = receiveMessageOnPort(port)) {
      this.#take(got.message as ToWriter)
    }
  }

  /**
   * Flushes the commits of groups without a flush. All processes share one log file, so the flush of one process covers the commits
   * of all. The file keeps its name while this connection is open. After a failed flush, the next write also fails.
   */
  #flushLog(): void {
    this.#flushTimer = undefined
    try {
      this.#log ??= openSync(`${this.#options.path}-wal`, 'r+')
      fdatasyncSync(this.#log)
    } catch {
      this.#flushTimer = setTimeout(() => this.#flushLog(), FLUSH_VISIBLE_MS)
    }
  }

  #close(): void {
    clearTimeout(this.#flushTimer)
    // The last connection that closes copies the log back. The other connections leave the log as it is.
    if (this.#options.isDurable) this.#flushLog()
    clearTimeout(this.#flushTimer)
    this.#database.close()
    if (this.#log !== undefined) closeSync(this.#log)
    this.#port.postMessage('closed')
    this.#port.close()
  }
}

/**
 * Runs a group of writes in one transaction, so that they share one flush to disk. If a write breaks a constraint, the others of
 * the group are not affected. If the database itself fails, all writes of the group fail and none is committed.
 */
export class GroupCommit {
  readonly #database: DatabaseSync
  readonly #isDurable: boolean
  readonly #operations: Record<OperationName, (args: unknown) => unknown>
  readonly #begin
  readonly #commit
  readonly #savepoint
  readonly #release
  readonly #takeBack
  #flushes = true

  constructor(database: DatabaseSync, isDurable: boolean, methods?: Methods) {
    this.#database = database
    this.#isDurable = isDurable
    this.#operations = prepareOperations(database, methods) as Record<
      OperationName,
      (args: unknown) => unknown
    >
    this.#begin = database.prepare('BEGIN IMMEDIATE')
    this.#commit = database.prepare('COMMIT')
    this.#savepoint = database.prepare('SAVEPOINT write')
    this.#release = database.prepare('RELEASE write')
    this.#takeBack = database.prepare('ROLLBACK TO write')
    database.exec('PRAGMA busy_timeout = 0')
  }

  run(group: readonly WriteRequest[]): FromWriter {
    try {
      this.#flushAtCommit(isFlushed(group))
      return this.#runGroup(group)
    } catch (error) {
      const failure: Failure = { kind: 'unavailable', message: failureOf(error).message }
      return { results: group.map(() => undefined), failures: new Map(group.map((_, i) => [i, failure])) }
    }
  }

  /**
   * Sets whether a commit is flushed. FULL flushes the log at the commit, and with it everything that any connection committed
   * before. NORMAL flushes only when the log is copied back (sqlite.org/pragma.html#pragma_synchronous). This pragma works neither
   * inside a transaction nor as a prepared statement, because SQLite runs it when it compiles it.
   */
  #flushAtCommit(next: boolean): void {
    if (!this.#isDurable || this.#flushes === next) return
    this.#database.exec(next ? 'PRAGMA synchronous = FULL' : 'PRAGMA synchronous = NORMAL')
    this.#flushes = next
  }

  /**
   * Runs a group without savepoints. Failures are rare, so a group with one is rolled back and repeated with a savepoint for each
   * write.
   */
  #runGroup(group: readonly WriteRequest[]): FromWriter {
    try {
      return this.#inTransaction(group, group.some(([name]) => name === 'call') ? 'calls' : 'plain')
    } catch (error) {
      if (failureOf(error).kind === 'unavailable') throw error
      return this.#inTransaction(group, 'each')
    }
  }

  /** When this method returns, everything is committed. If it throws, nothing is. */
  #inTransaction(group: readonly WriteRequest[], savepoints: 'plain' | 'calls' | 'each'): FromWriter {
    const database = this.#database
    try {
      whenFree(() => this.#begin.run())
      const outcome =
        savepoints === 'plain' ? this.#runPlain(group) : this.#runEach(group, savepoints === 'each')
      this.#commit.run()
      return outcome
    } catch (error) {
      if (database.isTransaction) rollBack(database)
      throw error
    }
  }

  /** Runs the group without savepoints, because savepoints cost as much as the writes. The first failure ends the group. */
  #runPlain(group: readonly WriteRequest[]): FromWriter {
    return { results: group.map(([name, args]) => this.#operations[name](args)), failures: null }
  }

  /** @param isEachAlone whether each write gets a savepoint; otherwise only calls have one, which they set themselves */
  #runEach(group: readonly WriteRequest[], isEachAlone: boolean): FromWriter {
    const results: unknown[] = []
    let failures: Map<number, Failure> | null = null
    let slow: SlowCall[] | undefined
    for (const [name, args] of group) {
      const isCall = name === 'call'
      const startMs = performance.now()
      try {
        results.push(isCall || !isEachAlone ? this.#operations[name](args) : this.#runAlone(name, args))
      } catch (error) {
        const failure = failureOf(error)
        const mayFail = isCall || isEachAlone
        if (!mayFail || failure.kind === 'unavailable' || !this.#database.isTransaction) throw error
        failures ??= new Map()
        failures.set(results.length, failure)
        results.push(undefined)
      }
      const ms = performance.now() - startMs
      if (isCall && ms > SLOW_CALL_MS) {
        const { noun, method } = args as Call
        slow ??= []
        slow.push({ noun, method, ms })
      }
    }
    return slow === undefined ? { results, failures } : { results, failures, slow }
  }

  #runAlone(name: OperationName, args: unknown): unknown {
    this.#savepoint.run()
    try {
      const result = this.#operations[name](args)
      this.#release.run()
      return result
    } catch (error) {
      // A full disk or an I/O error may have ended the whole transaction. Then there is no savepoint to roll back to.
      if (this.#database.isTransaction) {
        this.#takeBack.run()
        this.#release.run()
      }
      throw error
    }
  }
}

/** Whether a write of the group must be on disk before its response. If so, the whole group is flushed. */
const isFlushed = (group: readonly WriteRequest[]): boolean => group.some(([, , flushed]) => flushed)

/**
 * Waits for the write lock of another process. The waits of SQLite itself grow to 100 ms. Under load, the other process would take
 * the lock again before that, and this process would always be last.
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
    // Nothing was committed in either case. The first error has the reason.
  }
}

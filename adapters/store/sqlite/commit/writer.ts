import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Log } from '../../../../core/ports/log.ts'
import { storeUnavailable } from '../../../../core/ports/refusals.ts'
import type { Durability } from '../../../../core/ports/store/ledger.ts'
import { errorOf, type Failure } from '../failure.ts'
import type { OperationName, Operations } from './operations.ts'

/** The main thread's side of the writer. Every write of this process goes to the writer and resolves after its commit. */
export interface Writer {
  /**
   * Runs one operation and resolves after the commit, which is `flushed` (the default) or `visible` as in the type `Durability`.
   *
   * @throws {ConstraintError} if the operation broke a rule of the schema; `store_unavailable` if the database failed (nothing was
   * committed) or the thread died (the outcome is unknown)
   */
  write<Name extends OperationName>(
    name: Name,
    args: Parameters<Operations[Name]>[0],
    durability?: Durability,
  ): Promise<ReturnType<Operations[Name]>>
  /** Commits the writes that were accepted, then closes the connection. */
  close(): Promise<void>
}

interface Waiting {
  readonly request: WriteRequest
  /** Bytes of a large response. 0 for everything else. */
  readonly largeBytes: number
  resolve(value: never): void
  reject(error: Error): void
}

/** Size in bytes from which a response counts as large. */
const LARGE_BYTES = 65_536
/** Maximum number of bytes of large responses that the thread has in flight. A later write waits for no more than these. */
const MAX_LARGE_BYTES = 8 * 1_048_576

/** This module and the worker are .js files if compiled, and .ts files if run from source. */
const writerScript = new URL(`./writer.worker${extname(import.meta.url)}`, import.meta.url)

/**
 * Starts the writer thread, and resolves once the thread has opened the database. If the thread dies, the next write starts another
 * one.
 *
 * @param program the thread's script; tests replace it by a script that dies
 */
export async function startWriter(options: WriterOptions, log: Log, program = writerScript): Promise<Writer> {
  let thread: Thread | undefined
  let batch: WriteRequest[] = []
  let isClosed = false
  const waiting: Waiting[] = []
  /** Writes with large responses that wait to be sent to the thread. */
  const large: Waiting[] = []
  let largeBytes = 0

  function spawn(): Thread {
    // Options of this process's command line (loaders, inspectors) do not apply to the writer.
    const worker = new Worker(program, { workerData: options, execArgv: [], name: 'tollgate-writer' })
    const started = new Promise<void>((resolve, reject) => {
      worker.once('message', () => resolve())
      worker.once('error', reject)
      worker.once('exit', () => reject(new Error('The writer thread ended.')))
    })
    started.catch(() => {})
    const spawned: Thread = { worker, started }
    worker.on('message', (message: FromWriter | string) => {
      if (typeof message === 'object') settle(message)
    })
    worker.on('error', (error) =>
      log.error({ err: error }, 'The writer thread failed. The next write starts another.'),
    )
    worker.on('exit', () => {
      if (thread === spawned) thread = undefined
      abandon()
    })
    return spawned
  }

  function settle({ results, failures, slow = [] }: FromWriter): void {
    for (const call of slow) log.warn({ event: 'slow_call', ...call }, 'A call blocked the writer.')
    const answered = waiting.splice(0, results.length)
    for (const one of answered) largeBytes -= one.largeBytes
    while (large.length > 0 && mayHandOver(large[0]!)) handOver(large.shift()!)
    if (waiting.length === 0 && !isClosed) thread?.worker.unref()
    answered.forEach((one, i) => {
      const failure = failures?.get(i)
      if (failure === undefined) one.resolve(results[i] as never)
      else one.reject(errorOf(failure))
    })
  }

  /** Called when the thread ended with writes in flight. Each of them may or may not have been committed. */
  function abandon(): void {
    batch = []
    largeBytes = 0
    for (const one of [...waiting.splice(0), ...large.splice(0)])
      one.reject(storeUnavailable('its writer stopped'))
  }

  const mayHandOver = (one: Waiting): boolean =>
    one.largeBytes === 0 || largeBytes === 0 || largeBytes + one.largeBytes <= MAX_LARGE_BYTES

  /** Posts one message per turn of the event loop. All writes of a turn share the cost of the message, and their commit. */
  function handOver(one: Waiting): void {
    largeBytes += one.largeBytes
    waiting.push(one)
    if (batch.push(one.request) === 1) setImmediate(send)
  }

  function send(): void {
    const writes = batch
    batch = []
    if (writes.length === 0) return
    thread ??= spawn()
    thread.worker.ref()
    thread.worker.postMessage({ writes } satisfies ToWriter)
  }

  thread = spawn()
  await thread.started
  thread.worker.unref()

  return {
    write(name, args, durability = 'flushed') {
      if (isClosed) return Promise.reject(storeUnavailable('it was closed'))
      return new Promise((resolve, reject) => {
        const request: WriteRequest = [name, args, durability === 'flushed']
        const one: Waiting = { request, largeBytes: largeBytesOf(args), resolve, reject }
        if ((one.largeBytes > 0 && large.length > 0) || !mayHandOver(one)) large.push(one)
        else handOver(one)
      })
    },
    async close() {
      if (isClosed) return
      isClosed = true
      for (const one of large.splice(0)) handOver(one)
      send()
      const worker = thread?.worker
      if (worker === undefined) return
      worker.ref()
      const ended = new Promise((resolve) => worker.once('exit', resolve))
      worker.postMessage({ close: true } satisfies ToWriter)
      await ended
    },
  }
}

function largeBytesOf(args: unknown): number {
  const body = (args as { response?: readonly unknown[] | null }).response?.[2]
  return body instanceof Uint8Array && body.length >= LARGE_BYTES ? body.length : 0
}

interface Thread {
  readonly worker: Worker
  readonly started: Promise<void>
}

/** One write: the name of an operation, its arguments, and whether it must be on disk before its response. */
export type WriteRequest = readonly [name: OperationName, args: unknown, isFlushed: boolean]

/** Main thread → writer. Responses to `writes` arrive in the same order. */
export type ToWriter = { readonly writes: readonly WriteRequest[] } | { readonly close: true }

/** Writer → main thread, after a group was committed or has failed. */
export interface FromWriter {
  /** One value per write of the group; undefined where the write failed. */
  readonly results: readonly unknown[]
  /** Failures by their index in `results`. Null when there is none. */
  readonly failures: ReadonlyMap<number, Failure> | null
  /** Calls that blocked the writer. */
  readonly slow?: readonly SlowCall[]
}

export interface SlowCall {
  readonly noun: string
  readonly method: string
  readonly ms: number
}

/** The writer's start options. */
export interface WriterOptions {
  readonly path: string
  /** False for a database that ends with this process. Its commits are never flushed. */
  readonly isDurable: boolean
  readonly flushMs: number
  readonly maxRows: number
}

import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Log } from '../../../core/ports/log.ts'
import { storeUnavailable } from '../../../core/ports/refusals.ts'
import type { Durability } from '../../../core/ports/store/books.ts'
import { errorOf } from '../failure.ts'
import type { FromWriter, ToWriter, WriteRequest, WriterOptions } from './messages.ts'
import type { OperationName, Operations } from './operations.ts'

/** The main thread's end of the writer: every write of this process goes through here, and answers after its commit. */
export interface Writer {
  /**
   * Runs one operation; it answers after the commit, `flushed` (the default) or `visible` as the port Books says.
   * @throws {ConstraintError} when it broke a rule of the schema; `store_unavailable` when the database can not say:
   *   nothing was committed then, or (the thread died) it is not known.
   */
  write<Name extends OperationName>(
    name: Name,
    args: Parameters<Operations[Name]>[0],
    durability?: Durability,
  ): Promise<ReturnType<Operations[Name]>>
  /** Commits what was handed over, then closes the connection. */
  close(): Promise<void>
}

interface Waiting {
  readonly request: WriteRequest
  /** Of a large answer; 0 for everything else. */
  readonly largeBytes: number
  resolve(value: never): void
  reject(error: Error): void
}

/** From here on an answer is large. */
const LARGE_BYTES = 65_536
/** Of large answers the thread has so much in hand: whoever comes then waits for no more of them, however many there are. */
const MAX_LARGE_BYTES = 8 * 1_048_576

/** Compiled, this module and the worker are .js; run from source, both are .ts. */
const writerProgram = new URL(`./writer.worker${extname(import.meta.url)}`, import.meta.url)

/**
 * Starts the writer thread; resolves once it has the database open. When it dies, the next write starts another.
 *
 * @param program what the thread runs; another one in tests of a writer that dies.
 */
export async function startWriter(
  options: WriterOptions,
  log: Log,
  program = writerProgram,
): Promise<Writer> {
  let thread: Thread | undefined
  let batch: WriteRequest[] = []
  let isClosed = false
  const waiting: Waiting[] = []
  /** Writes with large answers that the thread does not have yet. */
  const large: Waiting[] = []
  let largeBytes = 0

  function spawn(): Thread {
    // The options of this process's command line (loaders, inspectors) are not the writer's.
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
      log.error({ err: error }, 'The writer thread failed; the next write starts another.'),
    )
    worker.on('exit', () => {
      if (thread === spawned) thread = undefined
      abandon()
    })
    return spawned
  }

  function settle({ results, failures }: FromWriter): void {
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

  /** The thread is gone with writes in hand: each may or may not have been committed. */
  function abandon(): void {
    batch = []
    largeBytes = 0
    for (const one of [...waiting.splice(0), ...large.splice(0)])
      one.reject(storeUnavailable('its writer stopped'))
  }

  const mayHandOver = (one: Waiting): boolean =>
    one.largeBytes === 0 || largeBytes === 0 || largeBytes + one.largeBytes <= MAX_LARGE_BYTES

  /** One message per turn of the loop: what every request of this turn writes shares its cost and its commit. */
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
  const body = (args as { answer?: readonly unknown[] | null }).answer?.[2]
  return body instanceof Uint8Array && body.length >= LARGE_BYTES ? body.length : 0
}

interface Thread {
  readonly worker: Worker
  readonly started: Promise<void>
}

import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { storeUnavailable } from '../../../../core/ports/refusals.ts'
import { errorOf, type Failure } from '../failure.ts'
import type { Row, Statement } from '../statement.ts'

/** Main thread → reader. */
export interface ToReader {
  readonly id: number
  readonly steps: readonly Statement[]
}

/** Reader → main thread. */
export interface FromReader {
  readonly id: number
  readonly results?: readonly Row[][]
  readonly failure?: Failure
}

/** A thread that only reads, so that queries of milliseconds do not block the event loop. */
export interface ReaderThread {
  /** Returns the rows of each statement, all as of the same moment. */
  read(...steps: readonly Statement[]): Promise<readonly Row[][]>
  /**
   * Reads for one of the callers that share the thread. Callers take turns, one read each. So a caller with ten concurrent reads
   * delays only its own.
   * @param requester a store or a link
   */
  of(requester: string): Pick<ReaderThread, 'read'>
  close(): Promise<void>
}

interface Asked {
  readonly steps: readonly Statement[]
  resolve(results: readonly Row[][]): void
  reject(error: Error): void
}

const program = new URL(`./reader.worker${extname(import.meta.url)}`, import.meta.url)

/** Creates the thread, which starts with the first read, because most processes never read. */
export function createReaderThread(path: string): ReaderThread {
  /** Waiting reads by caller, in order. After a read, its caller moves behind the others. */
  const waiting = new Map<string, Asked[]>()
  const asked = new Map<number, Asked>()
  let worker: Worker | undefined
  let isClosed = false
  let lastId = 0

  function take({ id, results, failure }: FromReader): void {
    const one = asked.get(id)
    asked.delete(id)
    next()
    if (failure === undefined) one?.resolve(results!)
    else one?.reject(errorOf(failure))
  }

  function abandon(why: string): void {
    for (const one of [...asked.values(), ...[...waiting.values()].flat()]) one.reject(storeUnavailable(why))
    asked.clear()
    waiting.clear()
  }

  function spawn(): Worker {
    const spawned = new Worker(program, { workerData: path, execArgv: [], name: 'tollgate-reader' })
    spawned.on('message', take)
    spawned.on('error', (error) => abandon(error instanceof Error ? error.message : String(error)))
    spawned.on('exit', () => {
      if (worker !== spawned) return
      worker = undefined
      abandon('its reader stopped')
    })
    return spawned
  }

  /** Sends one read at a time, because a sent read can no longer wait behind others. */
  function next(): void {
    if (asked.size > 0) return
    const [turn] = waiting
    if (turn === undefined) return worker?.unref()
    const [requester, mine] = turn
    const one = mine.shift()!
    waiting.delete(requester)
    if (mine.length > 0) waiting.set(requester, mine)
    const id = ++lastId
    asked.set(id, one)
    worker ??= spawn()
    worker.ref()
    worker.postMessage({ id, steps: one.steps } satisfies ToReader)
  }

  function read(requester: string, steps: readonly Statement[]): Promise<readonly Row[][]> {
    if (isClosed) return Promise.reject(storeUnavailable('it was closed'))
    const { promise, resolve, reject } = Promise.withResolvers<readonly Row[][]>()
    const one = { steps, resolve, reject }
    const mine = waiting.get(requester)
    if (mine === undefined) waiting.set(requester, [one])
    else mine.push(one)
    next()
    return promise
  }

  return {
    read: (...steps) => read('', steps),
    of: (requester) => ({ read: (...steps) => read(requester, steps) }),
    async close() {
      isClosed = true
      await worker?.terminate()
    },
  }
}

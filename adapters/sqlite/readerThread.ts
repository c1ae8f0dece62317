import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { storeUnavailable } from '../../core/ports/refusals.ts'
import { errorOf, type Failure } from './failure.ts'
import type { Row, Statement } from './statement.ts'

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

/** A thread that only reads: what takes milliseconds does not hold up the event loop. */
export interface ReaderThread {
  /** The rows of each statement, all as the database stood at one moment. */
  read(...steps: readonly Statement[]): Promise<readonly Row[][]>
  close(): Promise<void>
}

interface Asked {
  resolve(results: readonly Row[][]): void
  reject(error: Error): void
}

const program = new URL(`./reader.worker${extname(import.meta.url)}`, import.meta.url)

/** The thread starts with the first question: most processes have none. */
export function createReaderThread(path: string): ReaderThread {
  const asked = new Map<number, Asked>()
  let worker: Worker | undefined
  let isClosed = false
  let lastId = 0

  function take({ id, results, failure }: FromReader): void {
    const one = asked.get(id)
    asked.delete(id)
    if (asked.size === 0) worker?.unref()
    if (failure === undefined) one?.resolve(results!)
    else one?.reject(errorOf(failure))
  }

  function abandon(why: string): void {
    for (const one of asked.values()) one.reject(storeUnavailable(why))
    asked.clear()
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

  return {
    read(...steps) {
      if (isClosed) return Promise.reject(storeUnavailable('it was closed'))
      const { promise, resolve, reject } = Promise.withResolvers<readonly Row[][]>()
      const id = ++lastId
      asked.set(id, { resolve, reject })
      worker ??= spawn()
      worker.ref()
      worker.postMessage({ id, steps } satisfies ToReader)
      return promise
    },
    async close() {
      isClosed = true
      await worker?.terminate()
    },
  }
}

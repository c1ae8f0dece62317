import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { storeUnavailable } from '../../../core/ports/refusals.ts'
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

/** A thread that only reads: what takes milliseconds does not hold up the event loop. */
export interface ReaderThread {
  /** The rows of each statement, all as the database stood at one moment. */
  read(...steps: readonly Statement[]): Promise<readonly Row[][]>
  /**
   * The same for one of those who share the thread. They take turns, one look each: whoever asks for ten at once waits himself.
   *
   * @param who a store or a link
   */
  of(who: string): Pick<ReaderThread, 'read'>
  close(): Promise<void>
}

interface Asked {
  readonly steps: readonly Statement[]
  resolve(results: readonly Row[][]): void
  reject(error: Error): void
}

const program = new URL(`./reader.worker${extname(import.meta.url)}`, import.meta.url)

/** The thread starts with the first question: most processes have none. */
export function createReaderThread(path: string): ReaderThread {
  /** Of each who asks, in his order; who has had his turn stands behind the others. */
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

  /** One at a time: what the thread has in hand can not be put behind others any more. */
  function next(): void {
    if (asked.size > 0) return
    const [turn] = waiting
    if (turn === undefined) return worker?.unref()
    const [who, mine] = turn
    const one = mine.shift()!
    waiting.delete(who)
    if (mine.length > 0) waiting.set(who, mine)
    const id = ++lastId
    asked.set(id, one)
    worker ??= spawn()
    worker.ref()
    worker.postMessage({ id, steps: one.steps } satisfies ToReader)
  }

  function read(who: string, steps: readonly Statement[]): Promise<readonly Row[][]> {
    if (isClosed) return Promise.reject(storeUnavailable('it was closed'))
    const { promise, resolve, reject } = Promise.withResolvers<readonly Row[][]>()
    const one = { steps, resolve, reject }
    const mine = waiting.get(who)
    if (mine === undefined) waiting.set(who, [one])
    else mine.push(one)
    next()
    return promise
  }

  return {
    read: (...steps) => read('', steps),
    of: (who) => ({ read: (...steps) => read(who, steps) }),
    async close() {
      isClosed = true
      await worker?.terminate()
    },
  }
}

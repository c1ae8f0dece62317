import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { StoredAnswer } from '../../../core/domain/payment.ts'
import { storeUnavailable } from '../../../core/ports/refusals.ts'
import { errorOf, type Failure } from '../failure.ts'

/** Worker → main thread. Neither of both: there is no such answer. */
export interface AnswerRead {
  readonly row: number
  readonly answer?: StoredAnswer
  readonly failure?: Failure
}

/** Stored answers, read by a thread of their own. */
export interface Answers {
  /** Those who ask for one at once share the read and what it brings. */
  of(row: number): Promise<StoredAnswer | undefined>
  close(): Promise<void>
}

interface Asked {
  readonly answer: Promise<StoredAnswer | undefined>
  resolve(answer: StoredAnswer | undefined): void
  reject(error: Error): void
}

const program = new URL(`./answers.worker${extname(import.meta.url)}`, import.meta.url)

/** The thread starts with the first question: most processes of a command line have none. */
export function createAnswers(path: string): Answers {
  const asked = new Map<number, Asked>()
  let worker: Worker | undefined
  let isClosed = false

  function take({ row, answer, failure }: AnswerRead): void {
    const one = asked.get(row)
    asked.delete(row)
    if (asked.size === 0) worker?.unref()
    if (failure === undefined) one?.resolve(answer)
    else one?.reject(errorOf(failure))
  }

  function abandon(why: string): void {
    for (const one of asked.values()) one.reject(storeUnavailable(why))
    asked.clear()
  }

  function spawn(): Worker {
    const spawned = new Worker(program, { workerData: path, execArgv: [], name: 'tollgate-answers' })
    spawned.on('message', take)
    spawned.on('error', (error) => abandon(error instanceof Error ? error.message : String(error)))
    spawned.on('exit', () => {
      if (worker === spawned) worker = undefined
      abandon('its reader stopped')
    })
    return spawned
  }

  return {
    of(row) {
      if (isClosed) return Promise.reject(storeUnavailable('it was closed'))
      const present = asked.get(row)
      if (present !== undefined) return present.answer
      const { promise: answer, resolve, reject } = Promise.withResolvers<StoredAnswer | undefined>()
      asked.set(row, { answer, resolve, reject })
      worker ??= spawn()
      worker.ref()
      worker.postMessage(row)
      return answer
    },
    async close() {
      isClosed = true
      await worker?.terminate()
    },
  }
}

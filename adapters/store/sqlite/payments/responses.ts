import { extname } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { Worker } from 'node:worker_threads'
import type { StoredResponse } from '../../../../core/domain/payment.ts'
import { storeUnavailable } from '../../../../core/ports/refusals.ts'
import { errorOf, type Failure } from '../failure.ts'

/** Worker → main thread. If both optional fields are absent, the response does not exist. */
export interface ResponseRead {
  readonly row: number
  readonly response?: StoredResponse
  readonly failure?: Failure
}

/** Reads stored responses on a separate thread. */
export interface Responses {
  /** Concurrent requests for the same response share one read. */
  of(row: number): Promise<StoredResponse | undefined>
  close(): Promise<void>
}

interface Asked {
  readonly response: Promise<StoredResponse | undefined>
  resolve(response: StoredResponse | undefined): void
  reject(error: Error): void
}

/** Reads stored responses on a connection. */
export function createResponseReads(database: DatabaseSync): (row: number) => StoredResponse | undefined {
  const read = database.prepare('SELECT status, headers, body FROM responses WHERE payment_id = ?')
  return (row) => {
    const found = read.get(row)
    if (found === undefined) return undefined
    const { status, headers, body } = found
    return {
      status: Number(status),
      headers: JSON.parse(String(headers)) as string[],
      body: body as Uint8Array,
    }
  }
}

const program = new URL(`./responses.worker${extname(import.meta.url)}`, import.meta.url)

/** Creates the reader. Its thread starts with the first request, because most commands of the CLI read no response. */
export function createResponses(path: string): Responses {
  const asked = new Map<number, Asked>()
  let worker: Worker | undefined
  let isClosed = false

  function take({ row, response, failure }: ResponseRead): void {
    const one = asked.get(row)
    asked.delete(row)
    if (asked.size === 0) worker?.unref()
    if (failure === undefined) one?.resolve(response)
    else one?.reject(errorOf(failure))
  }

  function abandon(why: string): void {
    for (const one of asked.values()) one.reject(storeUnavailable(why))
    asked.clear()
  }

  function spawn(): Worker {
    const spawned = new Worker(program, { workerData: path, execArgv: [], name: 'tollgate-responses' })
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
      if (present !== undefined) return present.response
      const { promise: response, resolve, reject } = Promise.withResolvers<StoredResponse | undefined>()
      asked.set(row, { response, resolve, reject })
      worker ??= spawn()
      worker.ref()
      worker.postMessage(row)
      return response
    },
    async close() {
      isClosed = true
      await worker?.terminate()
    },
  }
}

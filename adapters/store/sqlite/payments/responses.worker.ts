import { parentPort, workerData } from 'node:worker_threads'
import { connectReader } from '../connect.ts'
import { failureOf } from '../failure.ts'
import { createResponseReads, type ResponseRead } from './responses.ts'

// Reads stored responses outside the event loop, because a large response takes milliseconds.
const responseOf = createResponseReads(connectReader(workerData as string))

parentPort!.on('message', (row: number) => {
  try {
    const response = responseOf(row)
    if (response === undefined) return parentPort!.postMessage({ row } satisfies ResponseRead)
    parentPort!.postMessage({ row, response } satisfies ResponseRead, [response.body.buffer as ArrayBuffer])
  } catch (error) {
    parentPort!.postMessage({ row, failure: failureOf(error) } satisfies ResponseRead)
  }
})

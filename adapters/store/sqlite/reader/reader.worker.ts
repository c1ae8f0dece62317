import { constants, getPriority, setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { connectReader } from '../connect.ts'
import { failureOf } from '../failure.ts'
import type { FromReader, ToReader } from './readerThread.ts'
import { createReads } from './reads.ts'

/** Added to the thread's nice value. A thread that serves calls then gets nine times as much of a CPU that both threads need. */
const NICE_INCREMENT = 10

const database = connectReader(workerData as string)
database.exec('PRAGMA cache_size = -32000')
const read = createReads(database)
lowerPriority()

/**
 * Lowers this thread's priority, so that calls come before reads. This works only on Linux, where the id 0 means the calling thread
 * (setpriority(2), Bugs).
 */
function lowerPriority(): void {
  if (process.platform !== 'linux') return
  try {
    setPriority(0, Math.min(getPriority(0) + NICE_INCREMENT, constants.priority.PRIORITY_LOW))
  } catch {
    // The system does not permit it, so reads keep the normal priority.
  }
}

parentPort!.on('message', ({ id, steps }: ToReader) => {
  let response: FromReader
  try {
    response = { id, results: read(steps) }
  } catch (error) {
    response = { id, failure: failureOf(error) }
  }
  parentPort!.postMessage(response)
})

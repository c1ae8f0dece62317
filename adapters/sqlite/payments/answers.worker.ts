import { parentPort, workerData } from 'node:worker_threads'
import { connectReader } from '../connect.ts'
import { failureOf } from '../failure.ts'
import type { AnswerRead } from './answers.ts'

// Reads stored answers beside the event loop: a large one takes milliseconds.
const database = connectReader(workerData as string)
const read = database.prepare('SELECT status, headers, body FROM answers WHERE payment_id = ?')

parentPort!.on('message', (row: number) => {
  try {
    const found = read.get(row)
    if (found === undefined) return parentPort!.postMessage({ row } satisfies AnswerRead)
    const body = found['body'] as Uint8Array<ArrayBuffer>
    const answer = {
      status: Number(found['status']),
      headers: JSON.parse(String(found['headers'])) as string[],
      body,
    }
    parentPort!.postMessage({ row, answer } satisfies AnswerRead, [body.buffer])
  } catch (error) {
    parentPort!.postMessage({ row, failure: failureOf(error) } satisfies AnswerRead)
  }
})

import { parentPort, workerData } from 'node:worker_threads'
import { ImportRefusal } from './document.ts'
import { type DraftsRequest, readDrafts } from './readDrafts.ts'
import type { FromDrafts } from './readInThread.ts'

let answer: FromDrafts
try {
  const { drafts, ...rest } = readDrafts(workerData as DraftsRequest)
  const texts = drafts.map((draft) => {
    const { operation, operationId } = draft
    return { operation, operationId, json: JSON.stringify(draft) }
  })
  answer = { read: { ...rest, drafts: texts } }
} catch (error) {
  if (!(error instanceof ImportRefusal)) throw error
  answer = { refusal: { path: error.path, message: error.message } }
}
parentPort!.postMessage(answer)

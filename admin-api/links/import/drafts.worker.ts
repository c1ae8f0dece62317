import { parentPort, workerData } from 'node:worker_threads'
import { ImportRefusal } from './document.ts'
import { readDrafts } from './readDrafts.ts'
import type { FromDrafts, ToDrafts } from './readInThread.ts'

let response: FromDrafts
try {
  const { document, ...request } = workerData as ToDrafts
  const { drafts, ...rest } = readDrafts({ ...request, text: new TextDecoder().decode(document) })
  const texts = drafts.map((draft) => {
    const { operation, operationId } = draft
    return { operation, operationId, json: JSON.stringify(draft) }
  })
  response = { read: { ...rest, drafts: texts } }
} catch (error) {
  if (!(error instanceof ImportRefusal)) throw error
  response = { refusal: { path: error.path, message: error.message } }
}
parentPort!.postMessage(response)

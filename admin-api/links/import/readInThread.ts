import { once } from 'node:events'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { TollgateError } from '../../../core/errors/error.ts'
import { validationError } from '../../http/validation.ts'
import type { Draft, Drafts, DraftsRequest } from './readDrafts.ts'

/** A draft as the thread sends it. Only its JSON is long, so the JSON is parsed only when the draft is processed. */
export interface DraftText extends Pick<Draft, 'operation' | 'operationId'> {
  /** The {@link Draft} as JSON. */
  readonly json: string
}

interface ReadDocument extends Omit<Drafts, 'drafts'> {
  readonly drafts: readonly DraftText[]
}

/** Main thread → thread. */
export interface ToDrafts extends Omit<DraftsRequest, 'text'> {
  readonly document: Uint8Array
}

/** Thread → main thread. */
export interface FromDrafts {
  readonly read?: ReadDocument
  readonly refusal?: { readonly path: string; readonly message: string }
}

/** Maximum time for a document, in ms. The largest document, in YAML, takes about four seconds on an idle machine. */
const MAX_MS = 20_000
/** Maximum heap of the thread, in MB. The largest document takes about 300. */
const MAX_HEAP_MB = 768

const program = new URL(`./drafts.worker${extname(import.meta.url)}`, import.meta.url)

/** Maximum number of waiting documents of one store. Each may have 16 MB. */
const MAX_OF_A_STORE = 4

/** The documents of all stores are read one at a time, because the process has other work. */
let before: Promise<unknown> = Promise.resolve()
/** A store has only one document at a time in the shared queue, so that documents of other stores come in between. */
const ofStores = new Map<string, { last: Promise<unknown>; count: number }>()

/**
 * Reads a document on a separate thread, which ends afterwards. The thread is needed because 16 MB of YAML take seconds, and a
 * malicious document can take longer.
 *
 * @throws `VALIDATION_ERROR`; `RATE_LIMIT_EXCEEDED` while other documents of the store wait
 */
export async function readInThread(storeId: string, request: DraftsRequest): Promise<ReadDocument> {
  const own = ofStores.get(storeId) ?? { last: Promise.resolve(), count: 0 }
  if (own.count === MAX_OF_A_STORE)
    throw new TollgateError(
      'RATE_LIMIT_EXCEEDED',
      `${MAX_OF_A_STORE} documents of the store are waiting already. Send the next one when they are done.`,
      { retryAfterSeconds: MAX_MS / 1_000 },
    )
  ofStores.set(storeId, own)
  own.count++
  const reading = own.last.then(() => {
    const turn = before.then(() => read(request))
    before = turn.catch(() => {})
    return turn
  })
  own.last = reading.catch(() => {})
  try {
    return await reading
  } finally {
    if (--own.count === 0) ofStores.delete(storeId)
  }
}

async function read({ text, ...rest }: DraftsRequest): Promise<ReadDocument> {
  // The document is sent as bytes, because bytes are transferred and a long string would be copied.
  const document = new TextEncoder().encode(text)
  const workerData: ToDrafts = { ...rest, document }
  const worker = new Worker(program, {
    workerData,
    transferList: [document.buffer],
    execArgv: [],
    name: 'tollgate-import',
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
  })
  try {
    const [response] = (await once(worker, 'message', { signal: AbortSignal.timeout(MAX_MS) })) as [
      FromDrafts,
    ]
    if (response.read !== undefined) return response.read
    const { path, message } = response.refusal!
    throw validationError([{ path, code: 'not_importable', message }])
  } catch (error) {
    const { name, code } = error as { name?: string; code?: string }
    const isTooMuch = name === 'AbortError' || name === 'RangeError' || code === 'ERR_WORKER_OUT_OF_MEMORY'
    if (!isTooMuch) throw error
    const message = `The document takes more than ${MAX_MS / 1_000} s or too much memory to read. Import it in parts.`
    throw validationError([{ path: 'document', code: 'not_importable', message }])
  } finally {
    await worker.terminate()
  }
}

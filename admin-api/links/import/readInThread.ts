import { once } from 'node:events'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { TollgateError } from '../../../core/errors/error.ts'
import { validationError } from '../../schema/validationError.ts'
import type { Draft, Drafts, DraftsRequest } from './readDrafts.ts'

/** A draft as it is handed over: only its text is long, and is read when its turn has come. */
export interface DraftText extends Pick<Draft, 'operation' | 'operationId'> {
  /** {@link Draft}, JSON. */
  readonly json: string
}

export interface ReadDocument extends Omit<Drafts, 'drafts'> {
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

/** The largest document, in YAML, takes some four seconds on a machine that has time. */
const MAX_MS = 20_000
/** Of its memory; the largest document takes some 300. */
const MAX_HEAP_MB = 768

const program = new URL(`./drafts.worker${extname(import.meta.url)}`, import.meta.url)

/** Documents of one store that wait here; each may have sixteen megabytes. */
const MAX_OF_A_STORE = 4

/** One document is read at a time: this process has other things to do. */
let before: Promise<unknown> = Promise.resolve()
/** Of a store at most one waits for the others', however many it sends: theirs are read in between. */
const ofStores = new Map<string, { last: Promise<unknown>; count: number }>()

/**
 * Reads a document on a thread of its own, which ends with it: sixteen megabytes of YAML take seconds, and a document may
 * be made to take more.
 *
 * @throws `VALIDATION_ERROR`; `RATE_LIMIT_EXCEEDED` while others of the store wait
 */
export async function readInThread(storeId: string, request: DraftsRequest): Promise<ReadDocument> {
  const own = ofStores.get(storeId) ?? { last: Promise.resolve(), count: 0 }
  if (own.count === MAX_OF_A_STORE)
    throw new TollgateError(
      'RATE_LIMIT_EXCEEDED',
      `${MAX_OF_A_STORE} documents of the store wait to be read. Send the next one when they are done.`,
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
  // Bytes are handed over, a long text would be copied.
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
    const [answer] = (await once(worker, 'message', { signal: AbortSignal.timeout(MAX_MS) })) as [FromDrafts]
    if (answer.read !== undefined) return answer.read
    const { path, message } = answer.refusal!
    throw validationError([{ path, code: 'not_importable', message }])
  } catch (error) {
    const { name, code } = error as { name?: string; code?: string }
    const isTooMuch = name === 'AbortError' || name === 'RangeError' || code === 'ERR_WORKER_OUT_OF_MEMORY'
    if (!isTooMuch) throw error
    const message = `The document takes longer than ${MAX_MS / 1_000} s to read, or too much memory. Import a part of it at a time.`
    throw validationError([{ path: 'document', code: 'not_importable', message }])
  } finally {
    await worker.terminate()
  }
}

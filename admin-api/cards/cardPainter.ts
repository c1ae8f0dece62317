import { once } from 'node:events'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { LRUCache } from 'lru-cache'
import { TollgateError } from '../../core/errors/error.ts'
import type { Card } from './card.ts'

/** Paints cards on a thread of its own, one at a time, and keeps what it painted last. */
export interface CardPainter {
  /**
   * @returns a PNG
   * @throws `SERVICE_BUSY` while too many others wait
   */
  paint(card: Card): Promise<Buffer>
  close(): Promise<void>
}

export interface CardPainterOptions {
  /** Bytes of pictures that are kept; one has some 30 kB. */
  readonly keptBytes?: number
  /** Different cards that wait or are painted; each takes a twentieth of a second on a machine that has time. */
  readonly maxWaiting?: number
  /** The thread and its 100 MB end after as long without work, in ms. */
  readonly idleMs?: number
}

/** What draws is given seller's texts: it does not hang on any that is known, and would not for long. */
const MAX_PAINT_MS = 10_000
const RETRY_AFTER_SECONDS = 5

const program = new URL(`./card.worker${extname(import.meta.url)}`, import.meta.url)

/** Nothing is loaded before the first card: most processes never paint one. */
export function createCardPainter({
  keptBytes = 16_000_000,
  maxWaiting = 32,
  idleMs = 30_000,
}: CardPainterOptions = {}): CardPainter {
  const kept = new LRUCache<string, Buffer>({
    maxSize: keptBytes,
    sizeCalculation: (png, key) => png.length + key.length,
  })
  const underWay = new Map<string, Promise<Buffer>>()
  let before: Promise<unknown> = Promise.resolve()
  let worker: Worker | undefined
  let idle: NodeJS.Timeout | undefined
  let isClosed = false

  async function end(): Promise<void> {
    clearTimeout(idle)
    const ended = worker
    worker = undefined
    await ended?.terminate()
  }

  async function paintOne(key: string, card: Card): Promise<Buffer> {
    if (isClosed) throw new TollgateError('SERVICE_BUSY')
    clearTimeout(idle)
    worker ??= new Worker(program, { execArgv: [], name: 'tollgate-cards' })
    const painter = worker
    painter.ref()
    painter.postMessage(card)
    const done = new AbortController()
    const signal = AbortSignal.any([done.signal, AbortSignal.timeout(MAX_PAINT_MS)])
    try {
      const stopped = once(painter, 'exit', { signal }).then(() => {
        throw new Error('What paints cards has stopped.')
      })
      const [bytes] = (await Promise.race([once(painter, 'message', { signal }), stopped])) as [Uint8Array]
      const png = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      kept.set(key, png)
      painter.unref()
      idle = setTimeout(() => void end(), idleMs).unref()
      return png
    } catch (error) {
      await end()
      throw error
    } finally {
      done.abort()
    }
  }

  return {
    async paint(card) {
      const key = JSON.stringify(card)
      const present = kept.get(key) ?? underWay.get(key)
      if (present !== undefined) return present
      if (underWay.size >= maxWaiting) {
        const message = `${maxWaiting} other pictures are being made. Ask again in ${RETRY_AFTER_SECONDS} s.`
        throw new TollgateError('SERVICE_BUSY', message, { retryAfterSeconds: RETRY_AFTER_SECONDS })
      }
      const painting = before.then(() => paintOne(key, card))
      before = painting.catch(() => {})
      underWay.set(key, painting)
      try {
        return await painting
      } finally {
        underWay.delete(key)
      }
    },
    async close() {
      isClosed = true
      await end()
    },
  }
}

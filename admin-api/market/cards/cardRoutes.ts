import { once } from 'node:events'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { FastifyInstance } from 'fastify'
import { LRUCache } from 'lru-cache'
import { TollgateError } from '../../../core/errors/error.ts'
import type { Api } from '../../deps.ts'
import { limitPerClient, MINUTE_MS } from '../../http/callers.ts'
import { answerNotFound } from '../../http/pages.ts'
import { isKnown } from '../../http/responses.ts'
import { findStore, publicLink } from '../storeRoutes.ts'
import { type Card, cardOfLink, cardOfMarket, cardOfStore, cardVersion } from './card.ts'

/** Renders cards on a separate thread, one at a time, and caches the latest cards. */
interface CardPainter {
  /**
   * @returns a PNG
   * @throws `SERVICE_BUSY` while too many other cards wait
   */
  paint(card: Card): Promise<Buffer>
  close(): Promise<void>
}

interface CardPainterOptions {
  /** Maximum number of bytes of cached images. One image takes about 30 kB. */
  readonly cachedBytes?: number
  /** Maximum number of cards that wait or are being rendered. Each takes about 50 ms on an idle machine. */
  readonly maxWaiting?: number
  /** Idle time after which the thread and its 100 MB are released, in ms. */
  readonly idleMs?: number
}

/**
 * Maximum time of one rendering, in ms. Cards contain sellers' texts. No known text blocks the renderer, and this limit ends the
 * rendering if one does.
 */
const MAX_PAINT_MS = 10_000
const RETRY_AFTER_SECONDS = 5

const program = new URL(`./card.worker${extname(import.meta.url)}`, import.meta.url)

/** Creates the painter. It loads nothing before the first card, because most processes never render one. */
export function createCardPainter({
  cachedBytes = 16_000_000,
  maxWaiting = 32,
  idleMs = 30_000,
}: CardPainterOptions = {}): CardPainter {
  const cached = new LRUCache<string, Buffer>({
    maxSize: cachedBytes,
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
        throw new Error('The card thread has stopped.')
      })
      const [bytes] = (await Promise.race([once(painter, 'message', { signal }), stopped])) as [Uint8Array]
      const png = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      cached.set(key, png)
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
      const present = cached.get(key) ?? underWay.get(key)
      if (present !== undefined) return present
      if (underWay.size >= maxWaiting) {
        const message = `${maxWaiting} other images are being rendered. Try again in ${RETRY_AFTER_SECONDS} s.`
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

/** Maximum number of requests per client and minute. Services that show links send a request for each image, from few addresses. */
const CARDS_PER_MINUTE = 300

/** `card.png` below the marketplace, a store and a link is the preview image of the page. Only public pages have one. */
export function cardRoutes(app: FastifyInstance, api: Api): void {
  const painter = createCardPainter()
  app.addHook('onClose', () => painter.close())

  const add = (path: string, find: (at: { username: string; slug: string }) => Promise<Card | undefined>) =>
    app.get<{ Params: { username: string; slug: string } }>(
      path,
      {
        config: { answers404: true, anyOrigin: true },
        schema: { hide: true },
        onRequest: limitPerClient(api, 'card', CARDS_PER_MINUTE, MINUTE_MS),
      },
      async (request, reply) => {
        const card = await find(request.params)
        if (card === undefined) return answerNotFound(request, reply, api)
        reply.header('cache-control', 'public, max-age=3600')
        // The ETag is computed from the content, so a client that has the image gets a 304 without a new rendering.
        const etag = `W/"${cardVersion(card)}"`
        if (isKnown(request.headers['if-none-match'], etag))
          return reply.header('etag', etag).code(304).send()
        const png = await painter.paint(card)
        return reply
          .header('etag', etag)
          .header('cross-origin-resource-policy', 'cross-origin')
          .type('image/png')
          .send(png)
      },
    )

  add('/card.png', async () => cardOfMarket(api))
  add('/:username/card.png', async ({ username }) => {
    const store = await findStore(api, username)
    return store && cardOfStore(api, store)
  })
  add('/:username/:slug/card.png', async ({ username, slug }) => {
    const link = await publicLink(api, username, slug)
    return link && cardOfLink(api, link, await api.stores.find(link.storeId))
  })
}

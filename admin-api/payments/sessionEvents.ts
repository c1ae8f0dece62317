import { PassThrough } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { type Session, type SessionStatus, statusOf } from '../../core/domain/session.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { clientBucket } from '../http/callers.ts'
import { idParams } from '../http/ownership.ts'
import { eventStream, respond } from '../http/responses.ts'
import { bySecretOrKey, originOfSession, secretQuery, sessionOf } from './sessionAccess.ts'
import { toOwnView, viewOf } from './sessionView.ts'

/** How often a followed session is polled, in ms. Polling is needed because another process may change the session. */
const POLL_MS = 400
/**
 * Time between comments that keep the stream open, in ms. The gateway and other proxies end responses that are silent for a minute.
 */
const HEARTBEAT_MS = 15_000
/** Time after which a browser reconnects a broken stream, in ms. */
const RETRY_MS = 2_000
const MAX_PER_SESSION = 10
/** Maximum number of open streams of one store, so that its sessions do not block the buyers of other stores. */
const MAX_PER_STORE = 250
/** Maximum number of open streams of one client, across all stores. */
const MAX_PER_CLIENT = 100
const MAX_STREAMS = 1_000

/** Server-sent events of a session (HTML standard, section 9.2). The stream ends when the session has ended. */
export function sessionEventsRoute(app: FastifyInstance, api: Api): void {
  const streams = new Map<PassThrough, Followed>()
  app.addHook('preClose', async () => {
    for (const stream of [...streams.keys()]) stream.end()
  })

  app.get(
    '/api/v1/payments/:id/events',
    {
      exposeHeadRoute: false,
      config: { originOf: (url) => originOfSession(api, url) },
      schema: {
        summary: 'Follow a payment session by server-sent events',
        security: bySecretOrKey,
        description:
          'Sends a server-sent event named `session` at once and after each change. An event has the data of GET /api/v1/payments/:id. A comment every 15 seconds keeps the connection open. The stream ends when the session has ended.',
        params: idParams,
        querystring: secretQuery,
        response: respond({ 200: eventStream }, [401, 404, 429]),
      },
    },
    async (request, reply) => {
      const { session, isSeller } = await sessionOf(api, request, reply)
      const { id, storeId } = session
      const client = clientBucket(request.ip)
      const has = (is: (one: Followed) => boolean) => [...streams.values()].filter(is).length
      const isSessionFull = has((one) => one.id === id) >= MAX_PER_SESSION
      if (
        isSessionFull ||
        has((one) => one.storeId === storeId) >= MAX_PER_STORE ||
        has((one) => one.client === client) >= MAX_PER_CLIENT ||
        streams.size >= MAX_STREAMS
      )
        throw new TollgateError(
          'RATE_LIMIT_EXCEEDED',
          isSessionFull
            ? `Expected at most ${MAX_PER_SESSION} open streams of one session. Close one, or poll the session instead.`
            : 'Too many streams are open. Poll the session instead.',
          { retryAfterSeconds: 5 },
        )
      const watched: Watched = {
        find: () => api.sessions.find(id),
        // The status depends on the current time, because the session may have expired.
        standing: (now) => `${statusOf(now, api.clock.now())} ${now.paymentRow}`,
        async show(now) {
          const view = await viewOf(api, now)
          return isSeller ? toOwnView(view, now) : view
        },
      }
      const stream = new PassThrough()
      streams.set(stream, { id, storeId, client })
      const stop = follow(stream, watched, (err) => api.log.warn({ err }, 'could not poll a payment session'))
      stream.once('close', () => {
        stop()
        streams.delete(stream)
      })
      request.raw.once('close', () => stream.destroy())
      return reply
        .header('content-type', 'text/event-stream; charset=utf-8')
        .header('cache-control', 'no-store, no-transform')
        .header('x-accel-buffering', 'no')
        .send(stream)
    },
  )
}

/** The fields by which the limits count open streams. */
interface Followed extends Pick<Session, 'id' | 'storeId'> {
  readonly client: string
}

/** How a stream polls its session. */
interface Watched {
  find(): Promise<Session | undefined>
  /** A short text of the session's state. If it is unchanged, nothing is sent, and the poll costs only one read. */
  standing(session: Session): string
  show(session: Session): Promise<{ readonly status: SessionStatus }>
}

/** Writes each change of a session until the session has ended. @returns a function that stops the stream */
function follow(
  stream: PassThrough,
  { find, standing, show }: Watched,
  failed: (error: unknown) => void,
): () => void {
  let last = ''
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  const heartbeat = setInterval(() => stream.write(': still here\n\n'), HEARTBEAT_MS)
  stream.write(`retry: ${RETRY_MS}\n\n`)

  async function poll(): Promise<void> {
    try {
      const session = await find()
      if (isStopped) return
      if (session === undefined) return void stream.end()
      const now = standing(session)
      if (now !== last) {
        const view = await show(session)
        if (isStopped) return
        stream.write(`event: session\ndata: ${JSON.stringify(view)}\n\n`)
        if (view.status !== 'open') return void stream.end()
        last = now
      }
    } catch (error) {
      failed(error)
    }
    if (!isStopped) timer = setTimeout(poll, POLL_MS)
  }
  void poll()

  return () => {
    isStopped = true
    clearTimeout(timer)
    clearInterval(heartbeat)
  }
}

import { PassThrough } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { type Session, type SessionStatus, statusOf } from '../../core/domain/session.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { idParams } from '../http/ids.ts'
import { clientBucket } from '../http/rateLimits.ts'
import { answers, eventStream } from '../schema/answers.ts'
import { bySecretOrKey, originOfSession, secretQuery, sessionOf } from './sessionAccess.ts'
import { toOwnView, viewOf } from './sessionView.ts'

/** Between two looks at a session that somebody watches: another process may have moved it. */
const LOOK_MS = 400
/** The gateway ends answers that say nothing for a minute, and so do proxies. */
const HEARTBEAT_MS = 15_000
/** After which a browser asks again whose stream broke off. */
const RETRY_MS = 2_000
const MOST_OF_A_SESSION = 10
/** So that no store's sessions keep all others' buyers from following theirs. */
const MOST_OF_A_STORE = 250
/** Nor one client, however many stores it opens. */
const MOST_OF_A_CLIENT = 100
const MOST_STREAMS = 1_000

/** Server-sent events of a session (HTML standard, section 9.2), until it has ended. */
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
        summary: 'Follow a payment session',
        security: bySecretOrKey,
        description:
          'Server-sent events named `session`, whose data is that of GET /api/v1/payments/:id: one at once and one for each change. A comment every 15 s keeps the connection. The stream ends with the session.',
        params: idParams,
        querystring: secretQuery,
        response: answers({ 200: eventStream }, 401, 404, 429),
      },
    },
    async (request, reply) => {
      const { session, isSeller } = await sessionOf(api, request, reply)
      const { id, storeId } = session
      const client = clientBucket(request.ip)
      const has = (is: (one: Followed) => boolean) => [...streams.values()].filter(is).length
      const isSessionFull = has((one) => one.id === id) >= MOST_OF_A_SESSION
      if (
        isSessionFull ||
        has((one) => one.storeId === storeId) >= MOST_OF_A_STORE ||
        has((one) => one.client === client) >= MOST_OF_A_CLIENT ||
        streams.size >= MOST_STREAMS
      )
        throw new TollgateError(
          'RATE_LIMIT_EXCEEDED',
          isSessionFull
            ? `At most ${MOST_OF_A_SESSION} streams of one session are open at a time. Close one, or read the session.`
            : 'Too many streams are open now. Read the session instead.',
          { retryAfterSeconds: 5 },
        )
      const watched: Watched = {
        find: () => api.sessions.find(id),
        // By the clock of now: its time may have ended it.
        standing: (now) => `${statusOf(now, api.clock.now())} ${now.paymentRow}`,
        async show(now) {
          const view = await viewOf(api, now)
          return isSeller ? toOwnView(view, now) : view
        },
      }
      const stream = new PassThrough()
      streams.set(stream, { id, storeId, client })
      const stop = follow(stream, watched, (err) => api.log.warn({ err }, 'could not look at a session'))
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

/** What a stream is counted by. */
interface Followed extends Pick<Session, 'id' | 'storeId'> {
  readonly client: string
}

/** How a stream looks at its session. */
interface Watched {
  find(): Promise<Session | undefined>
  /** In a few characters: what is the same is not shown again, and all that it costs is the look. */
  standing(session: Session): string
  show(session: Session): Promise<{ readonly status: SessionStatus }>
}

/** Writes each change of a session, until it has ended. @returns a function that stops it */
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

  async function look(): Promise<void> {
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
    if (!isStopped) timer = setTimeout(look, LOOK_MS)
  }
  void look()

  return () => {
    isStopped = true
    clearTimeout(timer)
    clearInterval(heartbeat)
  }
}

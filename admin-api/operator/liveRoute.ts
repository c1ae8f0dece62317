import { PassThrough } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { answers, eventStream } from '../schema/answers.ts'
import { createLiveCalls } from './liveCalls.ts'
import { operatorOnly } from './operatorSession.ts'

/** The gateway ends answers that say nothing for a minute, and so do proxies. */
const HEARTBEAT_MS = 15_000
/** After which a browser asks again whose stream broke off. */
const RETRY_MS = 2_000
const MOST_STREAMS = 8
/** Somebody who reads so slowly misses what comes meanwhile. */
const MOST_UNREAD_BYTES = 16_384

/** Server-sent events of what becomes of the calls of links, in all processes together. */
export function operatorLiveRoute(app: FastifyInstance, api: Api): void {
  const streams = new Set<PassThrough>()
  const live = createLiveCalls({ read: () => api.operator!.callCounts(), log: api.log })
  app.addHook('preClose', async () => {
    for (const stream of streams) stream.end()
  })

  app.get(
    '/api/operator/live',
    {
      exposeHeadRoute: false,
      onRequest: operatorOnly(api),
      schema: {
        summary: 'Follow the calls of links',
        security: [{ operator: [] }],
        description: `Server-sent events named \`calls\`, one a second: how many calls were asked to pay (\`asked\`, a 402), \`paid\`, and of these \`answered\`, and how many were \`repeated\`, \`pending\`, \`refused\`, \`failed\`, \`free\` or \`left\` since the one before; how many are \`underWay\` now; and of how many \`processes\`, of which \`silent\` did not say in time. A comment every 15 s keeps the connection. The stream ends with the operator's session; before it does, it says \`ended\`. At most ${MOST_STREAMS} at a time.`,
        response: answers({ 200: eventStream }, 401, 403, 404, 429),
      },
    },
    async (request, reply) => {
      if (streams.size >= MOST_STREAMS)
        throw new TollgateError(
          'RATE_LIMIT_EXCEEDED',
          `At most ${MOST_STREAMS} pages follow the calls at a time. Close one of them.`,
          { retryAfterSeconds: 5 },
        )
      const stream = new PassThrough()
      streams.add(stream)
      /** Whoever signed out elsewhere, or is signed in no more, hears nothing further. */
      async function say(text: string): Promise<void> {
        // A store that is busy has signed nobody out: then nothing is said, and the next second asks again.
        const session = await api.operators.find(request).catch(() => 'unknown' as const)
        if (!stream.writable || session === 'unknown') return
        if (session === undefined) return void stream.end('event: ended\ndata: {}\n\n')
        if (stream.readableLength + stream.writableLength < MOST_UNREAD_BYTES) stream.write(text)
      }
      const heartbeat = setInterval(() => void say(': still here\n\n'), HEARTBEAT_MS)
      const stop = live.watch((calls) => void say(`event: calls\ndata: ${JSON.stringify(calls)}\n\n`))
      stream.once('close', () => {
        stop()
        clearInterval(heartbeat)
        streams.delete(stream)
      })
      request.raw.once('close', () => stream.destroy())
      stream.write(`retry: ${RETRY_MS}\n\n`)

      return reply
        .header('content-type', 'text/event-stream; charset=utf-8')
        .header('cache-control', 'no-store, no-transform')
        .header('x-accel-buffering', 'no')
        .send(stream)
    },
  )
}

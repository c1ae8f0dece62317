import { PassThrough } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import { type Job, startJob } from '../../core/jobs/job.ts'
import type { CallCounts, ProcessCalls } from '../../core/ports/callCounts.ts'
import type { Log } from '../../core/ports/log.ts'
import type { Api } from '../deps.ts'
import { eventStream, respond } from '../http/responses.ts'
import { operatorOnly } from './operatorRoutes.ts'

/**
 * Time between comments that keep the stream open, in ms. The gateway and other proxies end responses that are silent for a minute.
 */
const HEARTBEAT_MS = 15_000
/** Time after which a browser reconnects a broken stream, in ms. */
const RETRY_MS = 2_000
const MAX_STREAMS = 8
/** Maximum number of unread bytes of a stream. A slower reader misses events until it has caught up. */
const MAX_UNREAD_BYTES = 16_384

/** Server-sent events with the outcomes of calls of links, added up over all processes. */
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
        summary: 'Follow the calls of all links by server-sent events',
        security: [{ operator: [] }],
        description: `Sends a server-sent event named \`calls\` every second, with the number of calls since the previous event by outcome. \`asked\` counts calls that got a 402. \`answered\` counts the \`paid\` calls whose response was sent. The other outcomes are \`repeated\`, \`pending\`, \`refused\`, \`failed\`, \`free\` and \`left\` (the caller disconnected). \`underWay\` is the number of calls in progress, \`processes\` the number of processes, and \`silent\` the number of processes that did not report in time. A comment every 15 seconds keeps the connection open. The stream ends with the operator's browser session, after an event named \`ended\`. At most ${MAX_STREAMS} streams can be open at the same time.`,
        response: respond({ 200: eventStream }, [401, 403, 404, 429]),
      },
    },
    async (request, reply) => {
      if (streams.size >= MAX_STREAMS)
        throw new TollgateError(
          'RATE_LIMIT_EXCEEDED',
          `Expected at most ${MAX_STREAMS} open streams of calls. Close one of the pages that follow the calls.`,
          { retryAfterSeconds: 5 },
        )
      const stream = new PassThrough()
      streams.add(stream)
      /** Sends an event if the operator is still signed in. Otherwise ends the stream. */
      async function say(text: string): Promise<void> {
        // If the database is busy, the session may still be valid. So nothing is sent now, and the next event checks again.
        const session = await api.operators.find(request).catch(() => 'unknown' as const)
        if (!stream.writable || session === 'unknown') return
        if (session === undefined) return void stream.end('event: ended\ndata: {}\n\n')
        if (stream.readableLength + stream.writableLength < MAX_UNREAD_BYTES) stream.write(text)
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

/** The calls since the previous poll. */
export interface LiveCalls extends CallCounts {
  /** The time since the previous poll, in ms. */
  readonly spanMs: number
  /** Number of calls that are still in progress. */
  readonly underWay: number
  readonly processes: number
  /** Number of processes that did not report in time. Their counts arrive with their next report. */
  readonly silent: number
}

interface LiveCallsDeps {
  readonly read: () => Promise<readonly ProcessCalls[]>
  readonly log: Log
  /** Default: a second. */
  readonly pollMs?: number
}

/** Streams the calls of all processes. It asks the processes only while there is a listener. */
interface LiveCallsWatch {
  /** @returns a function that ends the subscription */
  watch(listener: (calls: LiveCalls) => void): () => void
}

type Counts = { -readonly [K in keyof CallCounts]: CallCounts[K] }

const none: CallCounts = {
  asked: 0,
  paid: 0,
  answered: 0,
  repeated: 0,
  pending: 0,
  refused: 0,
  failed: 0,
  free: 0,
  left: 0,
}
const kinds = Object.keys(none) as (keyof CallCounts)[]

/** Polls the counts once a second, regardless of the number of listeners. */
export function createLiveCalls({ read, log, pollMs = 1_000 }: LiveCallsDeps): LiveCallsWatch {
  const listeners = new Set<(calls: LiveCalls) => void>()
  let running: Job | undefined

  function start(): Job {
    // The counts of the previous poll, by process.
    let before = new Map<string, CallCounts>()
    let sinceMs = performance.now()
    return startJob({
      name: 'count calls for the operator page',
      everyMs: pollMs,
      startsNow: true,
      log,
      async run(signal) {
        const found = await read()
        if (signal.aborted) return
        const atMs = performance.now()
        const reportedCounts = new Map(
          found.flatMap(({ process, calls }) => {
            const counts = calls ?? before.get(process)
            return counts === undefined ? [] : [[process, counts] as const]
          }),
        )
        // The first poll has no earlier counts to compare with.
        if (before.size > 0)
          publish({ ...differences(before, reportedCounts), ...facts(found), spanMs: atMs - sinceMs })
        ;[before, sinceMs] = [reportedCounts, atMs]
      },
    })
  }

  function publish(calls: LiveCalls): void {
    for (const listener of [...listeners]) listener(calls)
  }

  return {
    watch(listener) {
      // The wrapper makes each subscription a separate entry, so that the same listener can subscribe twice.
      const own = (calls: LiveCalls) => listener(calls)
      listeners.add(own)
      running ??= start()
      return () => {
        listeners.delete(own)
        if (listeners.size > 0) return
        void running?.stop()
        running = undefined
      }
    },
  }
}

function differences(
  before: ReadonlyMap<string, CallCounts>,
  reportedCounts: ReadonlyMap<string, CallCounts>,
): Counts {
  const sum: Counts = { ...none }
  for (const [process, counts] of reportedCounts) {
    const last = before.get(process)
    if (last !== undefined) for (const kind of kinds) sum[kind] += counts[kind] - last[kind]
  }
  return sum
}

const facts = (found: readonly ProcessCalls[]) => ({
  underWay: found.reduce((sum, { calls }) => sum + (calls?.underWay ?? 0), 0),
  processes: found.length,
  silent: found.filter(({ calls }) => calls === undefined).length,
})

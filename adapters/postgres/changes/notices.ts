import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import type { Log } from '../../../core/ports/log.ts'

export interface NoticesOptions {
  /** `postgres://…`, as for the pool. */
  readonly url: string
  readonly schema: string
  readonly log: Log
}

/**
 * What other processes tell at once, over one connection of its own: `pg_notify` on the schema's channel ({@link channelOf}),
 * with the topic as the first word of the payload and the detail after it. Transactions that notify commit one after the other,
 * each with its flush: what is told of a payment is told in a statement of its own, after the commit.
 */
export interface Notices {
  /**
   * The connection is made with the first listener, and made anew whenever it ends.
   *
   * @param listener is given what was told, and null after every connection: what was told before it may be missed. A notice
   * can be lost, so whoever waits for one also looks from time to time
   * @returns a function that ends the subscription
   */
  subscribe(topic: string, listener: (detail: string | null) => void): () => void
  /** Tells every process of the schema, this one too. Rejects when nobody was told. */
  tell(pool: pg.Pool, topic: string, detail: string): Promise<void>
  close(): Promise<void>
}

const FIRST_WAIT_MS = 100
const MAX_WAIT_MS = 5_000

/** One channel for each schema; md5, because a trigger makes the name too, and a name has at most 63 bytes. */
export const channelOf = (schema: string): string =>
  `tollgate_${createHash('md5').update(schema).digest('hex')}`

export function createNotices({ url, schema, log }: NoticesOptions): Notices {
  const listeners = new Set<{ topic: string; listener: (detail: string | null) => void }>()
  const channel = channelOf(schema)
  const closing = new AbortController()
  let client: pg.Client | undefined
  let running: Promise<void> | undefined

  function tell(topic: string | null, detail: string | null): void {
    for (const one of [...listeners]) {
      if (topic !== null && one.topic !== topic) continue
      try {
        one.listener(detail)
      } catch (error) {
        log.warn({ err: error }, 'A listener of notices failed.')
      }
    }
  }

  /** Resolves when the connection has ended. */
  async function listen(listening: () => void): Promise<void> {
    const own = new pg.Client({
      connectionString: url,
      application_name: 'tollgate notices',
      connectionTimeoutMillis: 2_000,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    })
    client = own
    const ended = new Promise<void>((resolve) => {
      own.on('end', () => resolve())
      own.on('error', () => resolve())
    })
    own.on('notification', ({ payload = '' }) => {
      const [topic = ''] = payload.split(' ', 1)
      tell(topic, payload.slice(topic.length + 1))
    })
    try {
      await own.connect()
      await own.query(`LISTEN ${channel}`)
      listening()
      tell(null, null)
      await ended
    } finally {
      await own.end().catch(() => {})
    }
  }

  async function run(): Promise<void> {
    let waitMs = FIRST_WAIT_MS
    let isWarned = false
    while (!closing.signal.aborted) {
      try {
        await listen(() => {
          waitMs = FIRST_WAIT_MS
          isWarned = false
        })
      } catch (error) {
        if (!isWarned && !closing.signal.aborted)
          log.warn(
            { err: error },
            'No connection to PostgreSQL for notices; looking from time to time meanwhile.',
          )
        isWarned = true
      }
      // Not all processes at the same moment, after a restart of the server.
      const pause = wait(waitMs * (0.5 + Math.random()), undefined, { signal: closing.signal, ref: false })
      await pause.catch(() => {})
      waitMs = Math.min(waitMs * 2, MAX_WAIT_MS)
    }
  }

  return {
    subscribe(topic, listener) {
      const one = { topic, listener }
      listeners.add(one)
      if (!closing.signal.aborted) running ??= run()
      return () => {
        listeners.delete(one)
      }
    },

    async tell(pool, topic, detail) {
      await pool.query(`SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`, [
        channel,
        `${topic} ${detail}`,
      ])
    },

    async close() {
      closing.abort()
      listeners.clear()
      // A server that is silent is not waited for.
      await Promise.race([client?.end().then(() => running), wait(1_000, undefined, { ref: false })])
    },
  }
}

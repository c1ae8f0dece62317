import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import type { Log } from '../../../../core/ports/log.ts'

export interface NoticesOptions {
  /** `postgres://…`, as for the pool. */
  readonly url: string
  readonly schema: string
  readonly log: Log
}

/**
 * Notices between processes, which a separate connection receives. A notice is a `pg_notify` on the schema's channel ({@link
 * channelOf}). The first word of its payload is the topic, and the rest is the detail. PostgreSQL commits transactions with notices
 * one after the other, each with its own flush. So a separate statement sends a notice about a payment after the commit.
 */
export interface Notices {
  /**
   * Subscribes to a topic. The first subscription opens the connection, which is reopened whenever it is lost. Notices can be lost,
   * so a listener must also poll.
   *
   * @param listener called with the detail of a notice, and with null after each connection or reconnection, because notices may be
   * missing
   * @returns a function that ends the subscription
   */
  subscribe(topic: string, listener: (detail: string | null) => void): () => void
  /** Notifies every process of the schema, including this one. Rejects if the notice was not sent. */
  tell(pool: pg.Pool, topic: string, detail: string): Promise<void>
  close(): Promise<void>
}

const FIRST_WAIT_MS = 100
const MAX_WAIT_MS = 5_000

/** One channel per schema. The name is an md5 hash, because a trigger computes it too and a name has at most 63 bytes. */
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
            'No connection to PostgreSQL for notices, so changes are polled until the connection is back.',
          )
        isWarned = true
      }
      // The pause is random, so that the processes do not reconnect at the same moment after a restart of the server.
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
      // The close has a time limit, because the server may not respond.
      await Promise.race([client?.end().then(() => running), wait(1_000, undefined, { ref: false })])
    },
  }
}

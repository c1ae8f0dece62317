import type pg from 'pg'
import { type Job, startJob } from '../../../core/jobs/job.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Mailbox, Message } from '../../../core/ports/store/mailbox.ts'
import type { Notices } from './changes/notices.ts'
import { errorOf } from './failure.ts'

/** How often a listener polls for messages, in ms. Polling is needed because notices can be lost. */
const POLL_MS = 1_000
/** How often messages to ended leases are deleted, in ms. */
const PRUNE_MS = 60_000
const AT_ONCE = 100

const topic = 'messages'

/**
 * The mailbox in a table of PostgreSQL. A notice wakes the recipient, which also polls because notices can be lost. A process sends
 * its messages one at a time, so that their ids are in order.
 */
export function createMessages(
  pool: pg.Pool,
  notices: Notices,
  log: Log,
): Mailbox & { close(): Promise<void> } {
  const listening = new Map<number, Job>()
  let posting: Promise<unknown> = Promise.resolve()
  let waiting: { readonly message: Message; resolve(): void; reject(error: unknown): void }[] = []
  let prunedAtMs = performance.now()
  let unsubscribe: (() => void) | undefined

  /** Subscribes when the first listener starts. So a process that only reads the database opens no connection for notices. */
  const subscribe = () =>
    notices.subscribe(topic, (detail) => {
      const recipients = detail?.split(',').map(Number) ?? listening.keys()
      for (const to of recipients) void listening.get(to)?.runNow()
    })

  async function send(): Promise<void> {
    const group = waiting
    waiting = []
    try {
      const mailbox = group.map(({ message }) => message)
      await pool.query(
        `INSERT INTO messages (recipient, sender, body)
          SELECT recipient, sender, body FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])
            WITH ORDINALITY AS given (recipient, sender, body, place),
            (SELECT set_config('synchronous_commit', 'off', true)) AS unflushed
          ORDER BY place`,
        [
          mailbox.map(({ to }) => to),
          mailbox.map(({ from }) => from),
          mailbox.map(({ body }) => Buffer.from(body)),
        ],
      )
      for (const one of group) one.resolve()
      // A separate statement sends the notice after the commit, because PostgreSQL commits transactions with notices one after the
      // other.
      await notices.tell(pool, topic, [...new Set(mailbox.map(({ to }) => to))].join(',')).catch(() => {})
    } catch (error) {
      for (const one of group) one.reject(errorOf(error))
    }
    if (performance.now() - prunedAtMs < PRUNE_MS) return
    prunedAtMs = performance.now()
    await pool.query('DELETE FROM messages WHERE recipient NOT IN (SELECT id FROM leases)').catch(() => {})
  }

  const postOne = (message: Message): Promise<void> =>
    new Promise((resolve, reject) => {
      // Messages that arrive while others are sent form the next batch.
      if (waiting.push({ message, resolve, reject }) === 1) posting = posting.then(send)
    })

  return {
    async post(mailbox) {
      await Promise.all(mailbox.map(postOne))
    },
    listen(to, receive) {
      /** Ids of messages that were received and may still be in the table. */
      let received: readonly number[] = []
      const job = startJob({
        name: 'read messages of other processes',
        everyMs: POLL_MS,
        startsNow: true,
        log,
        async run(signal) {
          // The next read deletes the messages of this read, so that a lost response loses no message.
          const { rows } = await pool.query<{ id: number; sender: number; body: Buffer }>(
            `WITH gone AS (DELETE FROM messages WHERE id = ANY ($2::bigint[]))
            SELECT messages.id, sender, body FROM messages, (SELECT set_config('synchronous_commit', 'off', true)) AS unflushed
              WHERE recipient = $1 AND NOT id = ANY ($2::bigint[]) ORDER BY id LIMIT ${AT_ONCE}`,
            [to, received],
          )
          received = rows.map(({ id }) => id)
          for (const { sender, body } of rows) {
            if (signal.aborted) return
            try {
              receive({ to, from: sender, body })
            } catch (err) {
              log.error({ err }, 'a listener of messages failed')
            }
          }
          if (rows.length > 0) return { inMs: 0 }
        },
      })
      listening.set(to, job)
      unsubscribe ??= subscribe()
      return () => {
        void job.stop()
        if (listening.get(to) === job) listening.delete(to)
      }
    },
    async close() {
      unsubscribe?.()
      for (const job of listening.values()) void job.stop()
      listening.clear()
      await posting
    },
  }
}

import type { Log } from '../../../core/ports/log.ts'
import type { Mailbox, Message } from '../../../core/ports/store/mailbox.ts'
import type { Database } from './connect.ts'
import { reading } from './failure.ts'

/**
 * Time between polls of the mailbox in ms, while messages are exchanged (`BUSY_MS`) and otherwise (`IDLE_MS`). A poll is one index
 * step.
 */
const BUSY_MS = 4
const IDLE_MS = 40
/** How long after the last message the mailbox polls more often, in ms. */
const BUSY_FOR_MS = 5_000
/** Maximum number of messages that listeners get in one turn of the event loop. */
const AT_ONCE = 100

/** The mailbox in a table of SQLite. One writer orders the messages, and listeners poll. */
export function createMessages(
  { reader, writer }: Pick<Database, 'reader' | 'writer'>,
  log: Log,
): Mailbox & { close(): void } {
  const newer = reader.prepare(
    `SELECT id, sender, body FROM messages WHERE recipient = ? AND id > ? ORDER BY id LIMIT ${AT_ONCE}`,
  )
  const newest = reader.prepare('SELECT max(id) AS id FROM messages')
  const listening = new Set<Listening>()
  /** The highest message id that all listeners have passed. If there is no newer message, a poll reads nothing else. */
  let deliveredUpTo = 0
  let timer: NodeJS.Timeout | undefined
  let busyUntilMs = 0
  let isFailing = false

  function pollIn(ms: number): void {
    clearTimeout(timer)
    timer = listening.size === 0 ? undefined : setTimeout(poll, ms).unref()
  }

  const stir = () => {
    const wasIdle = performance.now() >= busyUntilMs
    busyUntilMs = performance.now() + BUSY_FOR_MS
    if (wasIdle) pollIn(BUSY_MS)
  }

  function poll(): void {
    let isMore = false
    try {
      const lastId = Number(reading(() => newest.get())!['id'] ?? 0)
      if (lastId > deliveredUpTo) {
        // The id is set before the delivery, because a listener may start another listener.
        deliveredUpTo = lastId
        for (const one of [...listening]) isMore = deliverNewer(one) || isMore
        if (isMore) deliveredUpTo = 0
      }
      isFailing = false
    } catch (err) {
      deliveredUpTo = 0
      if (!isFailing) log.warn({ err }, 'could not read messages of other processes and tries again')
      isFailing = true
    }
    pollIn(isMore ? 0 : performance.now() < busyUntilMs ? BUSY_MS : IDLE_MS)
  }

  /** @returns whether there may be more messages */
  function deliverNewer(one: Listening): boolean {
    const rows = reading(() => newer.all(one.to, one.last))
    for (const row of rows) {
      if (!listening.has(one)) return false
      // The id is set before the delivery, so that a listener that fails does not get the message again.
      one.last = Number(row['id'])
      busyUntilMs = performance.now() + BUSY_FOR_MS
      try {
        one.onMessage({ to: one.to, from: Number(row['sender']), body: row['body'] as Uint8Array })
      } catch (err) {
        log.error({ err }, 'a listener of messages failed')
      }
    }
    // If the delete fails, the messages are not delivered again. They are deleted once the lease has ended.
    if (rows.length > 0)
      void writer.write('removeMessages', [one.to, one.last], 'visible').catch(() => undefined)
    return rows.length === AT_ONCE
  }

  return {
    async post(mailbox) {
      stir()
      await writer.write(
        'postMessages',
        mailbox.map(({ to, from, body }) => [to, from, body] as const),
        'visible',
      )
    },
    listen(to, onMessage) {
      const one: Listening = { to, onMessage, last: 0 }
      listening.add(one)
      deliveredUpTo = 0
      pollIn(0)
      return () => void listening.delete(one)
    },
    close() {
      listening.clear()
      clearTimeout(timer)
    },
  }
}

interface Listening {
  readonly to: number
  readonly onMessage: (message: Message) => void
  /** The id of the last delivered message. */
  last: number
}

import type { Log } from '../../core/ports/log.ts'
import type { Letter, Letters } from '../../core/ports/store/letters.ts'
import type { Database } from './database.ts'
import { reading } from './failure.ts'

/** Between two looks for letters, in ms: while some come and go, and otherwise. A look is a step into an index. */
const BUSY_MS = 4
const IDLE_MS = 40
/** So long after the last letter more are likely to come. */
const BUSY_FOR_MS = 5_000
/** Letters that are heard in one turn of the event loop. */
const AT_ONCE = 100

/** Letters in a table of SQLite: one writer gives them their order, and whoever listens looks for them. */
export function createLetters(
  { reader, writer }: Pick<Database, 'reader' | 'writer'>,
  log: Log,
): Letters & { close(): void } {
  const newer = reader.prepare(
    `SELECT id, sender, body FROM letters WHERE recipient = ? AND id > ? ORDER BY id LIMIT ${AT_ONCE}`,
  )
  const newest = reader.prepare('SELECT max(id) AS id FROM letters')
  const listening = new Set<Listening>()
  /** Every listener has heard what came up to here: most looks find that nothing came for anybody. */
  let heardUpTo = 0
  let timer: NodeJS.Timeout | undefined
  let busyUntilMs = 0
  let isFailing = false

  function lookIn(ms: number): void {
    clearTimeout(timer)
    timer = listening.size === 0 ? undefined : setTimeout(look, ms).unref()
  }

  const stir = () => {
    const wasIdle = performance.now() >= busyUntilMs
    busyUntilMs = performance.now() + BUSY_FOR_MS
    if (wasIdle) lookIn(BUSY_MS)
  }

  function look(): void {
    let isMore = false
    try {
      const lastId = Number(reading(() => newest.get())!['id'] ?? 0)
      if (lastId > heardUpTo) {
        // Before they hear it: one of them may make another listen.
        heardUpTo = lastId
        for (const one of [...listening]) isMore = hearNewer(one) || isMore
        if (isMore) heardUpTo = 0
      }
      isFailing = false
    } catch (err) {
      heardUpTo = 0
      if (!isFailing) log.warn({ err }, 'could not look for letters of other processes; trying again')
      isFailing = true
    }
    lookIn(isMore ? 0 : performance.now() < busyUntilMs ? BUSY_MS : IDLE_MS)
  }

  /** @returns whether there may be more */
  function hearNewer(one: Listening): boolean {
    const rows = reading(() => newer.all(one.to, one.last))
    for (const row of rows) {
      if (!listening.has(one)) return false
      // Before it is heard: a listener that fails does not hear it again and again.
      one.last = Number(row['id'])
      busyUntilMs = performance.now() + BUSY_FOR_MS
      try {
        one.hear({ to: one.to, from: Number(row['sender']), body: row['body'] as Uint8Array })
      } catch (err) {
        log.error({ err }, 'a letter could not be taken')
      }
    }
    // What stays is not heard twice, and goes when the lease is no more.
    if (rows.length > 0)
      void writer.write('removeLetters', [one.to, one.last], 'visible').catch(() => undefined)
    return rows.length === AT_ONCE
  }

  return {
    async post(letters) {
      stir()
      await writer.write(
        'postLetters',
        letters.map(({ to, from, body }) => [to, from, body] as const),
        'visible',
      )
    },
    listen(to, hear) {
      const one: Listening = { to, hear, last: 0 }
      listening.add(one)
      heardUpTo = 0
      lookIn(0)
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
  readonly hear: (letter: Letter) => void
  /** The number of the letter that was heard last. */
  last: number
}

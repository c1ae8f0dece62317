import type pg from 'pg'
import type { Log } from '../../core/ports/log.ts'
import type { Letter, Letters } from '../../core/ports/store/letters.ts'
import type { Notices } from './changes/notices.ts'
import { errorOf } from './failure.ts'

/** Between two looks for letters of which no notice came, in ms. */
const LOOK_MS = 1_000
/** Between two looks for letters whose lease is no more, in ms. */
const PRUNE_MS = 60_000
const AT_ONCE = 100

const topic = 'letters'

/**
 * Letters in a table of PostgreSQL: whoever listens is told by a notice that there are some, takes them out, and looks now and then
 * itself. Those of one process are posted one after the other: their numbers are in their order.
 */
export function createLetters(
  pool: pg.Pool,
  notices: Notices,
  log: Log,
): Letters & { close(): Promise<void> } {
  const listening = new Map<number, Listening>()
  let posting: Promise<unknown> = Promise.resolve()
  let waiting: { readonly letter: Letter; resolve(): void; reject(error: unknown): void }[] = []
  let prunedAtMs = performance.now()
  let end: (() => void) | undefined

  /** With the first who listens: a process that only looks has no connection for it. */
  function begin(): () => void {
    const timer = setInterval(lookForAll, LOOK_MS).unref()
    const unsubscribe = notices.subscribe(topic, (detail) => {
      if (detail === null) return lookForAll()
      for (const to of detail.split(',')) look(listening.get(Number(to)))
    })
    return () => {
      clearInterval(timer)
      unsubscribe()
    }
  }

  function lookForAll(): void {
    for (const one of listening.values()) look(one)
  }

  /** One look at a time; a notice that comes meanwhile makes another one. */
  function look(one: Listening | undefined): void {
    if (one === undefined) return
    one.isToldAgain = true
    one.looking ??= hearAll(one).finally(() => {
      one.looking = undefined
      if (one.isToldAgain && !one.isOver) look(one)
    })
  }

  async function hearAll(one: Listening): Promise<void> {
    try {
      while (one.isToldAgain && !one.isOver) {
        one.isToldAgain = false
        // Those that were heard go with the next look: an answer that is lost on its way loses no letter.
        const { rows } = await pool.query<{ id: number; sender: number; body: Buffer }>(
          `WITH gone AS (DELETE FROM letters WHERE id = ANY ($2::bigint[]))
          SELECT letters.id, sender, body FROM letters, (SELECT set_config('synchronous_commit', 'off', true)) AS unflushed
            WHERE recipient = $1 AND NOT id = ANY ($2::bigint[]) ORDER BY id LIMIT ${AT_ONCE}`,
          [one.to, one.heard],
        )
        one.heard = rows.map(({ id }) => id)
        one.isToldAgain ||= rows.length > 0
        for (const { sender, body } of rows) {
          if (one.isOver) return
          try {
            one.hear({ to: one.to, from: sender, body })
          } catch (err) {
            log.error({ err }, 'a letter could not be taken')
          }
        }
        one.isFailing = false
      }
    } catch (err) {
      if (!one.isFailing) log.warn({ err }, 'could not look for letters of other processes; trying again')
      one.isFailing = true
      one.isToldAgain = false
    }
  }

  async function send(): Promise<void> {
    const group = waiting
    waiting = []
    try {
      const letters = group.map(({ letter }) => letter)
      await pool.query(
        `INSERT INTO letters (recipient, sender, body)
          SELECT recipient, sender, body FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])
            WITH ORDINALITY AS given (recipient, sender, body, place),
            (SELECT set_config('synchronous_commit', 'off', true)) AS unflushed
          ORDER BY place`,
        [
          letters.map(({ to }) => to),
          letters.map(({ from }) => from),
          letters.map(({ body }) => Buffer.from(body)),
        ],
      )
      for (const one of group) one.resolve()
      // By itself and after the commit: transactions that notify commit one after the other.
      await notices.tell(pool, topic, [...new Set(letters.map(({ to }) => to))].join(',')).catch(() => {})
    } catch (error) {
      for (const one of group) one.reject(errorOf(error))
    }
    if (performance.now() - prunedAtMs < PRUNE_MS) return
    prunedAtMs = performance.now()
    await pool.query('DELETE FROM letters WHERE recipient NOT IN (SELECT id FROM leases)').catch(() => {})
  }

  const postOne = (letter: Letter): Promise<void> =>
    new Promise((resolve, reject) => {
      // What comes while others are on their way goes together.
      if (waiting.push({ letter, resolve, reject }) === 1) posting = posting.then(send)
    })

  return {
    async post(letters) {
      await Promise.all(letters.map(postOne))
    },
    listen(to, hear) {
      const one: Listening = {
        to,
        hear,
        isToldAgain: false,
        isOver: false,
        isFailing: false,
        heard: [],
        looking: undefined,
      }
      listening.set(to, one)
      end ??= begin()
      look(one)
      return () => {
        one.isOver = true
        if (listening.get(to) === one) listening.delete(to)
      }
    },
    async close() {
      end?.()
      for (const one of listening.values()) one.isOver = true
      listening.clear()
      await posting
    },
  }
}

interface Listening {
  readonly to: number
  readonly hear: (letter: Letter) => void
  isToldAgain: boolean
  isOver: boolean
  isFailing: boolean
  /** Ids of those that are still in the table, perhaps. */
  heard: readonly number[]
  looking: Promise<void> | undefined
}

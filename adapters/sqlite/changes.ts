import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Log } from '../../core/ports/log.ts'
import type { Change, Changes } from '../../core/ports/store/changes.ts'
import { createChanges } from '../memory/changes.ts'
import type { Database } from './database.ts'
import { reading } from './failure.ts'

export interface SqliteChangesOptions {
  readonly log: Log
  /** How often the file is asked what other processes changed. Default 500 ms. */
  readonly pollMs?: number | undefined
}

/** Changes that are told in one turn of the event loop: calls are answered between two turns, however many others made. */
const TOLD_IN_A_TURN = 200

/**
 * Changes of this process at once, and those of every other process that uses the same file within `pollMs`.
 *
 * Triggers write the changes in the transaction of the change itself, so none is lost when a process dies after its
 * commit. A listener hears this process's own changes twice: when they are published, and when they are read.
 */
export function createSqliteChanges(
  { reader }: Pick<Database, 'reader'>,
  options: SqliteChangesOptions,
): Changes {
  const { log, pollMs = 500 } = options
  const local = createChanges()
  const newer = reader.prepare(
    `SELECT id, kind, username, slug FROM changes WHERE id > ? ORDER BY id LIMIT ${TOLD_IN_A_TURN}`,
  )
  // Each by itself is a step into the index; both in one SELECT are a look at every row.
  const edges = reader.prepare(`SELECT coalesce((SELECT min(id) FROM changes), 0) AS oldest,
    coalesce((SELECT max(id) FROM changes), 0) AS newest`)
  const usernames = reader.prepare(`
    SELECT username FROM stores WHERE username > ?1
    UNION SELECT username FROM username_redirects WHERE username > ?1 ORDER BY username LIMIT ${TOLD_IN_A_TURN}`)
  const edge = (name: 'oldest' | 'newest') => Number(reading(() => edges.get())![name])

  let last = edge('newest')
  let isFailing = false
  let isPolling = false
  let isClosed = false

  /** What this process has not heard of, as much at once as is told in a turn; each with the row that it stands in. */
  function* missed(): Generator<readonly { readonly change: Change; readonly id?: number }[]> {
    if (edge('oldest') > last + 1) {
      // Older changes were pruned before they were read (a machine that slept): whatever is cached may be stale.
      for (let after: string | undefined = ''; after !== undefined; ) {
        const found: string[] = reading(() => usernames.all(after!)).map((row) => String(row['username']))
        yield found.map((username) => ({ change: { kind: 'store', username } }))
        after = found.at(-1)
      }
    }
    for (let isMore = true; isMore; ) {
      const rows = reading(() => newer.all(last))
      yield rows.map((row) => {
        const [id, username] = [Number(row['id']), String(row['username'])]
        if (row['kind'] !== 'link') return { id, change: { kind: 'store', username } }
        return { id, change: { kind: 'link', username, slug: String(row['slug']) } }
      })
      isMore = rows.length === TOLD_IN_A_TURN
    }
  }

  async function poll(): Promise<void> {
    if (isPolling) return
    isPolling = true
    try {
      for (const told of missed()) {
        for (const { change, id = last } of told) {
          // Before it is told: a listener that fails does not hear it again and again.
          last = id
          local.publish(change)
        }
        if (told.length === TOLD_IN_A_TURN) await nextTurn()
        if (isClosed) return
      }
      isFailing = false
    } catch (error) {
      if (!isFailing)
        log.warn({ err: error }, 'Taking in the changes of other processes failed; trying again.')
      isFailing = true
    } finally {
      isPolling = false
    }
  }

  const timer = setInterval(() => void poll(), pollMs).unref()
  return {
    publish: local.publish,
    subscribe: local.subscribe,
    async close() {
      isClosed = true
      clearInterval(timer)
      await local.close()
    },
  }
}

import { setImmediate as nextTurn } from 'node:timers/promises'
import { startJob } from '../../../core/jobs/job.ts'
import type { Log } from '../../../core/ports/log.ts'
import type { Change, Changes } from '../../../core/ports/store/changes.ts'
import { createChanges } from '../../memory/changes.ts'
import type { Writer } from './commit/writer.ts'
import type { Database } from './connect.ts'
import { reading } from './failure.ts'

export interface SqliteChangesOptions {
  readonly log: Log
  /** How often this process polls the file for changes of other processes, in ms. Default 500. */
  readonly pollMs?: number | undefined
}

/**
 * Maximum number of changes that listeners get in one turn of the event loop. The process serves calls between two turns, even
 * after many changes of other processes.
 */
const PUBLISHED_PER_PAGE = 200

export interface SqliteChanges extends Changes {
  /** Returns a writer whose writes resolve only after the listeners got the changes that the write made. */
  after(writer: Writer): Writer
}

/**
 * Publishes this process's own changes at once, and those of other processes that use the same file within `pollMs`. The changing
 * transaction writes each change as a row, so no change is lost if a process dies after its commit. A listener gets a published
 * change twice.
 */
export function createSqliteChanges(
  { reader }: Pick<Database, 'reader'>,
  options: SqliteChangesOptions,
): SqliteChanges {
  const { log, pollMs = 500 } = options
  const local = createChanges()
  const newer = reader.prepare(
    `SELECT id, kind, username, slug FROM changes WHERE id > ? ORDER BY id LIMIT ${PUBLISHED_PER_PAGE}`,
  )
  // Each SELECT is one index step. A single SELECT for both values would read every row.
  const edges = reader.prepare(`SELECT coalesce((SELECT min(id) FROM changes), 0) AS oldest,
    coalesce((SELECT max(id) FROM changes), 0) AS newest`)
  const usernames = reader.prepare(`
    SELECT username FROM stores WHERE username > ?1
    UNION SELECT username FROM username_redirects WHERE username > ?1 ORDER BY username LIMIT ${PUBLISHED_PER_PAGE}`)
  const edge = (name: 'oldest' | 'newest') => Number(reading(() => edges.get())![name])

  let last = edge('newest')

  /** The changes that listeners have not got yet, in portions for one turn each. Each change has the id of its row. */
  function* missed(): Generator<readonly { readonly change: Change; readonly id?: number }[]> {
    if (edge('oldest') > last + 1) {
      // Older changes were deleted before this process read them, for example because the machine slept. So everything in the
      // caches may be stale.
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
      isMore = rows.length === PUBLISHED_PER_PAGE
    }
  }

  function publish(change: Change): void {
    try {
      local.publish(change)
    } catch (error) {
      log.warn({ err: error }, 'A listener of changes failed.')
    }
  }

  const job = startJob({
    name: 'read changes of other processes',
    everyMs: pollMs,
    log,
    async run(signal) {
      for (const changes of missed()) {
        for (const { change, id = last } of changes) {
          last = id
          publish(change)
        }
        if (changes.length === PUBLISHED_PER_PAGE) await nextTurn()
        if (signal.aborted) return
      }
    },
  })
  return {
    publish: local.publish,
    subscribe: local.subscribe,
    after: (writer) => ({
      ...writer,
      write: (...args) => writer.write(...args).finally(() => job.runNow()),
    }),
    async close() {
      await job.stop()
      await local.close()
    },
  }
}

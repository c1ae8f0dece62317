import type { Change, Changes } from '../../core/ports/changes.ts'
import type { Log } from '../../core/ports/log.ts'
import { createChanges } from '../memory/changes.ts'
import type { Database } from './database.ts'
import { reading } from './failure.ts'

export interface SqliteChangesOptions {
  readonly log: Log
  /** How often the file is asked what other processes changed. Default 500 ms. */
  readonly pollMs?: number | undefined
}

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
  const newer = reader.prepare('SELECT id, kind, username, slug FROM changes WHERE id > ? ORDER BY id')
  const edges = reader.prepare(
    'SELECT coalesce(min(id), 0) AS oldest, coalesce(max(id), 0) AS newest FROM changes',
  )
  const usernames = reader.prepare(`
    SELECT username FROM stores UNION SELECT username FROM username_redirects`)
  const edge = (name: 'oldest' | 'newest') => Number(reading(() => edges.get())![name])

  let last = edge('newest')
  let isFailing = false

  function* missed(): Generator<Change> {
    if (edge('oldest') > last + 1) {
      // Older changes were pruned before they were read (a machine that slept): whatever is cached may be stale.
      for (const row of usernames.all()) yield { kind: 'store', username: String(row['username']) }
    }
    for (const row of newer.all(last)) {
      last = Number(row['id'])
      const username = String(row['username'])
      yield row['kind'] === 'link'
        ? { kind: 'link', username, slug: String(row['slug']) }
        : { kind: 'store', username }
    }
  }

  function poll(): void {
    try {
      for (const change of missed()) local.publish(change)
      isFailing = false
    } catch (error) {
      if (!isFailing)
        log.warn({ err: error }, 'Taking in the changes of other processes failed; trying again.')
      isFailing = true
    }
  }

  const timer = setInterval(poll, pollMs).unref()
  return {
    publish: local.publish,
    subscribe: local.subscribe,
    async close() {
      clearInterval(timer)
      await local.close()
    },
  }
}

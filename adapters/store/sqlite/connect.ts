import { DatabaseSync } from 'node:sqlite'
import type { Kysely } from 'kysely'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Schema } from '../sql/schema.ts'
import type { Writer } from './commit/writer.ts'

/** How long a connection waits for another process's write lock before it fails with `store_unavailable`, in ms. */
export const BUSY_TIMEOUT_MS = 5_000

/** Opens a connection that may write. Only the writer thread keeps such a connection. The start uses one for migrations. */
export function connectWriter(path: string, isDurable: boolean): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS, enableForeignKeyConstraints: true })
  database.exec(`PRAGMA synchronous = ${isDurable ? 'FULL' : 'OFF'}`)
  // Number of pages in the log before it is copied back. Claims touch random pages of the key's index. In a longer log, more claims
  // touch the same pages, so fewer pages are copied.
  database.exec('PRAGMA wal_autocheckpoint = 4000')
  // A log that has grown during a backup is cut to this size.
  database.exec('PRAGMA journal_size_limit = 67108864')
  // The size is enough for the inner pages of the indexes of millions of sales. A larger cache is slower. After the split of a
  // page, SQLite scans all its cached pages at the next commit (bench/durableSteps.ts).
  database.exec('PRAGMA cache_size = -8000')
  return database
}

/** Opens a connection that cannot write, for the main thread. It sees every commit that returned before the read began. */
export function connectReader(path: string): DatabaseSync {
  return new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS })
}

/**
 * Copies the log back without blocking writers. Pages that a reader still needs stay in the log. The next commit copies the rest,
 * so an incomplete copy is no failure.
 */
export function copyLogBack(path: string): void {
  try {
    const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS })
    try {
      database.exec('PRAGMA wal_checkpoint(PASSIVE)')
    } finally {
      database.close()
    }
  } catch {
    // The disk is full or not writable. The next sale reports that as well.
  }
}

/** The connections and settings that the modules of this folder share. */
export interface Database {
  /** Read-only connection of the main thread, for lookups of microseconds and hand-written statements. */
  readonly reader: DatabaseSync
  /** The typed query layer over `reader`. It also compiles writes, which the writer runs. */
  readonly query: Kysely<Schema>
  readonly writer: Writer
  readonly clock: Clock
}

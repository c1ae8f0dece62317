import { DatabaseSync } from 'node:sqlite'

/** How long a connection waits for another process's write lock before it answers `store_unavailable`. */
export const BUSY_TIMEOUT_MS = 5_000

/** A connection that may write. Only the writer thread keeps one, and the start-up for migrations. */
export function connectWriter(path: string, isDurable: boolean): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS, enableForeignKeyConstraints: true })
  database.exec(`PRAGMA synchronous = ${isDurable ? 'FULL' : 'OFF'}`)
  // A longer log before it is copied back: claims touch random pages of the key's index, and more of them coincide.
  database.exec('PRAGMA wal_autocheckpoint = 4000')
  // One that has grown beside a backup gives its room back.
  database.exec('PRAGMA journal_size_limit = 67108864')
  // Enough for the inner pages of the indexes of millions of sales. More is dearer: after a split of a page, SQLite looks
  // through all pages that it holds at the next commit (bench/durableSteps.ts).
  database.exec('PRAGMA cache_size = -8000')
  return database
}

/** A connection that can not write, for the main thread. Sees every commit that returned before the read began. */
export function connectReader(path: string): DatabaseSync {
  return new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS })
}

/**
 * Copies the log back beside whoever writes, who waits for none of it, as far as nobody reads an older state. What it can't do is
 * left to the next who commits: that is no fault.
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
    // A full disk, or one that can't be written to: whoever sells hears of it, too.
  }
}

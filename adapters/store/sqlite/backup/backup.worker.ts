import { closeSync, fdatasyncSync, openSync, statSync } from 'node:fs'
import { backup } from 'node:sqlite'
import { workerData } from 'node:worker_threads'
import { connectReader, copyLogBack } from '../connect.ts'

/**
 * Pages that are copied between two flushes (half a megabyte). A sale that flushes the log may first have to write the copy's
 * unwritten pages. If the copy were flushed only at its end, every sale would be delayed.
 */
const PAGES_AT_ONCE = 128
/** Longest pause after a step, in ms. A pause is as long as the step, so that sales can use the disk. */
const LONGEST_PAUSE_MS = 20
/**
 * If the log has more than this many bytes, the copy stops pausing. The log grows, because it cannot be copied back while the copy
 * reads the database.
 */
const LONG_LOG_BYTES = 64 * 1_048_576

/** The thread waits on this value, which never changes, to block itself for a time. */
const never = new Int32Array(new SharedArrayBuffer(4))

const { path, toFile } = workerData as { path: string; toFile: string }
const database = connectReader(path)
const copy = openSync(toFile, 'r+')
try {
  // The copy runs in one read transaction. Otherwise each write by another process would restart it from its beginning.
  database.exec('BEGIN')
  database.prepare('SELECT 1 FROM sqlite_schema').get()
  let sinceMs = performance.now()
  await backup(database, toFile, {
    rate: PAGES_AT_ONCE,
    progress() {
      fdatasyncSync(copy)
      const isLong = (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > LONG_LOG_BYTES
      if (!isLong) Atomics.wait(never, 0, 0, Math.min(performance.now() - sinceMs, LONGEST_PAUSE_MS))
      sinceMs = performance.now()
    },
  })
} finally {
  closeSync(copy)
  database.close()
  // The log could not be copied back during the backup. Without this call, the next sale would have to copy all of it.
  copyLogBack(path)
}

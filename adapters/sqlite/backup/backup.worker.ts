import { closeSync, fdatasyncSync, openSync, statSync } from 'node:fs'
import { backup } from 'node:sqlite'
import { workerData } from 'node:worker_threads'
import { connectReader, copyLogBack } from '../connect.ts'

/**
 * Pages that are copied between two flushes. Half a megabyte: what lies unwritten when a sale flushes the log may have to be written
 * before it, so that a large copy that is flushed at its end keeps every sale waiting.
 */
const PAGES_AT_ONCE = 128
/** The disk is the sales' own for as long as each step took, but for no longer than this. */
const LONGEST_PAUSE_MS = 20
/** The log can't be copied back while a copy is read beside it. When it has grown to this, the copy makes haste. */
const LONG_LOG_BYTES = 64 * 1_048_576

/** Nobody wakes it: a wait of this thread, which has nothing else to do. */
const never = new Int32Array(new SharedArrayBuffer(4))

const { path, toFile } = workerData as { path: string; toFile: string }
const database = connectReader(path)
const copy = openSync(toFile, 'r+')
try {
  // One read transaction around all of it: without, whatever others write begins the copy anew.
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
  // What was written meanwhile could not be copied back, and the next sale would have to do it all.
  copyLogBack(path)
}

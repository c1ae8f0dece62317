import { closeSync, fdatasyncSync, openSync } from 'node:fs'
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { connectWriter } from '../connect.ts'
import { createGroupCommit, isFlushed } from './groupCommit.ts'
import type { ToWriter, WriteRequest, WriterOptions } from './messages.ts'

/** What was committed without a flush is on disk after this, under load and without: less than the second that is promised. */
const FLUSH_VISIBLE_MS = 800

/** No group is larger, so that nobody waits for a whole backlog. */
const LARGEST_GROUP = 512

const port = parentPort!
const { path, isDurable, flushMs, maxRows } = workerData as WriterOptions
const database = connectWriter(path, isDurable)
const commitGroup = createGroupCommit(database, isDurable)

const queue: WriteRequest[] = []
let timer: NodeJS.Timeout | undefined
let isClosing = false
let flushTimer: NodeJS.Timeout | undefined
let log: number | undefined
/** Rows of the group before: as many are likely to come again, and waiting for more than that is waiting for nobody. */
let expected = 1

port.on('message', (message: ToWriter) => {
  take(message)
  schedule()
})
port.postMessage('ready')

function take(message: ToWriter): void {
  if ('close' in message) isClosing = true
  else for (const write of message.writes) queue.push(write)
}

function schedule(): void {
  const isDue = isClosing || queue.length >= Math.min(expected, maxRows)
  if (isDue) return flush()
  timer ??= setTimeout(flush, flushMs)
}

function flush(): void {
  clearTimeout(timer)
  timer = undefined
  do {
    drain()
    const group = queue.splice(0, maxRows === 1 ? 1 : LARGEST_GROUP)
    if (group.length === 0) break
    port.postMessage(commitGroup(group))
    if (isDurable && !isFlushed(group)) flushTimer ??= setTimeout(flushLog, FLUSH_VISIBLE_MS)
    expected = group.length
  } while (queue.length > 0)
  if (isClosing) close()
}

/** Takes what arrived while the last group was on its way to the disk. */
function drain(): void {
  for (let got = receiveMessageOnPort(port); got !== undefined; got = receiveMessageOnPort(port)) {
    take(got.message as ToWriter)
  }
}

/**
 * Flushes what groups committed without. The log is one file for all processes: whoever flushes it, flushes everybody's
 * commits. While this connection is open, the file keeps its name. A flush that fails says so to the next write as well.
 */
function flushLog(): void {
  flushTimer = undefined
  try {
    log ??= openSync(`${path}-wal`, 'r+')
    fdatasyncSync(log)
  } catch {
    flushTimer = setTimeout(flushLog, FLUSH_VISIBLE_MS)
  }
}

function close(): void {
  clearTimeout(flushTimer)
  // The last one to close copies the log back; the others leave it as it is.
  if (isDurable) flushLog()
  clearTimeout(flushTimer)
  database.close()
  if (log !== undefined) closeSync(log)
  port.postMessage('closed')
  port.close()
}

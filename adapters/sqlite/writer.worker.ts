import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { connectWriter } from './connect.ts'
import { createGroupCommit } from './groupCommit.ts'
import type { ToWriter, WriteRequest, WriterOptions } from './messages.ts'

/** No group is larger, so that nobody waits for a whole backlog. */
const largestGroup = 512

const port = parentPort!
const { path, synchronous, flushMs, maxRows } = workerData as WriterOptions
const database = connectWriter(path, synchronous)
const commitGroup = createGroupCommit(database)

const queue: WriteRequest[] = []
let timer: NodeJS.Timeout | undefined
let isClosing = false
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
    const group = queue.splice(0, maxRows === 1 ? 1 : largestGroup)
    if (group.length === 0) break
    port.postMessage(commitGroup(group))
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

function close(): void {
  database.close()
  port.postMessage('closed')
  port.close()
}

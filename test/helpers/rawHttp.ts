import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'

/** What a server said on one connection. */
export interface TalkResult {
  /** Everything it wrote, latin1. */
  readonly text: string
  /** The status lines' codes, in order; interim ones included. */
  readonly statuses: readonly number[]
  /** Whether the server ended the connection; false when `isEnough` was satisfied before. */
  readonly closed: boolean
}

/** A test that got stuck shows as `closed: false` after this long. */
const PATIENCE_MS = 8_000
/** For what is bound to happen: as long as a busy machine may need. */
const UNTIL_MS = 60_000

/**
 * Writes bytes on a connection of their own and collects what comes back, until the server closes or `isEnough` of the
 * text so far. Never closes first.
 */
export async function talk(
  port: number,
  bytes: string | Buffer,
  isEnough: (text: string) => boolean = () => false,
): Promise<TalkResult> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  let text = ''
  const result = new Promise<boolean>((resolve) => {
    const timer = setTimeout(resolve, PATIENCE_MS, false)
    const end = (closed: boolean) => {
      clearTimeout(timer)
      resolve(closed)
    }
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      if (isEnough(text)) end(false)
    })
    socket.on('close', () => end(true))
  })
  socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  const closed = await result
  socket.destroy()
  return { text, statuses: [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((m) => Number(m[1])), closed }
}

/** One whole answer has come, by its Content-Length or its last chunk, on a connection that stays open. */
export function hasWholeResponse(text: string): boolean {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return false
  if (/connection: close/i.test(text.slice(0, end))) return false
  if (text.endsWith('\r\n0\r\n\r\n')) return true
  const length = /content-length: (\d+)/i.exec(text.slice(0, end))?.[1]
  return length !== undefined && text.length >= end + 4 + Number(length)
}

/** A connection that a test drives by hand; destroyed when the test ends. */
export async function openSocket(t: Test, port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return socket
}

/** Waits until something observable holds: a count, a state in a store. Throws after a minute. */
export async function until(holds: () => boolean | Promise<boolean>, what = 'the condition'): Promise<void> {
  const deadline = performance.now() + UNTIL_MS
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`waited too long for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

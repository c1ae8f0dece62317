import { randomUUID } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'

/** Whoever asks from this machine and takes nothing of the answer for so long does not read. */
const PATIENCE_MS = 30_000

/** Aborted when the connection of a request ends before its answer: then nobody waits for it any more. */
export function abortOf(res: ServerResponse): AbortSignal {
  const gone = new AbortController()
  res.once('close', () => {
    if (!res.writableFinished) gone.abort()
  })
  return gone.signal
}

/**
 * Ends connections whose answers nobody reads: each holds one of the server's places and the answer in memory, and a program
 * that shows no credential could hold all of them. A request that waits for its owner has nothing to send, and may stay.
 *
 * @param afterMs for tests
 */
export function endStalled(server: Server, afterMs = PATIENCE_MS): void {
  server.on('request', ({ socket }, res) => {
    res.setTimeout(afterMs, () => {
      if (socket.writableLength > 0) socket.destroy()
    })
  })
}

const pattern = /^[A-Za-z0-9._-]{1,64}$/

/** The `X-Request-Id` that was sent when it is plain, else a new one: it stands in logs, and whoever sends it is not trusted. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && pattern.test(given) ? given : randomUUID()
}

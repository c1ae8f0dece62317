import type { Server } from 'node:http'

/** Whoever asks from this machine and takes nothing of the answer for so long does not read. */
const patienceMs = 30_000

/**
 * Ends connections whose answers nobody reads: each holds one of the server's places and the answer in memory, and a program
 * that shows no credential could hold all of them. A request that waits for its owner has nothing to send, and may stay.
 *
 * @param afterMs for tests
 */
export function endStalled(server: Server, afterMs = patienceMs): void {
  server.on('request', ({ socket }, res) => {
    res.setTimeout(afterMs, () => {
      if (socket.writableLength > 0) socket.destroy()
    })
  })
}

import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

/** A client that sends nothing for this long has stopped, or waits for us. */
const SILENCE_MS = 5_000
/** Longest that a closed connection is read from, however busy. */
const LONGEST_MS = 30_000
/** Most that is read and thrown away on one connection. */
const MAX_BYTES = 64 * 1_048_576

/** What of node's connection is used here beyond its types: the request whose body has not come to its end. */
interface Connection extends Socket {
  parser?: { incoming?: IncomingMessage | null } | null
}

/**
 * Makes a server close connections in stages when it answers before a request's body is there: it ends its own side and
 * reads on for a while. Closed at once, with bytes unread, the system sends a reset, and the answer is lost on its way to
 * whoever is still sending (RFC 9112, section 9.6).
 */
export function lingerOnClose(server: Server): void {
  server.on('connection', (socket: Socket) => {
    // What node calls after the last answer of a connection.
    socket.destroySoon = destroyInStages
  })
}

function destroyInStages(this: Connection): void {
  const unread = this.parser?.incoming
  if (unread === undefined || unread === null || unread.complete) {
    delete (this as Partial<Connection>).destroySoon
    this.destroySoon()
  } else closeInStages(this)
}

/**
 * Makes the function that cuts connections whose request has not come to its end: a server that stops waits for them otherwise, as long as
 * a slow sender likes. Requests that are being answered stay.
 */
export function cutterOfUnfinished(server: Server): () => void {
  const open = new Set<Connection>()
  server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  return () => {
    for (const socket of open) if (socket.parser?.incoming?.complete !== true) socket.destroy()
  }
}

/** Ends our side of a connection, and the rest when the other side has ended too or a limit is reached; what comes is thrown away. */
export function closeInStages(socket: Socket): void {
  const cut = () => void socket.destroy()
  const longest = setTimeout(cut, LONGEST_MS).unref()
  socket.once('close', () => clearTimeout(longest))
  socket.setTimeout(SILENCE_MS, cut)
  throwAway(socket)
  socket.resume()
  socket.end()
}

/** What comes on a connection is not looked at any more, and the connection cut off when that is too much. */
export function throwAway(socket: Socket): void {
  // Not through node's parser: what follows would be taken for requests, each of which it keeps until the answers ahead are written.
  socket.removeAllListeners('data')
  let bytes = 0
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > MAX_BYTES) socket.destroy()
  })
}

import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

/**
 * How long a client may send nothing before its connection is closed, in ms. Such a client has stopped, or waits for the gateway.
 */
const SILENCE_MS = 5_000
/** Maximum time for which the gateway reads a connection that it is closing, in ms, even if the client keeps sending. */
const LONGEST_MS = 30_000
/** Maximum bytes of one connection that are read and discarded. */
const MAX_BYTES = 64 * 1_048_576

/** Part of Node's connection that its types lack: the request whose body has not ended. */
interface Connection extends Socket {
  parser?: { incoming?: IncomingMessage | null } | null
}

/**
 * Makes a server close connections in stages if it responds before a request's body has arrived. The server ends its own side and
 * keeps reading for some time. If it closed with unread bytes, the operating system would send a reset, and a client that is still
 * sending would lose the response (RFC 9112, section 9.6).
 */
export function lingerOnClose(server: Server): void {
  server.on('connection', (socket: Socket) => {
    // Node calls this after the last response of a connection.
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
 * Makes a function that cuts connections whose request has not arrived completely. Otherwise a stopping server would have to wait
 * for slow senders. Connections with a request in process stay open.
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

/** Ends this side of a connection. The other side may end its own, until a limit is reached. Incoming bytes are discarded. */
export function closeInStages(socket: Socket): void {
  const cut = () => void socket.destroy()
  const longest = setTimeout(cut, LONGEST_MS).unref()
  socket.once('close', () => clearTimeout(longest))
  socket.setTimeout(SILENCE_MS, cut)
  discard(socket)
  socket.resume()
  socket.end()
}

/** Discards the input of a connection, and cuts the connection if there is too much. */
export function discard(socket: Socket): void {
  // Node's parser must not read the bytes, because it would keep each request in them until earlier responses are written.
  socket.removeAllListeners('data')
  let bytes = 0
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > MAX_BYTES) socket.destroy()
  })
}

import type { ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Reply } from '../core/plugin/reply.ts'

/** Up to here a body is copied into a string: with the head it is one write then, which is cheaper (bench/paid.ts). */
const SMALL_BYTES = 16_384

/**
 * Writes a whole reply: head and body in one piece.
 *
 * @param extra flat headers beside the reply's own; null for none
 * @returns false when nobody is there to read it any more
 */
export function send(res: ServerResponse, reply: Reply, extra: readonly string[] | null): boolean {
  if (res.headersSent || res.destroyed) return false
  const headers = extra === null ? reply.headers : [...reply.headers, ...extra]
  // Node takes the flat list as it is; its types only know the mutable array.
  res.writeHead(reply.status, headers as string[])
  endWith(res, reply.body)
  return true
}

/** Ends an answer with its body, or what is left of it. */
export function endWith(res: ServerResponse, body: Reply['body']): void {
  if (body === null) res.end()
  else if (typeof body === 'string') res.end(body, 'latin1')
  else if (!(body instanceof Uint8Array)) endInPieces(res, body)
  else if (body.length > SMALL_BYTES) res.end(body)
  else res.end(Buffer.from(body.buffer, body.byteOffset, body.length).toString('latin1'), 'latin1')
}

/** Joining large pieces would copy them (bench/wrap.ts). */
function endInPieces(res: ServerResponse, pieces: readonly Uint8Array[]): void {
  res.cork()
  for (const piece of pieces) res.write(piece)
  res.end()
  res.uncork()
}

/**
 * Answers an upgrade request that was not upgraded, and closes: the connection has no other use.
 *
 * @returns false when nobody is there to read it any more
 */
export function sendOnSocket(
  res: ServerResponse,
  socket: Duplex,
  reply: Reply,
  extra: readonly string[] | null,
): boolean {
  if (socket.destroyed) return false
  res.shouldKeepAlive = false
  res.assignSocket(socket as never)
  res.once('finish', () => socket.end(() => socket.destroy()))
  return send(res, reply, extra)
}

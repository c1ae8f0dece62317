import type { FastifyReply } from 'fastify'
import type { Reply } from '../../core/http/replies.ts'

/** @param flat names and values in turn */
export function setHeaders(reply: FastifyReply, flat: readonly string[]): void {
  for (let i = 0; i < flat.length; i += 2) reply.header(flat[i]!, flat[i + 1]!)
}

/** Sends a reply of the gateway, such as a 402, byte by byte. */
export function sendReply(reply: FastifyReply, { status, headers, body }: Reply): FastifyReply {
  setHeaders(reply, headers)
  return reply.code(status).serializer(String).send(bytesOf(body))
}

function bytesOf(body: Reply['body']): Buffer {
  if (body === null) return Buffer.alloc(0)
  if (typeof body === 'string') return Buffer.from(body, 'latin1')
  return Buffer.concat(body instanceof Uint8Array ? [body] : body)
}

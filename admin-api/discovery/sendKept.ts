import type { FastifyReply, FastifyRequest } from 'fastify'
import type { KeptAnswer } from './answerCache.ts'

/**
 * Sends an answer that everybody may keep for a minute; 304 to whoever has it (RFC 9110, section 13.1.2).
 * @param tail what is written behind the body and is no part of what makes it the same
 */
export function sendKept(
  request: FastifyRequest,
  reply: FastifyReply,
  { body, etag, policy }: KeptAnswer,
  type = 'application/json; charset=utf-8',
  tail = '',
): FastifyReply {
  reply.header('etag', etag).header('cache-control', 'public, max-age=60')
  if (policy !== undefined) reply.header('content-security-policy', policy)
  if (isKnown(request.headers['if-none-match'], etag)) return reply.code(304).send()
  return reply
    .type(type)
    .serializer(String)
    .send(body + tail)
}

/** Whether an `If-None-Match` names this answer, or any. */
export const isKnown = (header: string | undefined, etag: string): boolean =>
  header?.split(',').some((one) => ['*', etag, etag.replace('W/', '')].includes(one.trim())) === true

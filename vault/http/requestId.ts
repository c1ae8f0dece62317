import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

const pattern = /^[A-Za-z0-9._-]{1,64}$/

/** The `X-Request-Id` that was sent when it is plain, else a new one. */
export function requestIdOf(req: IncomingMessage): string {
  const given = req.headers['x-request-id']
  return typeof given === 'string' && pattern.test(given) ? given : randomUUID()
}

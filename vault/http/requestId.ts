import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

const pattern = /^[A-Za-z0-9._-]{1,64}$/

/** The `X-Request-Id` that was sent when it is plain, else a new one: it stands in logs, and whoever sends it is not trusted. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && pattern.test(given) ? given : randomUUID()
}

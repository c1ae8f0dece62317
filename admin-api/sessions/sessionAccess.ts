import type { FastifyReply, FastifyRequest } from 'fastify'
import { debtorOf } from '../../core/domain/ledger.ts'
import type { Session } from '../../core/domain/session.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { callerOf, identify, refuseEnded } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { idOrNotFound } from '../http/ids.ts'
import { minuteMs, refuse, takeForClient, writeLimit } from '../http/rateLimits.ts'
import { isSecretOf } from './createSession.ts'

/** In the reference: for whoever has the session's client secret, or the key of its store. */
export const bySecretOrKey = [{ clientSecret: [] }, { apiKey: [] }]

/** Query of the routes that a buyer asks. */
export const secretQuery = {
  type: 'object',
  properties: {
    cs: { type: 'string', maxLength: 128, description: "The session's client secret; or X-Client-Secret." },
  },
} as const

export interface SecretQuery {
  readonly cs?: string
}

export interface FoundSession {
  readonly session: Session
  /** Asked for with the store's API key, not with the client secret. */
  readonly isSeller: boolean
}

/**
 * The session of a path, for whoever has its client secret (`cs`, or the header `X-Client-Secret`) or its store's API key.
 * Nobody else learns that it exists. Requests with the secret are counted per session.
 *
 * @throws `NOT_FOUND`, `UNAUTHORIZED`, `RATE_LIMIT_EXCEEDED`
 */
export async function sessionOf(
  api: Api,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FoundSession> {
  const { id: given } = request.params as { id: string }
  const secret = secretIn(request)
  if (secret === undefined) {
    await identify(api, request, reply)
    await refuseEnded(api, request)
    const session = await api.sessions.find(idOrNotFound(given, 'NOT_FOUND'))
    if (session !== undefined && isOf(session, callerOf(request).store.id)) return { session, isSeller: true }
    throw new TollgateError('NOT_FOUND', 'Your store has no payment session with this id.')
  }
  const session = await api.sessions.find(idOrNotFound(given, 'NOT_FOUND'))
  if (session === undefined || !isSecretOf(session, secret)) {
    const { badKeyPerMinute } = api.limits
    const taken = await takeForClient(api, request, 'bad-secret', badKeyPerMinute, minuteMs)
    if (!taken.ok) refuse(api, reply, taken, badKeyPerMinute)
    throw new TollgateError('NOT_FOUND', 'There is no payment session with this id and client secret.')
  }
  const { sessionPollsPerMinute: limit } = api.limits
  const taken = await api.counters.take(`session-poll:${session.id}`, 1, limit, minuteMs)
  if (!taken.ok) refuse(api, reply, taken, limit)
  writeLimit(reply, taken, limit)
  return { session, isSeller: false }
}

/** Whether a store has the say over a session: it is its own, or an invoice of what the store owes. */
export const isOf = ({ storeId }: Pick<Session, 'storeId'>, asking: string): boolean =>
  (debtorOf(storeId) ?? storeId) === asking

function secretIn({ query, headers }: FastifyRequest): string | undefined {
  const { cs } = query as SecretQuery
  const header = headers['x-client-secret']
  return cs ?? (typeof header === 'string' ? header : undefined)
}

/** The origin whose pages may ask for a session: of the path, for whoever knows the id. */
export async function originOfSession(api: Api, url: string): Promise<string | null> {
  const id = /^\/api\/v1\/payments\/([^/?]+)/.exec(url)?.[1]
  if (id === undefined || !/^[\da-f-]{36}$/i.test(id)) return null
  const session = await api.sessions.find(id.toLowerCase()).catch(() => undefined)
  return session?.allowedOrigin ?? null
}

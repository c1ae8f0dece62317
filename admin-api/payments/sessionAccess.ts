import type { FastifyReply, FastifyRequest } from 'fastify'
import { debtorOf } from '../../core/domain/ledger.ts'
import type { Session } from '../../core/domain/session.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import {
  callerOf,
  identify,
  MINUTE_MS,
  refuse,
  refuseEnded,
  takeForClient,
  writeLimit,
} from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import { idOrNotFound } from '../http/ownership.ts'
import { isSecretOf } from './createSession.ts'

/** The credentials in the API reference, which are the session's client secret or the API key of its store. */
export const bySecretOrKey = [{ clientSecret: [] }, { apiKey: [] }]

/** The query of the routes for buyers. */
export const secretQuery = {
  type: 'object',
  properties: {
    cs: {
      type: 'string',
      maxLength: 128,
      description: 'The client secret of the payment session, if the request has no header X-Client-Secret.',
    },
  },
} as const

export type SecretQuery = Infer<typeof secretQuery>

interface FoundSession {
  readonly session: Session
  /** Whether the request has the store's API key instead of the client secret. */
  readonly isSeller: boolean
}

/**
 * The session of a path. The caller needs its client secret (`cs`, or the header `X-Client-Secret`) or its store's API key. Other
 * callers get `NOT_FOUND`. Requests with the secret count per session.
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
    const unknown = 'Your store has no payment session with this id.'
    const session = await api.sessions.find(idOrNotFound(given, 'NOT_FOUND', unknown))
    if (session !== undefined && isOf(session, callerOf(request).store.id)) return { session, isSeller: true }
    throw new TollgateError('NOT_FOUND', unknown)
  }
  const unknown = 'No payment session has this id and client secret.'
  const session = await api.sessions.find(idOrNotFound(given, 'NOT_FOUND', unknown))
  if (session === undefined || !isSecretOf(session, secret)) {
    const { badKeyPerMinute } = api.limits
    const taken = await takeForClient(api, request, 'bad-secret', badKeyPerMinute, MINUTE_MS)
    if (!taken.ok) refuse(api, reply, taken, badKeyPerMinute)
    throw new TollgateError('NOT_FOUND', unknown)
  }
  const { sessionPollsPerMinute: limit } = api.limits
  const taken = await api.counters.take(`session-poll:${session.id}`, 1, limit, MINUTE_MS)
  if (!taken.ok) refuse(api, reply, taken, limit)
  writeLimit(reply, taken, limit)
  return { session, isSeller: false }
}

/** Whether a store controls a session, because the session is the store's own or an invoice of its fees. */
export const isOf = ({ storeId }: Pick<Session, 'storeId'>, asking: string): boolean =>
  (debtorOf(storeId) ?? storeId) === asking

function secretIn({ query, headers }: FastifyRequest): string | undefined {
  const { cs } = query as SecretQuery
  const header = headers['x-client-secret']
  return cs ?? (typeof header === 'string' ? header : undefined)
}

/** The origin whose pages may read the session in a path. The caller must send the session's id. */
export async function originOfSession(api: Api, url: string): Promise<string | null> {
  const id = /^\/api\/v1\/payments\/([^/?]+)/.exec(url)?.[1]
  if (id === undefined || !/^[\da-f-]{36}$/i.test(id)) return null
  const session = await api.sessions.find(id.toLowerCase()).catch(() => undefined)
  return session?.allowedOrigin ?? null
}

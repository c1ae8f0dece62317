import type { FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import type { ApiKey, Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { minuteMs, refuse, takeForClient, takeForKey } from '../http/rateLimits.ts'

/** Who makes a request: a key, and the store it belongs to. */
export interface Caller {
  readonly key: ApiKey
  readonly store: Store
}

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller | null
  }
}

/** The caller of a route behind {@link authenticate}. */
export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new Error(`${request.routeOptions.url} is not behind authenticate`)
  return request.caller
}

/** A hook that lets only holders of an active API key pass, counts their requests, and keeps answers out of caches. */
export function authenticate(api: Api): onRequestAsyncHookHandler {
  return async (request, reply) => {
    const keyText = bearerOf(request.headers.authorization)
    const key = keyText === undefined ? undefined : await api.keyRing.find(keyText)
    if (key === undefined) {
      const { badKeyPerMinute } = api.limits
      const taken = await takeForClient(api, request, 'bad-key', badKeyPerMinute, minuteMs)
      if (!taken.ok) refuse(api, reply, taken, badKeyPerMinute)
      throw new TollgateError('UNAUTHORIZED', wordsFor(request.headers.authorization))
    }
    await takeForKey(api, reply, key.id)
    const store = await api.stores.find(key.storeId)
    if (store === undefined) throw new TollgateError('UNAUTHORIZED', 'The store of this API key is gone.')
    request.caller = { key, store }
  }
}

const bearerOf = (header: string | undefined): string | undefined =>
  header === undefined ? undefined : /^Bearer +([\w-]{1,200})$/i.exec(header)?.[1]

function wordsFor(header: string | undefined): string {
  if (header === undefined) return 'The API key is missing. Send Authorization: Bearer <API key>.'
  return 'The API key is unknown or revoked. Send Authorization: Bearer <API key>.'
}

import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import type { BrowserSession } from '../../core/domain/browserSession.ts'
import type { ApiKey, Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { minuteMs, refuse, takeForClient, takeForKey, takeForStore } from '../http/rateLimits.ts'

/** Who makes a request: an API key or a signed-in browser, and the store it belongs to. */
export interface Caller {
  /** The key's id, or the browser session's. */
  readonly id: string
  /** Null for a browser. */
  readonly key: ApiKey | null
  /** Null for a key. */
  readonly session: BrowserSession | null
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

/**
 * A hook that lets only holders of an active API key and signed-in browsers pass, counts their requests, and keeps answers
 * out of caches. Whoever sends a key is judged by it alone.
 */
export const authenticate =
  (api: Api): onRequestAsyncHookHandler =>
  (request, reply) =>
    identify(api, request, reply)

/** The same for a route that has another way in as well. @throws `UNAUTHORIZED`, `RATE_LIMIT_EXCEEDED` */
export async function identify(api: Api, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  request.caller =
    request.headers.authorization === undefined && api.sellers.hasCookie(request)
      ? await callerByCookie(api, request, reply)
      : await callerByKey(api, request, reply)
}

/**
 * Asked once more of what changes something, when its body is there: the body may have been on its way while the key was
 * revoked, and what another process has revoked a key ring knows a few seconds late.
 *
 * @throws `UNAUTHORIZED` when key or session have ended since
 */
export async function refuseEnded(api: Api, request: FastifyRequest): Promise<void> {
  if (request.method === 'GET' || request.method === 'HEAD') return
  const { key } = callerOf(request)
  if (key === null) {
    if ((await api.sellers.find(request)) === undefined) throw signedOut()
  } else if (!(await api.keys.byHash(key.keyHash))?.isActive) {
    api.keyRing.forget(key.keyHash)
    throw new TollgateError('UNAUTHORIZED', wordsFor(api, request.headers.authorization))
  }
}

async function callerByKey(api: Api, request: FastifyRequest, reply: FastifyReply): Promise<Caller> {
  const keyText = bearerOf(request.headers.authorization)
  const key = keyText === undefined ? undefined : await api.keyRing.find(keyText)
  if (key === undefined) {
    await countBadKey(api, request, reply)
    throw new TollgateError('UNAUTHORIZED', wordsFor(api, request.headers.authorization))
  }
  await takeForKey(api, reply, key.id)
  const store = await api.stores.find(key.storeId)
  if (store === undefined) throw new TollgateError('UNAUTHORIZED', 'The store of this API key is gone.')
  return { id: key.id, key, session: null, store }
}

async function callerByCookie(api: Api, request: FastifyRequest, reply: FastifyReply): Promise<Caller> {
  const session = await api.sellers.find(request)
  const store = session?.storeId == null ? undefined : await api.stores.find(session.storeId)
  if (session === undefined || store === undefined) {
    await countBadKey(api, request, reply)
    throw signedOut()
  }
  api.sellers.refuseForged(request, session)
  await takeForStore(api, reply, store.id)
  return { id: session.id, key: null, session, store }
}

async function countBadKey(api: Api, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { badKeyPerMinute } = api.limits
  const taken = await takeForClient(api, request, 'bad-key', badKeyPerMinute, minuteMs)
  if (!taken.ok) refuse(api, reply, taken, badKeyPerMinute)
}

const signedOut = (): TollgateError =>
  new TollgateError('UNAUTHORIZED', 'You are not signed in any more. Sign in again with your wallet.')

const bearerOf = (header: string | undefined): string | undefined =>
  header === undefined ? undefined : /^Bearer +([\w-]{1,200})$/i.exec(header)?.[1]

function wordsFor({ publicUrl }: Api, header: string | undefined): string {
  if (header === undefined)
    return `The API key is missing. Send Authorization: Bearer <API key>. In a browser, sign in at ${publicUrl}/dashboard.`
  return 'The API key is unknown or revoked. Send Authorization: Bearer <API key>.'
}

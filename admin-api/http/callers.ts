import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import ipaddr from 'ipaddr.js'
import type { BrowserSession } from '../../core/domain/browserSession.ts'
import type { ApiKey, Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { isUnknownAddress } from '../../core/http/caller.ts'
import type { Taken } from '../../core/ports/counters.ts'
import type { Api } from '../deps.ts'

/** The sender of a request and its store. The sender is an API key or a browser session. */
interface Caller {
  /** The id of the key or of the browser session. */
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
 * A hook that admits active API keys and browser sessions, counts their requests and marks responses as uncacheable. If a request
 * has a key and a session, only the key is checked.
 */
export const authenticate =
  (api: Api): onRequestAsyncHookHandler =>
  (request, reply) =>
    identify(api, request, reply)

/**
 * The check of {@link authenticate}, for a route that also accepts another credential. @throws `UNAUTHORIZED`,
 * `RATE_LIMIT_EXCEEDED`
 */
export async function identify(api: Api, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  request.caller =
    request.headers.authorization === undefined && api.sellers.hasCookie(request)
      ? await callerByCookie(api, request, reply)
      : await callerByKey(api, request, reply)
}

/**
 * Checks the caller again once the body has arrived, if the request changes something. The key may have been revoked meanwhile. The
 * key ring detects a revocation by another process only after a few seconds.
 *
 * @throws `UNAUTHORIZED` if the key or the session has ended since
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
  if (store === undefined)
    throw new TollgateError('UNAUTHORIZED', 'The store of this API key no longer exists.')
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
  const taken = await takeForClient(api, request, 'bad-key', badKeyPerMinute, MINUTE_MS)
  if (!taken.ok) refuse(api, reply, taken, badKeyPerMinute)
}

const signedOut = (): TollgateError =>
  new TollgateError('UNAUTHORIZED', 'Your session has ended. Sign in again with your wallet.')

const bearerOf = (header: string | undefined): string | undefined =>
  header === undefined ? undefined : /^Bearer +([\w-]{1,200})$/i.exec(header)?.[1]

function wordsFor({ publicUrl }: Api, header: string | undefined): string {
  if (header === undefined)
    return `The API key is missing. Send Authorization: Bearer <API key>. In a browser, sign in at ${publicUrl}/dashboard.`
  return 'The API key is unknown or revoked. Send Authorization: Bearer <API key>.'
}

export const MINUTE_MS = 60_000
export const HOUR_MS = 60 * MINUTE_MS

/** Counts a request against a key's limits per minute and per hour. The response headers show the tighter limit. */
export async function takeForKey(api: Api, reply: FastifyReply, keyId: string): Promise<void> {
  const minute = await api.counters.take(`key-minute:${keyId}`, 1, api.limits.keyPerMinute, MINUTE_MS)
  // A request that the minute limit refuses does not count against the hour.
  if (!minute.ok) return refuse(api, reply, minute, api.limits.keyPerMinute)
  const hour = await api.counters.take(`key-hour:${keyId}`, 1, api.limits.keyPerHour, HOUR_MS)
  if (!hour.ok) return refuse(api, reply, hour, api.limits.keyPerHour)
  if (hour.remaining < minute.remaining) writeLimit(reply, hour, api.limits.keyPerHour)
  else writeLimit(reply, minute, api.limits.keyPerMinute)
}

/** Counts a request of a browser session against its store. All of the store's browsers share the limit. */
export async function takeForStore(api: Api, reply: FastifyReply, storeId: string): Promise<void> {
  const { dashboardPerMinute } = api.limits
  const taken = await api.counters.take(`dashboard:${storeId}`, 1, dashboardPerMinute, MINUTE_MS)
  if (!taken.ok) return refuse(api, reply, taken, dashboardPerMinute)
  writeLimit(reply, taken, dashboardPerMinute)
}

/** A hook for routes without a key. It counts requests per client address (IPv6 per /64). See {@link refusePagesElsewhere}. */
export function limitPerClient(
  api: Api,
  name: string,
  limit: number,
  windowMs: number,
): onRequestAsyncHookHandler {
  return async (request, reply) => {
    if (request.method !== 'GET' && request.method !== 'HEAD') refusePagesElsewhere(api, request)
    const taken = await takeForClient(api, request, name, limit, windowMs)
    if (!taken.ok) return refuse(api, reply, taken, limit)
    writeLimit(reply, taken, limit)
  }
}

/**
 * Refuses requests from pages of other origins. It runs before a request is counted, because a page of another origin can make its
 * visitor's browser send requests here. The page cannot read the responses, but it could use up the visitor's limits. Browsers name
 * the origin of such a page, and the page cannot forge the name (Fetch, sections 2.2.2 and 3.2). Programs send no origin, and
 * extensions send their own. Pages of this service send no referrer, so their forms send `Origin: null` and `Sec-Fetch-Site:
 * same-origin`.
 *
 * @throws `FOREIGN_ORIGIN`
 */
export function refusePagesElsewhere(
  { publicUrl }: Pick<Api, 'publicUrl'>,
  { headers }: FastifyRequest,
): void {
  const { origin, 'sec-fetch-site': site } = headers
  const isElsewhere =
    origin === undefined || (origin === 'null' && site === 'same-origin')
      ? site === 'cross-site' || site === 'same-site'
      : origin !== new URL(publicUrl).origin && /^(?:https?:|null$)/.test(origin)
  if (isElsewhere)
    throw new TollgateError(
      'FOREIGN_ORIGIN',
      'Expected a request from a program or from a page of this service, but this request came from a page of another origin.',
    )
}

export async function takeForClient(
  api: Api,
  request: FastifyRequest,
  name: string,
  limit: number,
  windowMs: number,
  points = 1,
): Promise<Taken> {
  return api.counters.take(`${name}:${clientBucket(request.ip)}`, points, limit, windowMs)
}

/** Responds with 429 and the headers of the exhausted limit. @throws `RATE_LIMIT_EXCEEDED`, always */
export function refuse(api: Api, reply: FastifyReply, taken: Taken, limit: number): never {
  writeLimit(reply, taken, limit)
  const retryAfterSeconds = Math.max(1, Math.ceil((taken.resetAtMs - api.clock.now()) / 1000))
  throw new TollgateError(
    'RATE_LIMIT_EXCEEDED',
    `Too many requests: the limit is ${limit}. Try again in ${retryAfterSeconds} s.`,
    { retryAfterSeconds },
  )
}

/** Writes the remaining requests of a limit into the response headers. */
export function writeLimit(reply: FastifyReply, taken: Taken, limit: number): void {
  reply.header('x-ratelimit-limit', limit)
  reply.header('x-ratelimit-remaining', taken.remaining)
  reply.header('x-ratelimit-reset', Math.ceil(taken.resetAtMs / 1000))
}

/**
 * The unit in which an address is counted. This is an IPv4 address itself, and the /64 of an IPv6 address. One customer gets a
 * whole /64 with its 2^64 addresses (RFC 6177).
 *
 * @example clientBucket('2001:db8::1') // '2001:db8:0:0/64'
 */
export function clientBucket(address: string): string {
  if (!ipaddr.isValid(address)) return isUnknownAddress(address) ? address : 'unknown'
  const parsed = ipaddr.process(address)
  if (parsed.kind() === 'ipv4') return parsed.toString()
  return `${(parsed as ipaddr.IPv6).parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(':')}/64`
}

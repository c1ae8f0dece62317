import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import ipaddr from 'ipaddr.js'
import { TollgateError } from '../../core/errors/error.ts'
import { isUnknownAddress } from '../../core/http/callerAddress.ts'
import type { Taken } from '../../core/ports/counters.ts'
import type { Api } from '../deps.ts'

export const minuteMs = 60_000
export const hourMs = 60 * minuteMs

/** Counts a request against a key's minute and hour, and writes the tighter of the two into the answer. */
export async function takeForKey(api: Api, reply: FastifyReply, keyId: string): Promise<void> {
  const minute = await api.counters.take(`key-minute:${keyId}`, 1, api.limits.keyPerMinute, minuteMs)
  // A request that the minute refuses does not use up the hour.
  if (!minute.ok) return refuse(api, reply, minute, api.limits.keyPerMinute)
  const hour = await api.counters.take(`key-hour:${keyId}`, 1, api.limits.keyPerHour, hourMs)
  if (!hour.ok) return refuse(api, reply, hour, api.limits.keyPerHour)
  if (hour.remaining < minute.remaining) writeLimit(reply, hour, api.limits.keyPerHour)
  else writeLimit(reply, minute, api.limits.keyPerMinute)
}

/** Counts a request of a signed-in browser against its store, however many browsers there are. */
export async function takeForStore(api: Api, reply: FastifyReply, storeId: string): Promise<void> {
  const { dashboardPerMinute } = api.limits
  const taken = await api.counters.take(`dashboard:${storeId}`, 1, dashboardPerMinute, minuteMs)
  if (!taken.ok) return refuse(api, reply, taken, dashboardPerMinute)
  writeLimit(reply, taken, dashboardPerMinute)
}

/** A hook for routes without a key: counts per client address, IPv6 per /64; see {@link refusePagesElsewhere}. */
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
 * Called before a request is counted: a page of another origin can send its reader's browser here as often as it likes, can
 * read no answer, and uses up nothing of its reader's. Browsers name such a page and let it forge nothing (Fetch, sections 2.2.2
 * and 3.2); programs name none, and extensions one of their own. A form of this service's own pages, which send no referrer, says
 * `Origin: null` and `Sec-Fetch-Site: same-origin`.
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
      'Expected a request of a program, or of a page of this service; it came from a page of another origin.',
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

/** Answers 429 with the headers of the bucket that is empty. @throws `RATE_LIMIT_EXCEEDED`, always */
export function refuse(api: Api, reply: FastifyReply, taken: Taken, limit: number): never {
  writeLimit(reply, taken, limit)
  const retryAfterSeconds = Math.max(1, Math.ceil((taken.resetAtMs - api.clock.now()) / 1000))
  throw new TollgateError(
    'RATE_LIMIT_EXCEEDED',
    `Too many requests: ${limit} are allowed. Try again in ${retryAfterSeconds} s.`,
    { retryAfterSeconds },
  )
}

/** Writes what is left of a bucket into the answer. */
export function writeLimit(reply: FastifyReply, taken: Taken, limit: number): void {
  reply.header('x-ratelimit-limit', limit)
  reply.header('x-ratelimit-remaining', taken.remaining)
  reply.header('x-ratelimit-reset', Math.ceil(taken.resetAtMs / 1000))
}

/**
 * Whom an address stands for when requests are counted: an IPv4 address itself, of an IPv6 address the /64 that one
 * customer is given (RFC 6177), because its owner has 2^64 of them.
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

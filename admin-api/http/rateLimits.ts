import type { FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import type { Taken } from '../../core/ports/counters.ts'
import { messageHashOf } from '../auth/signInText.ts'
import type { Api } from '../deps.ts'
import { clientBucket } from './clientBucket.ts'

export const minuteMs = 60_000
export const hourMs = 60 * minuteMs

/** Counts a request against a key's minute and hour, and writes the tighter of the two into the answer. */
export async function takeForKey(api: Api, reply: FastifyReply, keyId: string): Promise<void> {
  const minute = await api.counters.take(`key-minute:${keyId}`, 1, api.limits.keyPerMinute, minuteMs)
  // A request that the minute refuses does not use up the hour.
  if (!minute.ok) return refuse(api, reply, minute, api.limits.keyPerMinute)
  const hour = await api.counters.take(`key-hour:${keyId}`, 1, api.limits.keyPerHour, hourMs)
  if (!hour.ok) return refuse(api, reply, hour, api.limits.keyPerHour)
  if (hour.remaining < minute.remaining) writeHeaders(reply, hour, api.limits.keyPerHour)
  else writeHeaders(reply, minute, api.limits.keyPerMinute)
}

/** A hook for routes without a key: counts per client address, IPv6 per /64. */
export function limitPerClient(
  api: Api,
  name: string,
  limit: number,
  windowMs: number,
): onRequestAsyncHookHandler {
  return async (request, reply) => {
    const taken = await takeForClient(api, request, name, limit, windowMs)
    if (!taken.ok) return refuse(api, reply, taken, limit)
    writeHeaders(reply, taken, limit)
  }
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

/** How often one signed text may be sent for the price of one: every try of a client that tries thrice, and a few more. */
const tellingsOfOneText = 10
/** Requests a minute for each sign-up that an hour allows: those repeats, and some that are malformed. */
const requestsPerSignUp = 6

/**
 * Hooks for the sign-up: an honest seller has few a minute and a few an hour, and a client that hears no answer sends the
 * same signed text again. So each request counts against the minute, before its body is read, and each text once against
 * the hour.
 */
export function limitSignUps(api: Api, textLifeMs: number) {
  const { signupPerHour } = api.limits
  const requestsPerMinute = signupPerHour * requestsPerSignUp
  const takeHour = (request: FastifyRequest, points: number) =>
    takeForClient(api, request, 'signup', signupPerHour, hourMs, points)

  async function onRequest(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const minute = await takeForClient(api, request, 'signup-request', requestsPerMinute, minuteMs)
    if (!minute.ok) return refuse(api, reply, minute, requestsPerMinute)
    // The hour is what runs out first; an answer before the text is read shows it too.
    writeHeaders(reply, await takeHour(request, 0), signupPerHour)
  }

  async function preHandler(request: FastifyRequest<{ Body: { message: string } }>, reply: FastifyReply) {
    const name = `signup-text:${messageHashOf(request.body.message)}`
    const tell = (points: number) => takeForClient(api, request, name, tellingsOfOneText, textLifeMs, points)
    const isRepeat = (await tell(0)).remaining < tellingsOfOneText
    const hour = await takeHour(request, isRepeat && (await tell(1)).ok ? 0 : 1)
    if (!hour.ok) return refuse(api, reply, hour, signupPerHour)
    // After the hour was asked: a text that it refused is not one that was paid for.
    if (!isRepeat) await tell(1)
    writeHeaders(reply, hour, signupPerHour)
  }

  return { onRequest, preHandler }
}

/** Answers 429 with the headers of the bucket that is empty. @throws `RATE_LIMIT_EXCEEDED`, always */
export function refuse(api: Api, reply: FastifyReply, taken: Taken, limit: number): never {
  writeHeaders(reply, taken, limit)
  const retryAfterSeconds = Math.max(1, Math.ceil((taken.resetAtMs - api.clock.now()) / 1000))
  throw new TollgateError(
    'RATE_LIMIT_EXCEEDED',
    `Too many requests: ${limit} are allowed. Try again in ${retryAfterSeconds} s.`,
    { retryAfterSeconds },
  )
}

function writeHeaders(reply: FastifyReply, taken: Taken, limit: number): void {
  reply.header('x-ratelimit-limit', limit)
  reply.header('x-ratelimit-remaining', taken.remaining)
  reply.header('x-ratelimit-reset', Math.ceil(taken.resetAtMs / 1000))
}

import type { FastifyInstance } from 'fastify'
import { sessionStatuses, statusOf } from '../../core/domain/session.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { type Job, startJob } from '../../core/jobs/job.ts'
import type { Api } from '../deps.ts'
import { callerOf } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import { idParams } from '../http/ownership.ts'
import { exactly, listOf, ok, paging, respond, success } from '../http/responses.ts'
import { UndeliveredResponses } from '../http/undeliveredResponses.ts'
import { validationError } from '../http/validation.ts'
import { type CreatedSession, createSession, type SessionBody, sessionBody } from './createSession.ts'
import { bySecretOrKey, originOfSession, secretQuery, sessionOf } from './sessionAccess.ts'
import {
  createdSessionSchema,
  ownSessionSchema,
  toCreatedSession,
  toOwnView,
  toSessionView,
  viewOf,
} from './sessionView.ts'

const listQuery = {
  type: 'object',
  properties: {
    status: { enum: sessionStatuses },
    clientReferenceId: { type: 'string', minLength: 1, maxLength: 200 },
    ...paging.query.properties,
  },
} as const

/** `/api/v1/payments`: the payment sessions of the caller's store. */
export function paymentRoutes(app: FastifyInstance, api: Api): void {
  const undelivered = new UndeliveredResponses<CreatedSession>(api.clock)

  app.post<{ Body: SessionBody }>(
    '/api/v1/payments',
    {
      schema: {
        summary: 'Create a payment session',
        description:
          'Creates a payment session for any amount (amount and title) or for the price of a link (linkId). The session is open for 30 minutes. If the request has an Idempotency-Key, the same request returns the same session for 24 hours. Without an Idempotency-Key, a client that lost the response can repeat the request within a minute and gets the same session.',
        headers: {
          type: 'object',
          properties: { 'idempotency-key': { type: 'string', description: 'Up to 255 characters.' } },
        },
        body: sessionBody,
        response: respond({ 201: success(createdSessionSchema) }, [400, 401, 404, 409, 422, 429]),
      },
    },
    async (request, reply) => {
      const { store, id: callerId } = callerOf(request)
      const name = idempotencyKeyIn(request.headers['idempotency-key'])
      const make = () => createSession(api, store, request.body, name)
      if (name !== undefined) return reply.code(201).send(ok(shown(await make(), store.username)))
      const making = (await undelivered.take(request, callerId)) ?? make()
      undelivered.watch(request, reply, callerId, Promise.resolve(making))
      return reply.code(201).send(ok(shown(await making, store.username)))
    },
  )

  app.get<{ Querystring: Infer<typeof listQuery> }>(
    '/api/v1/payments',
    {
      schema: {
        summary: 'List the payment sessions',
        description: 'Newest first.',
        querystring: listQuery,
        response: respond(
          {
            200: success(
              exactly({
                payments: listOf(ownSessionSchema),
                nextCursor: paging.next,
              }),
            ),
          },
          [400, 401, 429],
        ),
      },
    },
    async (request) => {
      const { store } = callerOf(request)
      const nowMs = api.clock.now()
      const { sessions, nextCursor } = await api.sessions.list(store.id, { ...request.query, nowMs })
      const links = await api.links.findAll([...new Set(sessions.flatMap(({ linkId }) => linkId ?? []))])
      const payments = sessions.map((session) => {
        const link = session.linkId === null ? undefined : links.get(session.linkId)
        return toOwnView(toSessionView(session, store, link, nowMs), session)
      })
      return ok({ payments, nextCursor })
    },
  )

  const shown = (created: CreatedSession, username: string) =>
    toCreatedSession(created, api.publicUrl, username, api.clock.now())
}

/** Routes for the buyer of a session, with its client secret, or for its seller with the API key. */
export function paymentOfBuyerRoutes(app: FastifyInstance, api: Api): void {
  const config = { originOf: (url: string) => originOfSession(api, url) }

  app.get(
    '/api/v1/payments/:id',
    {
      config,
      schema: {
        summary: 'Read a payment session',
        security: bySecretOrKey,
        description:
          'Needs the client secret (cs or X-Client-Secret) or the API key of the store. With the client secret, a session can be read 60 times a minute.',
        params: idParams,
        querystring: secretQuery,
        response: respond({ 200: success(ownSessionSchema) }, [401, 404, 429]),
      },
    },
    async (request, reply) => {
      const { session, isSeller } = await sessionOf(api, request, reply)
      const view = await viewOf(api, session)
      return ok(isSeller ? toOwnView(view, session) : view)
    },
  )

  app.post(
    '/api/v1/payments/:id/cancel',
    {
      config,
      schema: {
        summary: 'Cancel a payment session',
        security: bySecretOrKey,
        description:
          'The buyer and the seller can cancel a payment session, unless it has ended or a payment for it is being settled. If you send the request again, the response is the same.',
        params: idParams,
        querystring: secretQuery,
        response: respond({ 200: success(ownSessionSchema) }, [401, 404, 409, 429]),
      },
    },
    async (request, reply) => {
      const { session, isSeller } = await sessionOf(api, request, reply)
      const nowMs = api.clock.now()
      const after = (await api.sessions.cancel(session.id, nowMs)) ?? session
      const status = statusOf(after, nowMs)
      if (status === 'open')
        throw new TollgateError(
          'SESSION_NOT_OPEN',
          'A payment for this session is being settled, so it cannot be canceled now. Read the session again in a few seconds.',
          { retryAfterSeconds: 5 },
        )
      if (status !== 'canceled')
        throw new TollgateError(
          'SESSION_NOT_OPEN',
          `Expected an open session, but this session is ${status}.`,
        )
      const view = await viewOf(api, after)
      return ok(isSeller ? toOwnView(view, after) : view)
    },
  )
}

function idempotencyKeyIn(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined
  if (typeof header === 'string' && /^[\x21-\x7e]{1,255}$/.test(header)) return header
  const message = 'Expected 1 to 255 visible ASCII characters.'
  throw validationError([{ path: 'Idempotency-Key', code: 'format', message }])
}

const EVERY_MS = 1_000
/** Pause between two batches in ms, if there are more sessions to delete. */
const MORE_MS = 200
/**
 * Maximum number of sessions of one batch, because each blocks the database writer for about 0.05 ms and no payment must wait long.
 */
const AT_ONCE = 100

/**
 * Marks payment sessions as expired, so that their listeners are notified. Also deletes sessions that ended unpaid long ago. The
 * state of a session does not depend on this job.
 */
export const expireSessions = ({ sessions, clock, log }: Pick<Api, 'sessions' | 'clock' | 'log'>): Job =>
  startJob({
    name: 'expire payment sessions',
    everyMs: EVERY_MS,
    startsNow: true,
    log,
    async run() {
      if ((await sessions.expire(clock.now(), AT_ONCE)) === AT_ONCE) return { inMs: 0 }
      if ((await sessions.forget(clock.now(), AT_ONCE)) === AT_ONCE) return { inMs: MORE_MS }
    },
  })

import type { FastifyInstance } from 'fastify'
import type { SessionStatus } from '../../core/domain/session.ts'
import { sessionStatuses, statusOf } from '../../core/domain/session.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { idParams } from '../http/ids.ts'
import { UnheardAnswers } from '../keys/unheardAnswers.ts'
import { answers, exactly, listOf, success } from '../schema/answers.ts'
import { nextCursorField, type PageQuery, pageFields } from '../schema/page.ts'
import { validationError } from '../schema/validationError.ts'
import { type CreatedSession, createSession } from './createSession.ts'
import { bySecretOrKey, originOfSession, secretQuery, sessionOf } from './sessionAccess.ts'
import { type SessionBody, sessionBody } from './sessionBody.ts'
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
    ...pageFields,
  },
} as const

interface ListQuery extends PageQuery {
  readonly status?: SessionStatus
  readonly clientReferenceId?: string
}

/** `/api/v1/payments`: what the caller's store asks to be paid. */
export function paymentRoutes(app: FastifyInstance, api: Api): void {
  const unheard = new UnheardAnswers<CreatedSession>(api.clock)

  app.post<{ Body: SessionBody }>(
    '/api/v1/payments',
    {
      schema: {
        summary: 'Create a payment session',
        description:
          'Of any amount (amount and title), or for a link (linkId, whose price then counts). Open for 30 minutes. With an Idempotency-Key the same request answers the same session for 24 hours; without one, a request that is sent again within a minute because its answer was not heard makes no other one.',
        headers: {
          type: 'object',
          properties: { 'idempotency-key': { type: 'string', description: 'Up to 255 characters.' } },
        },
        body: sessionBody,
        response: answers({ 201: success(createdSessionSchema) }, 400, 401, 404, 409, 422, 429),
      },
    },
    async (request, reply) => {
      const { store, id: callerId } = callerOf(request)
      const name = idempotencyKeyIn(request.headers['idempotency-key'])
      const make = () => createSession(api, store, request.body, name)
      if (name !== undefined) return reply.code(201).send(ok(shown(await make(), store.username)))
      const making = (await unheard.take(request, callerId)) ?? make()
      unheard.watch(request, reply, callerId, Promise.resolve(making))
      return reply.code(201).send(ok(shown(await making, store.username)))
    },
  )

  app.get<{ Querystring: ListQuery }>(
    '/api/v1/payments',
    {
      schema: {
        summary: 'List the payment sessions',
        description: 'Newest first.',
        querystring: listQuery,
        response: answers(
          {
            200: success(
              exactly({
                payments: listOf(ownSessionSchema),
                nextCursor: nextCursorField,
              }),
            ),
          },
          400,
          401,
          429,
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

/** What the buyer of a session asks, with its client secret, or its seller with the API key. */
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
          'With the client secret (cs, or X-Client-Secret), 60 times a minute a session; or with the API key of its store.',
        params: idParams,
        querystring: secretQuery,
        response: answers({ 200: success(ownSessionSchema) }, 401, 404, 429),
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
          'By its buyer or its seller. Not while a payment for it is being settled, and not once it has ended; repeating it answers the same.',
        params: idParams,
        querystring: secretQuery,
        response: answers({ 200: success(ownSessionSchema) }, 401, 404, 409, 429),
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
          'A payment for this session is being settled; it can not be canceled now. Read it again in some seconds.',
          { retryAfterSeconds: 5 },
        )
      if (status !== 'canceled')
        throw new TollgateError('SESSION_NOT_OPEN', `Expected a session that is open; this one is ${status}.`)
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

import { hash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, onRequestAsyncHookHandler } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { isoTime, ok } from '../http/envelope.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { answers, exactly, success, text, time } from '../schema/answers.ts'
import type { Infer } from '../schema/infer.ts'

/** Who guesses has 128 bits before him at least; five tries a minute are for those who mistype. */
const TRIES_PER_MINUTE = 5

const signInBody = {
  type: 'object',
  additionalProperties: false,
  required: ['token'],
  properties: { token: { type: 'string', minLength: 1, maxLength: 1_024, description: '`operator.token`.' } },
} as const

const signedIn = exactly({
  csrfToken: text('Goes into X-CSRF-Token of every request that changes something.'),
  endsAt: time,
})

/** `/api/operator/session`: whoever runs the service signs in with the token of its configuration. */
export function operatorSessionRoutes(app: FastifyInstance, api: Api): void {
  app.post<{ Body: Infer<typeof signInBody> }>(
    '/api/operator/session',
    {
      onRequest: [whereThereIsOne(api), limitPerClient(api, 'operator', TRIES_PER_MINUTE, minuteMs)],
      schema: {
        summary: 'Sign in as the operator',
        description: `From the page /operator only, ${TRIES_PER_MINUTE} tries a minute. There is nothing here where the configuration has no operator.token.`,
        body: signInBody,
        response: answers({ 201: success(signedIn) }, 400, 401, 403, 404, 429),
      },
    },
    async (request, reply) => {
      api.operators.refuseForeign(request)
      if (!isSame(request.body.token, api.operator!.token)) {
        api.log.warn({ requestId: request.id }, 'somebody tried to sign in as the operator')
        throw new TollgateError('UNAUTHORIZED', 'This is not the token of the operator.')
      }
      const session = await api.operators.signIn(request, reply, { storeId: null, wallet: null })
      const csrfToken = api.operators.csrfTokenOf(session)
      return reply.code(201).send(ok({ csrfToken, endsAt: isoTime(session.endsAtMs) }))
    },
  )

  app.get(
    '/api/operator/session',
    {
      onRequest: operatorOnly(api),
      schema: {
        summary: 'Is the operator signed in?',
        security: [{ operator: [] }],
        response: answers({ 200: success(signedIn) }, 401, 403, 404),
      },
    },
    async (request) => {
      const session = (await api.operators.find(request))!
      return ok({ csrfToken: api.operators.csrfTokenOf(session), endsAt: isoTime(session.endsAtMs) })
    },
  )

  app.delete(
    '/api/operator/session',
    {
      onRequest: whereThereIsOne(api),
      schema: {
        summary: 'Sign out',
        response: answers({ 200: exactly({ success: { const: true } }) }, 403, 404),
      },
    },
    async (request, reply) => {
      api.operators.refuseForeign(request)
      await api.operators.signOut(request, reply)
      return { success: true }
    },
  )
}

/** A hook that lets only the signed-in operator pass. */
export function operatorOnly(api: Api): onRequestAsyncHookHandler {
  return async (request) => {
    refuseWithoutOperator(api)
    const session = await api.operators.find(request)
    if (session === undefined) throw new TollgateError('UNAUTHORIZED', 'Sign in as the operator first.')
    api.operators.refuseForged(request, session)
  }
}

function refuseWithoutOperator(api: Api): void {
  if (api.operator === undefined) throw new TollgateError('NOT_FOUND')
}

const whereThereIsOne =
  (api: Api): onRequestAsyncHookHandler =>
  async () =>
    refuseWithoutOperator(api)

/** By their hashes: of one length, and nothing of either shows in the time. */
const isSame = (given: string, expected: string): boolean =>
  timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', expected, 'buffer'))

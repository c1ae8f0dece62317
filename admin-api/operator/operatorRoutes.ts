import { hash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest, onRequestAsyncHookHandler } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import { html } from '../../web/html.ts'
import { OperatorPage } from '../../web/operator/operatorPage.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, MINUTE_MS } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import { sendPage } from '../http/pages.ts'
import { exactly, field, isoTime, ok, respond, success } from '../http/responses.ts'

/**
 * Maximum number of sign-in attempts per minute. The limit leaves room for typing errors. Guessing is hopeless, because the token
 * has at least 128 bits.
 */
const TRIES_PER_MINUTE = 5

const signInBody = {
  type: 'object',
  additionalProperties: false,
  required: ['token'],
  properties: {
    token: {
      type: 'string',
      minLength: 1,
      maxLength: 1_024,
      description: 'The value of the option `operator.token`.',
    },
  },
} as const

const signedIn = exactly({
  csrfToken: field.text('A token that every request that changes something must send as X-CSRF-Token.'),
  endsAt: field.time,
})

/** `/api/operator/session` lets the operator sign in with the token from the configuration. */
export function operatorSessionRoutes(app: FastifyInstance, api: Api): void {
  app.post<{ Body: Infer<typeof signInBody> }>(
    '/api/operator/session',
    {
      onRequest: [ifOperatorEnabled(api), limitPerClient(api, 'operator', TRIES_PER_MINUTE, MINUTE_MS)],
      schema: {
        summary: 'Sign in as the operator',
        description: `Only the page /operator can use this route, with at most ${TRIES_PER_MINUTE} attempts a minute. If the configuration has no operator.token, the response is 404.`,
        body: signInBody,
        response: respond({ 201: success(signedIn) }, [400, 401, 403, 404, 429]),
      },
    },
    async (request, reply) => {
      api.operators.refuseForeign(request)
      if (!isSame(request.body.token, api.operator!.token)) {
        api.log.warn({ requestId: request.id }, 'an operator sign-in was refused')
        throw new TollgateError(
          'UNAUTHORIZED',
          'Expected the operator token from the configuration, but this token is different.',
        )
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
        summary: 'Check whether the operator is signed in',
        security: [{ operator: [] }],
        response: respond({ 200: success(signedIn) }, [401, 403, 404]),
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
      onRequest: ifOperatorEnabled(api),
      schema: {
        summary: 'Sign out',
        response: respond({ 200: exactly({ success: { const: true } }) }, [403, 404]),
      },
    },
    async (request, reply) => {
      api.operators.refuseForeign(request)
      await api.operators.signOut(request, reply)
      return { success: true }
    },
  )
}

/** A hook that admits only the signed-in operator. */
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

const ifOperatorEnabled =
  (api: Api): onRequestAsyncHookHandler =>
  async () =>
    refuseWithoutOperator(api)

/** Compares hashes of equal length, so that the time reveals nothing about either token. */
const isSame = (given: string, expected: string): boolean =>
  timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', expected, 'buffer'))

/** `/operator` and every address below it are the shell of the operator's page. The shell contains only the service's name. */
export function operatorPageRoute(app: FastifyInstance, api: Api): void {
  const onRequest = limitPerClient(api, 'page', api.limits.storePerMinute, MINUTE_MS)
  const options = { onRequest, schema: { hide: true } }
  const show = async (_request: FastifyRequest, reply: FastifyReply) => {
    if (api.operator === undefined) {
      throw new TollgateError(
        'NOT_FOUND',
        'The operator page is disabled, because the configuration has no operator.token. Set one to enable it.',
      )
    }
    const { serviceName } = api
    return sendPage(reply, {
      name: 'operator',
      title: `Operator · ${serviceName}`,
      description: 'Is the gateway healthy, and is money stuck?',
      isUnlisted: true,
      body: html`<${OperatorPage} data=${{ serviceName }} />`,
    })
  }
  app.get('/operator', options, show)
  app.get('/operator/*', options, show)
}

const state = (word: string) => success(exactly({ status: { const: word } }))

/** The routes of the operator's tools, which are liveness, readiness and metrics. */
export function operatorRoutes(app: FastifyInstance, api: Api): void {
  const isOperator = (request: FastifyRequest): boolean =>
    api.operatorAccess === 'anyone' || request.headers['x-forwarded-for'] === undefined

  app.get(
    '/healthz',
    {
      config: { anyOrigin: true },
      schema: { summary: 'Check that the process responds', response: respond({ 200: state('ok') }) },
    },
    async () => ok({ status: 'ok' }),
  )

  app.get(
    '/readyz',
    {
      schema: {
        summary: 'Check that the service can sell',
        description:
          'The response has the reasons why the service cannot sell only if the request does not come through the gateway.',
        response: respond({ 200: state('ready') }, [503]),
      },
    },
    async (request) => {
      const reasons = await api.ready()
      if (reasons.length === 0) return ok({ status: 'ready' })
      const details = reasons.map((message) => ({ path: '', code: 'not_ready', message }))
      throw new TollgateError('NOT_READY', undefined, isOperator(request) ? { details } : {})
    },
  )

  app.get(
    '/metrics',
    {
      schema: {
        summary: 'Read the metrics in the Prometheus format',
        description:
          'The metrics are not available through the gateway. Use the admin port or the monitoring port.',
        response: { 200: { type: 'string' }, 404: { $ref: 'Error#' } },
      },
    },
    async (request, reply) => {
      const { source } = api.metrics
      if (!isOperator(request) || source === undefined) throw new TollgateError('NOT_FOUND')
      return reply.type(source.contentType).send(await source.text())
    },
  )
}

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { answers, exactly, success } from '../schema/answers.ts'

const state = (word: string) => success(exactly({ status: { const: word } }))

/** What an operator's tools ask: does it live, can it work, how does it do. */
export function operatorRoutes(app: FastifyInstance, api: Api): void {
  const isOperator = (request: FastifyRequest): boolean =>
    api.operatorAccess === 'anyone' || request.headers['x-forwarded-for'] === undefined

  app.get(
    '/healthz',
    {
      config: { anyOrigin: true },
      schema: { summary: 'Does it live?', response: answers({ 200: state('ok') }) },
    },
    async () => ok({ status: 'ok' }),
  )

  app.get(
    '/readyz',
    {
      schema: {
        summary: 'Can it work?',
        description: 'The reasons are told only to requests that do not come through the gateway.',
        response: answers({ 200: state('ready') }, 503),
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
        summary: 'Figures for Prometheus',
        description: 'Not through the gateway.',
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

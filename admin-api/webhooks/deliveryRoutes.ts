import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { newEventId, type WebhookEndpoint } from '../../core/domain/webhook.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { type IdParams, idOrNotFound, idParams } from '../http/ids.ts'
import { hourMs, minuteMs, refuse } from '../http/rateLimits.ts'
import { answers, exactly, listOf, success, text } from '../schema/answers.ts'
import { nextCursorField, type PageQuery, pageFields } from '../schema/page.ts'
import { ownWebhook } from './ownWebhook.ts'
import { deliveryFields, toDeliveryView, toTryView, trySchema } from './webhookView.ts'

/** Tests and replays of a store in a minute: each is a request to an address that somebody named. */
const SENT_PER_MINUTE = 30
/** And in a day: each is kept for 30 days, with its tries, and costs nobody a payment. */
const SENT_PER_DAY = 1_000

const pageQuery = {
  type: 'object',
  properties: {
    ...pageFields,
  },
} as const

const deliveryParams = {
  type: 'object',
  required: ['id', 'deliveryId'],
  properties: { ...idParams.properties, deliveryId: { type: 'string', format: 'uuid' } },
} as const

interface DeliveryParams extends IdParams {
  readonly deliveryId: string
}

const delivery = exactly(deliveryFields)
const single = exactly({ ...deliveryFields, body: text('As it is sent.'), attempts: listOf(trySchema) })

/** What was sent to a webhook of the caller's, and how that went; tests and replays. */
export function deliveryRoutes(app: FastifyInstance, api: Api): void {
  app.post<{ Params: IdParams }>(
    '/api/v1/webhooks/:id/test',
    {
      schema: {
        summary: 'Send a test',
        description:
          'A `test` event, signed and tried like any other, whatever the webhook hears of otherwise.',
        params: idParams,
        response: answers(
          { 202: success(exactly({ webhookId: text('`webhook-id` of the event.') })) },
          401,
          404,
          409,
          429,
        ),
      },
    },
    async (request, reply) => {
      const endpoint = await ownWebhook(api, request, request.params.id)
      await takeOne(api, request, reply)
      const webhookId = await api.webhooks.test(endpoint.id, newEventId(), api.clock.now())
      if (webhookId === undefined) throw disabled(endpoint)
      return reply.code(202).send(ok({ webhookId }))
    },
  )

  app.get<{ Params: IdParams; Querystring: PageQuery }>(
    '/api/v1/webhooks/:id/deliveries',
    {
      schema: {
        summary: 'List the deliveries',
        description: 'Newest first; kept for 30 days.',
        params: idParams,
        querystring: pageQuery,
        response: answers(
          {
            200: success(exactly({ deliveries: listOf(delivery), nextCursor: nextCursorField })),
          },
          ...[400, 401, 404, 429],
        ),
      },
    },
    async (request) => {
      const { id } = await ownWebhook(api, request, request.params.id)
      const { deliveries, nextCursor } = await api.webhooks.deliveries(id, request.query)
      return ok({ deliveries: deliveries.map(toDeliveryView), nextCursor })
    },
  )

  app.get<{ Params: DeliveryParams }>(
    '/api/v1/webhooks/:id/deliveries/:deliveryId',
    {
      schema: {
        summary: 'Read a delivery',
        description: 'With its body and its latest tries, oldest first.',
        params: deliveryParams,
        response: answers({ 200: success(single) }, 401, 404, 429),
      },
    },
    async (request) => {
      const { delivery, body, tries } = await ownDelivery(api, request)
      return ok({ ...toDeliveryView(delivery), body, attempts: tries.map(toTryView) })
    },
  )

  app.post<{ Params: DeliveryParams }>(
    '/api/v1/webhooks/:id/deliveries/:deliveryId/replay',
    {
      schema: {
        summary: 'Replay a delivery',
        description:
          'The same body under the same `webhook-id`, at once, and with a schedule of tries from its beginning.',
        params: deliveryParams,
        response: answers({ 202: success(delivery) }, 401, 404, 409, 429),
      },
    },
    async (request, reply) => {
      const { endpoint, delivery } = await ownDelivery(api, request)
      await takeOne(api, request, reply)
      if (!(await api.webhooks.replay(delivery.id, api.clock.now()))) throw disabled(endpoint)
      const found = await api.webhooks.delivery(delivery.id)
      return reply.code(202).send(ok(toDeliveryView(found?.delivery ?? delivery)))
    },
  )
}

/** @throws `RATE_LIMIT_EXCEEDED` */
async function takeOne(api: Api, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { id } = callerOf(request).store
  const minute = await api.counters.take(`webhooks-sent:${id}`, 1, SENT_PER_MINUTE, minuteMs)
  if (!minute.ok) return refuse(api, reply, minute, SENT_PER_MINUTE)
  const day = await api.counters.take(`webhooks-sent-in-a-day:${id}`, 1, SENT_PER_DAY, 24 * hourMs)
  if (!day.ok) refuse(api, reply, day, SENT_PER_DAY)
}

async function ownDelivery(api: Api, request: FastifyRequest<{ Params: DeliveryParams }>) {
  const endpoint = await ownWebhook(api, request, request.params.id)
  const found = await api.webhooks.delivery(idOrNotFound(request.params.deliveryId, 'NOT_FOUND'))
  if (found !== undefined && found.delivery.endpointId === endpoint.id) return { endpoint, ...found }
  throw new TollgateError('NOT_FOUND', 'This webhook has no delivery with this id.')
}

const disabled = ({ id }: WebhookEndpoint): TollgateError =>
  new TollgateError(
    'CONFLICT',
    `This webhook is disabled. Enable it first: PATCH /api/v1/webhooks/${id} {"isEnabled":true}.`,
  )

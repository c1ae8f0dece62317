import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import {
  newEventId,
  type WebhookDelivery,
  type WebhookEndpoint,
  type WebhookTry,
} from '../../core/domain/webhook.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { callerOf, HOUR_MS, MINUTE_MS, refuse } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import { type IdParams, idOrNotFound, idParams, ownWebhook } from '../http/ownership.ts'
import {
  exactly,
  field,
  isoTime,
  isoTimeOrNull,
  listOf,
  ok,
  paging,
  respond,
  success,
} from '../http/responses.ts'
import { kindSchema } from './webhookRoutes.ts'

const deliveryFields = {
  id: field.uuid,
  webhookId: field.text(
    'The `webhook-id` of the event. Every attempt, endpoint and replay of the event uses the same id.',
  ),
  event: kindSchema,
  status: {
    enum: ['waiting', 'held', 'delivered', 'failed'],
    description:
      'held means that the endpoint is disabled. failed means that all attempts failed, or that the endpoint responded with 410.',
  },
  tries: {
    ...field.count,
    description: 'The number of finished attempts since the delivery was created or last replayed.',
  },
  nextTryAt: field.timeOrNull,
  createdAt: field.time,
}

const trySchema = exactly({
  at: field.time,
  status: {
    ...field.countOrNull,
    description: 'The HTTP status of the response. Null if there was no response.',
  },
  latencyMs: field.count,
  error: field.textOrNull('Why the attempt failed. Null if it succeeded.'),
  response: field.text('The first kilobyte of the response body.'),
})

const toDeliveryView = (delivery: WebhookDelivery) => ({
  id: delivery.id,
  webhookId: delivery.eventId,
  event: delivery.kind,
  status: delivery.state,
  tries: delivery.tries,
  nextTryAt: isoTimeOrNull(delivery.dueAtMs),
  createdAt: isoTime(delivery.createdAtMs),
})

const toTryView = ({ atMs, status, latencyMs, error, response }: WebhookTry) => ({
  at: isoTime(atMs),
  status,
  latencyMs,
  error,
  response,
})

/** Maximum number of tests and replays per store and minute. Each sends a request to an address that a seller chose. */
const SENT_PER_MINUTE = 30
/**
 * Maximum number of tests and replays per store and day. Each is stored for 30 days with its tries, and no payment limits their
 * number.
 */
const SENT_PER_DAY = 1_000

const deliveryParams = {
  type: 'object',
  required: ['id', 'deliveryId'],
  properties: { ...idParams.properties, deliveryId: { type: 'string', format: 'uuid' } },
} as const

interface DeliveryParams extends IdParams {
  readonly deliveryId: string
}

const delivery = exactly(deliveryFields)
const single = exactly({
  ...deliveryFields,
  body: field.text('The body of the requests.'),
  attempts: listOf(trySchema),
})

/** Deliveries to a webhook of the caller with their outcomes, and the routes for tests and replays. */
export function deliveryRoutes(app: FastifyInstance, api: Api): void {
  app.post<{ Params: IdParams }>(
    '/api/v1/webhooks/:id/test',
    {
      schema: {
        summary: 'Send a test event',
        description:
          'Sends a `test` event to the webhook, even if the webhook is not subscribed to this event. The gateway signs and retries it like any other event.',
        params: idParams,
        response: respond(
          { 202: success(exactly({ webhookId: field.text('The `webhook-id` of the event.') })) },
          [401, 404, 409, 429],
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

  app.get<{ Params: IdParams; Querystring: Infer<typeof paging.query> }>(
    '/api/v1/webhooks/:id/deliveries',
    {
      schema: {
        summary: 'List the deliveries',
        description: 'Lists the deliveries of the last 30 days, newest first.',
        params: idParams,
        querystring: paging.query,
        response: respond(
          {
            200: success(exactly({ deliveries: listOf(delivery), nextCursor: paging.next })),
          },
          [400, 401, 404, 429],
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
        description: 'Returns a delivery with its body and its latest attempts, oldest first.',
        params: deliveryParams,
        response: respond({ 200: success(single) }, [401, 404, 429]),
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
          'Sends the same body with the same `webhook-id` again at once. If the attempt fails, the gateway retries it like a new delivery.',
        params: deliveryParams,
        response: respond({ 202: success(delivery) }, [401, 404, 409, 429]),
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
  const minute = await api.counters.take(`webhooks-sent:${id}`, 1, SENT_PER_MINUTE, MINUTE_MS)
  if (!minute.ok) return refuse(api, reply, minute, SENT_PER_MINUTE)
  const day = await api.counters.take(`webhooks-sent-in-a-day:${id}`, 1, SENT_PER_DAY, 24 * HOUR_MS)
  if (!day.ok) refuse(api, reply, day, SENT_PER_DAY)
}

async function ownDelivery(api: Api, request: FastifyRequest<{ Params: DeliveryParams }>) {
  const endpoint = await ownWebhook(api, request, request.params.id)
  const unknown = 'This webhook has no delivery with this id.'
  const found = await api.webhooks.delivery(idOrNotFound(request.params.deliveryId, 'NOT_FOUND', unknown))
  if (found !== undefined && found.delivery.endpointId === endpoint.id) return { endpoint, ...found }
  throw new TollgateError('NOT_FOUND', unknown)
}

const disabled = ({ id }: WebhookEndpoint): TollgateError =>
  new TollgateError(
    'CONFLICT',
    `This webhook is disabled. Enable the webhook first: PATCH /api/v1/webhooks/${id} {"isEnabled":true}.`,
  )

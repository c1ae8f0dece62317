import {
  type WebhookDelivery,
  type WebhookEndpoint,
  type WebhookTry,
  webhookKinds,
} from '../../core/domain/webhook.ts'
import { isoTime, isoTimeOrNull } from '../http/envelope.ts'
import {
  count,
  countOrNull,
  exactly,
  flag,
  listOf,
  text,
  textOrNull,
  time,
  timeOrNull,
  uuid,
} from '../schema/answers.ts'

export const kindSchema = { type: 'string', enum: webhookKinds } as const

/** An endpoint as its seller sees it. Its secret is never among it. */
export const endpointFields = {
  id: uuid,
  url: text(),
  description: text(),
  events: listOf(kindSchema),
  linkId: {
    ...textOrNull('Of the `webhookUrl` of a link, whose id it has. Null: it hears of every link.'),
    format: 'uuid',
  },
  isEnabled: flag,
  disabledAt: timeOrNull,
  disabledReason: {
    enum: ['gone', 'failing', 'seller', null],
    description:
      'gone: it answered 410. failing: nothing got through for a whole schedule of tries. seller: by PATCH. PATCH isEnabled: true goes on, with what was waiting.',
  },
  failingSince: { ...timeOrNull, description: 'The first try that failed since one got through.' },
  previousSecretUntil: { ...timeOrNull, description: 'Until then the secret before this one signs as well.' },
  createdAt: time,
  updatedAt: time,
}

export const toEndpointView = (endpoint: WebhookEndpoint, nowMs: number) => ({
  id: endpoint.id,
  url: endpoint.url,
  description: endpoint.description,
  events: endpoint.kinds,
  linkId: endpoint.linkId,
  isEnabled: endpoint.disabledAtMs === null,
  disabledAt: isoTimeOrNull(endpoint.disabledAtMs),
  disabledReason: endpoint.disabledReason,
  failingSince: isoTimeOrNull(endpoint.failingSinceMs),
  previousSecretUntil:
    endpoint.previousUntilMs !== null && endpoint.previousUntilMs > nowMs
      ? isoTime(endpoint.previousUntilMs)
      : null,
  createdAt: isoTime(endpoint.createdAtMs),
  updatedAt: isoTime(endpoint.updatedAtMs),
})

export const deliveryFields = {
  id: uuid,
  webhookId: text('`webhook-id`: the same for every try, every endpoint and every replay.'),
  event: kindSchema,
  status: {
    enum: ['waiting', 'held', 'delivered', 'failed'],
    description: 'held: the endpoint is disabled. failed: no try is left, or it answered 410.',
  },
  tries: { ...count, description: 'That are over, since it was made or last replayed.' },
  nextTryAt: timeOrNull,
  createdAt: time,
}

export const trySchema = exactly({
  at: time,
  status: { ...countOrNull, description: 'HTTP status; null when there was no answer.' },
  latencyMs: count,
  error: textOrNull('Why it does not count as delivered; null when it does.'),
  answer: text('The first kilobyte of the answer.'),
})

export const toDeliveryView = (delivery: WebhookDelivery) => ({
  id: delivery.id,
  webhookId: delivery.eventId,
  event: delivery.kind,
  status: delivery.state,
  tries: delivery.tries,
  nextTryAt: isoTimeOrNull(delivery.dueAtMs),
  createdAt: isoTime(delivery.createdAtMs),
})

export const toTryView = ({ atMs, status, latencyMs, error, answer }: WebhookTry) => ({
  ...{ at: isoTime(atMs), status, latencyMs, error, answer },
})

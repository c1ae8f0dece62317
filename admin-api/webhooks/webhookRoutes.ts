import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { type WebhookEndpoint, webhookKinds } from '../../core/domain/webhook.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { EndpointPatch } from '../../core/ports/store/webhooks.ts'
import type { Api } from '../deps.ts'
import { callerOf } from '../http/callers.ts'
import { bodyField, fromResponses, type Infer } from '../http/fields.ts'
import { type IdParams, idParams, ownWebhook } from '../http/ownership.ts'
import { exactly, field, isoTime, isoTimeOrNull, listOf, ok, respond, success } from '../http/responses.ts'
import { UndeliveredResponses } from '../http/undeliveredResponses.ts'
import { validationError } from '../http/validation.ts'
import { newSalt, secretOf } from './signWebhook.ts'

export const kindSchema = { type: 'string', enum: webhookKinds } as const

/** An endpoint as its seller sees it. It never has the secret. */
const endpointFields = {
  id: field.uuid,
  url: field.text(),
  description: field.text(),
  events: listOf(kindSchema),
  linkId: {
    ...field.textOrNull(
      'The id of the link whose `webhookUrl` this webhook is. Null if the webhook receives the events of all links.',
    ),
    format: 'uuid',
  },
  isEnabled: field.flag,
  disabledAt: field.timeOrNull,
  disabledReason: {
    enum: ['gone', 'failing', 'seller', null],
    description:
      'Why the webhook is disabled. gone means that the endpoint responded with 410. failing means that all attempts of a delivery failed and no other delivery succeeded. seller means that you disabled it. To enable it again and send the waiting events, PATCH isEnabled: true.',
  },
  failingSince: {
    ...field.timeOrNull,
    description: 'The time of the first failed attempt since the last successful attempt.',
  },
  previousSecretUntil: {
    ...field.timeOrNull,
    description: 'Until this time, deliveries are also signed with the previous secret.',
  },
  createdAt: field.time,
  updatedAt: field.time,
}

const toEndpointView = (endpoint: WebhookEndpoint, nowMs: number) => ({
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

/** Maximum number of endpoints of a store. Endpoints of links do not count. */
const MAX_ENDPOINTS = 20
/** How long the previous secret still signs after a rotation, in ms. */
const ROTATION_MS = 24 * 60 * 60 * 1000

const properties = {
  url: {
    type: 'string',
    minLength: 1,
    maxLength: 2048,
    description: 'The http or https URL to which the gateway sends events. It must be at a public address.',
  },
  description: bodyField.description,
  events: {
    type: ['array', 'null'],
    items: kindSchema,
    uniqueItems: true,
    minItems: 1,
    description: 'The events that the webhook receives. Default: all.',
  },
  ...fromResponses('id', 'linkId', 'disabledAt', 'disabledReason', 'failingSince', 'previousSecretUntil'),
  ...fromResponses('createdAt', 'updatedAt', 'secret'),
} as const

const createBody = {
  type: 'object',
  additionalProperties: false,
  required: ['url'],
  properties: {
    ...properties,
    isEnabled: { enum: [true, null], description: 'Only in responses. A new webhook is enabled.' },
  },
} as const

const updateBody = {
  type: 'object',
  additionalProperties: false,
  properties: {
    ...properties,
    isEnabled: {
      type: 'boolean',
      description:
        'With false, the gateway sends nothing to the webhook, and the webhook never gets the events of this time. With true, the gateway continues with the deliveries that were waiting.',
    },
  },
} as const

const endpoint = exactly(endpointFields)
const withSecret = exactly({
  ...endpointFields,
  secret: field.text('The secret that signs deliveries, `whsec_…`. Only this response contains the secret.'),
})

/** `/api/v1/webhooks`: the webhooks of the caller's store. */
export function webhookRoutes(app: FastifyInstance, api: Api): void {
  const undelivered = new UndeliveredResponses<WebhookEndpoint>(api.clock)
  const view = (found: WebhookEndpoint) => toEndpointView(found, api.clock.now())
  rotationRoute(app, api)

  app.get(
    '/api/v1/webhooks',
    {
      schema: {
        summary: 'List the webhooks',
        description:
          'Lists the webhooks, oldest first, including the `webhookUrl` of links. The list does not contain the webhooks of deleted links, which you can read by their id.',
        response: respond({ 200: success(exactly({ webhooks: listOf(endpoint) })) }, [401, 429]),
      },
    },
    async (request) => {
      const found = await api.webhooks.ofStore(callerOf(request).store.id)
      return ok({ webhooks: found.map(view) })
    },
  )

  app.post<{ Body: Infer<typeof createBody> }>(
    '/api/v1/webhooks',
    {
      schema: {
        summary: 'Create a webhook',
        description: `Creates a webhook. Only this response contains its secret. A store can have at most ${MAX_ENDPOINTS} webhooks. If a client disconnects before the response and repeats the request within a minute, the gateway creates no second webhook.`,
        body: createBody,
        response: respond({ 201: success(withSecret) }, [400, 401, 409, 429]),
      },
    },
    async (request, reply) => {
      const { store, id } = callerOf(request)
      const making = (await undelivered.take(request, id)) ?? create(api, store.id, request.body)
      undelivered.watch(request, reply, id, Promise.resolve(making))
      return reply.code(201).send(ok(shown(api, await making)))
    },
  )

  app.get<{ Params: IdParams }>(
    '/api/v1/webhooks/:id',
    {
      schema: {
        summary: 'Read a webhook',
        params: idParams,
        response: respond({ 200: success(endpoint) }, [401, 404, 429]),
      },
    },
    async (request) => ok(view(await ownWebhook(api, request, request.params.id))),
  )

  app.patch<{ Params: IdParams; Body: Infer<typeof updateBody> }>(
    '/api/v1/webhooks/:id',
    {
      schema: {
        summary: 'Change a webhook',
        description:
          'Changes a webhook, but not its secret. To change the url or the events of the webhook of a link, change the link.',
        params: idParams,
        body: updateBody,
        response: respond({ 200: success(endpoint) }, [400, 401, 404, 409, 429]),
      },
    },
    async (request) => {
      const found = await ownWebhook(api, request, request.params.id)
      return ok(view(await change(api, found, await readPatch(api, found, request.body))))
    },
  )

  app.delete<{ Params: IdParams }>(
    '/api/v1/webhooks/:id',
    {
      schema: {
        summary: 'Delete a webhook',
        description:
          'Deletes a webhook and its waiting deliveries. To delete the webhook of a link, PATCH the link with webhookUrl: null. To delete the webhook of a deleted link, use this route.',
        params: idParams,
        response: respond({ 200: exactly({ success: { const: true } }) }, [401, 404, 409, 429]),
      },
    },
    async (request) => {
      const found = await ownWebhook(api, request, request.params.id)
      if (found.linkId === null) await api.webhooks.remove(found.id)
      else if ((await api.links.find(found.linkId))?.isActive) throw ofLink(found)
      else await api.links.update(found.linkId, { webhookUrl: null }, api.clock.now())
      return { success: true }
    },
  )
}

/** Creates a new secret. The previous secret also signs for a while, so that receivers have time to switch. */
function rotationRoute(app: FastifyInstance, api: Api): void {
  const undelivered = new UndeliveredResponses<WebhookEndpoint>(api.clock)

  app.post<{ Params: IdParams }>(
    '/api/v1/webhooks/:id/rotate-secret',
    {
      schema: {
        summary: 'Create a new secret for a webhook',
        description:
          'Creates a new secret for the webhook. Only this response contains the new secret. For 24 hours, the gateway also signs deliveries with the previous secret. If a client disconnects before the response and repeats the request within a minute, the gateway creates no further secret.',
        params: idParams,
        response: respond({ 200: success(withSecret) }, [401, 404, 429]),
      },
    },
    async (request, reply) => {
      const { id } = callerOf(request)
      const made = await undelivered.take(request, id)
      const found = await ownWebhook(api, request, request.params.id)
      const rotation = { salt: newSalt(), previousUntilMs: api.clock.now() + ROTATION_MS }
      // A second rotation would leave the receiver without a valid secret, because only the last two secrets sign.
      const rotating = made?.salt === found.salt ? Promise.resolve(found) : change(api, found, { rotation })
      undelivered.watch(request, reply, id, rotating)
      return ok(shown(api, await rotating))
    },
  )
}

/** An endpoint with its secret. Only two responses include it. */
const shown = (api: Api, found: WebhookEndpoint) => ({
  ...toEndpointView(found, api.clock.now()),
  secret: secretOf(api.sealer, found.id, found.salt),
})

async function create(
  api: Api,
  storeId: string,
  { url, description, events }: Infer<typeof createBody>,
): Promise<WebhookEndpoint> {
  await judge(api, url)
  const id = randomUUID()
  const made = { url, description: description ?? '', kinds: events ?? webhookKinds, salt: newSalt() }
  await api.webhooks.create({ id, storeId, ...made, createdAtMs: api.clock.now() }, MAX_ENDPOINTS)
  return (await api.webhooks.find(id))!
}

/** Refuses a URL to which no webhook could be sent. Its host is resolved now. @throws `VALIDATION_ERROR` */
async function judge({ egress }: Api, url: string): Promise<void> {
  try {
    await egress.judgeUrl(url)
  } catch (error) {
    if (!isTollgateError(error)) throw error
    throw validationError([{ path: 'url', code: error.details?.[0]?.code ?? 'url', message: error.message }])
  }
}

/** @throws `VALIDATION_ERROR`, `CONFLICT` */
async function readPatch(
  api: Api,
  found: WebhookEndpoint,
  { url, description, events, isEnabled }: Infer<typeof updateBody>,
): Promise<EndpointPatch> {
  const isNewUrl = url !== undefined && url !== found.url
  const isNewFilter = events !== undefined && !isSame(events, found)
  if (found.linkId !== null && (isNewUrl || isNewFilter)) throw ofLink(found)
  if (isNewUrl) await judge(api, url)
  return {
    ...(isNewUrl && { url }),
    ...(description !== undefined && { description: description ?? '' }),
    ...(isNewFilter && { kinds: events ?? webhookKinds }),
    ...(isEnabled !== undefined && isEnabled !== (found.disabledAtMs === null) && { isEnabled }),
  }
}

const isSame = (events: readonly string[] | null | undefined, { kinds }: WebhookEndpoint): boolean =>
  JSON.stringify(events ?? webhookKinds) === JSON.stringify(kinds)

async function change(api: Api, { id }: WebhookEndpoint, patch: EndpointPatch): Promise<WebhookEndpoint> {
  const changed = await api.webhooks.change(id, patch, api.clock.now())
  if (changed === undefined) throw new TollgateError('NOT_FOUND', 'The webhook was deleted in the meantime.')
  return changed
}

const ofLink = ({ linkId }: WebhookEndpoint): TollgateError =>
  new TollgateError(
    'CONFLICT',
    `This webhook is the webhookUrl of a link. Change the URL with PATCH /api/v1/links/${linkId}.`,
  )

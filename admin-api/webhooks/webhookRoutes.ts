import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { type WebhookEndpoint, webhookKinds } from '../../core/domain/webhook.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { EndpointPatch } from '../../core/ports/store/webhooks.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { type IdParams, idParams } from '../http/ids.ts'
import { UnheardAnswers } from '../keys/unheardAnswers.ts'
import { answers, exactly, listOf, success, text } from '../schema/answers.ts'
import { descriptionField, fromAnswers } from '../schema/fields.ts'
import type { Infer } from '../schema/infer.ts'
import { validationError } from '../schema/validationError.ts'
import { ownWebhook } from './ownWebhook.ts'
import { newSalt, secretOf } from './signWebhook.ts'
import { endpointFields, kindSchema, toEndpointView } from './webhookView.ts'

/** Endpoints of a store, those of links not counted. */
const MOST_ENDPOINTS = 20
/** How long the secret before the last rotation signs as well. */
const ROTATION_MS = 24 * 60 * 60 * 1000

const properties = {
  url: { type: 'string', minLength: 1, maxLength: 2048, description: 'http or https; a public address.' },
  description: descriptionField,
  events: {
    type: ['array', 'null'],
    items: kindSchema,
    uniqueItems: true,
    minItems: 1,
    description: 'What it hears of; all when left out.',
  },
  ...fromAnswers('id', 'linkId', 'disabledAt', 'disabledReason', 'failingSince', 'previousSecretUntil'),
  ...fromAnswers('createdAt', 'updatedAt', 'secret'),
} as const

const createBody = {
  type: 'object',
  additionalProperties: false,
  required: ['url'],
  properties: {
    ...properties,
    isEnabled: { enum: [true, null], description: 'Of answers; a new one is enabled.' },
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
        'false: nothing is sent, and what happens meanwhile is not kept for it. true: goes on, with what was waiting.',
    },
  },
} as const

const endpoint = exactly(endpointFields)
const withSecret = exactly({ ...endpointFields, secret: text('`whsec_…`; shown once.') })

/** `/api/v1/webhooks`: where the caller's store wants to hear of what happens. */
export function webhookRoutes(app: FastifyInstance, api: Api): void {
  const unheard = new UnheardAnswers<WebhookEndpoint>(api.clock)
  const view = (found: WebhookEndpoint) => toEndpointView(found, api.clock.now())
  rotationRoute(app, api)

  app.get(
    '/api/v1/webhooks',
    {
      schema: {
        summary: 'List the webhooks',
        description:
          'Oldest first, the `webhookUrl` of links among them; that of a deleted link is read by its id.',
        response: answers({ 200: success(exactly({ webhooks: listOf(endpoint) })) }, 401, 429),
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
        description: `Its secret is in this answer and in no other. A store has at most ${MOST_ENDPOINTS}. Sent again within a minute by a client that was gone before the answer, it makes no other one.`,
        body: createBody,
        response: answers({ 201: success(withSecret) }, 400, 401, 409, 429),
      },
    },
    async (request, reply) => {
      const { store, id } = callerOf(request)
      const making = (await unheard.take(request, id)) ?? create(api, store.id, request.body)
      unheard.watch(request, reply, id, Promise.resolve(making))
      return reply.code(201).send(ok(shown(api, await making)))
    },
  )

  app.get<{ Params: IdParams }>(
    '/api/v1/webhooks/:id',
    {
      schema: {
        summary: 'Read a webhook',
        params: idParams,
        response: answers({ 200: success(endpoint) }, 401, 404, 429),
      },
    },
    async (request) => ok(view(await ownWebhook(api, request, request.params.id))),
  )

  app.patch<{ Params: IdParams; Body: Infer<typeof updateBody> }>(
    '/api/v1/webhooks/:id',
    {
      schema: {
        summary: 'Change a webhook',
        description: "Its secret stays. The url and the events of a link's own are changed with the link.",
        params: idParams,
        body: updateBody,
        response: answers({ 200: success(endpoint) }, 400, 401, 404, 409, 429),
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
          "Nothing more is sent to it, and what waited is dropped. A link's own goes with PATCH webhookUrl: null; that of a deleted link goes here.",
        params: idParams,
        response: answers({ 200: exactly({ success: { const: true } }) }, 401, 404, 409, 429),
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

/** A new secret beside the one before, for as long as receivers may need to take it over. */
function rotationRoute(app: FastifyInstance, api: Api): void {
  const unheard = new UnheardAnswers<WebhookEndpoint>(api.clock)

  app.post<{ Params: IdParams }>(
    '/api/v1/webhooks/:id/rotate-secret',
    {
      schema: {
        summary: 'Rotate the secret',
        description:
          'The new secret is in this answer and in no other. For 24 hours the one before signs as well. Sent again within a minute by a client that was gone before the answer, it makes no other one.',
        params: idParams,
        response: answers({ 200: success(withSecret) }, 401, 404, 429),
      },
    },
    async (request, reply) => {
      const { id } = callerOf(request)
      const made = await unheard.take(request, id)
      const found = await ownWebhook(api, request, request.params.id)
      const rotation = { salt: newSalt(), previousUntilMs: api.clock.now() + ROTATION_MS }
      // Another one would leave the receiver without the secret that it has: only the last two sign.
      const rotating = made?.salt === found.salt ? Promise.resolve(found) : change(api, found, { rotation })
      unheard.watch(request, reply, id, rotating)
      return ok(shown(api, await rotating))
    },
  )
}

/** An endpoint with its secret, for the two answers that have it. */
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
  await api.webhooks.create({ id, storeId, ...made, createdAtMs: api.clock.now() }, MOST_ENDPOINTS)
  return (await api.webhooks.find(id))!
}

/** Refuses what nothing could be sent to: its host is looked up now. @throws `VALIDATION_ERROR` */
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
  if (changed === undefined) throw new TollgateError('NOT_FOUND', 'The webhook was deleted meanwhile.')
  return changed
}

const ofLink = ({ linkId }: WebhookEndpoint): TollgateError =>
  new TollgateError(
    'CONFLICT',
    `This is the webhookUrl of a link: change it with PATCH /api/v1/links/${linkId}.`,
  )

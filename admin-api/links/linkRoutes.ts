import type { FastifyInstance } from 'fastify'
import { isPaid, type Link } from '../../core/domain/link.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { type IdParams, idParams } from '../http/ids.ts'
import { answers, exactly, listOf, success } from '../schema/answers.ts'
import { secretOf } from '../webhooks/signWebhook.ts'
import { announceLink } from './announceLink.ts'
import { createLinkOnce } from './createLink.ts'
import { type CreateLinkBody, createLinkBody, type UpdateLinkBody, updateLinkBody } from './linkBodies.ts'
import { healthOf, healthSchema } from './linkHealth.ts'
import { createdLinkSchema, linkFields, toCreatedLink, toLinkView, webhookSecretSchema } from './linkView.ts'
import { ownActiveLink, ownLink } from './ownLink.ts'
import { updateLink } from './updateLink.ts'

const listed = exactly(linkFields)
const single = exactly({ ...linkFields, health: healthSchema })
const changed = { ...single, properties: { ...single.properties, webhookSecret: webhookSecretSchema } }

/** `/api/v1/links`: the caller's links. */
export function linkRoutes(app: FastifyInstance, api: Api): void {
  const createOnce = createLinkOnce(api)
  const withHealth = async (link: Link) => ok({ ...toLinkView(link), health: await healthOf(api, link) })

  app.get(
    '/api/v1/links',
    {
      schema: {
        summary: 'List the links',
        description: 'Active links, newest first.',
        response: answers({ 200: success(exactly({ links: listOf(listed) })) }, 401, 429),
      },
    },
    async (request) => {
      const links = await api.links.ofStore(callerOf(request).store.id)
      return ok({ links: links.filter((link) => link.linkType === 'api').map(toLinkView) })
    },
  )

  app.post<{ Body: CreateLinkBody }>(
    '/api/v1/links',
    {
      schema: {
        summary: 'Create a link',
        description:
          'Puts a price in front of an API. The API of a paid link has to answer a health check first. The same request within a minute, word for word, is a repeat and answers the same link.',
        body: createLinkBody,
        response: answers({ 201: success(createdLinkSchema) }, 400, 401, 409, 422, 429),
      },
    },
    async (request, reply) => {
      const { store } = callerOf(request)
      const link = await createOnce(store, request.body)
      const warnings = isPaid(link) ? await api.payoutFaults(store.payout, link.price) : []
      const more = { warnings, ...(await webhookSecret(api, link)) }
      return reply.code(201).send(ok(toCreatedLink(link, api.publicUrl, store.username, more)))
    },
  )

  app.get<{ Params: IdParams }>(
    '/api/v1/links/:id',
    {
      schema: {
        summary: 'Read a link',
        params: idParams,
        response: answers({ 200: success(single) }, 401, 404, 429),
      },
    },
    async (request) => withHealth(await ownLink(api, request, request.params.id)),
  )

  app.patch<{ Params: IdParams; Body: UpdateLinkBody }>(
    '/api/v1/links/:id',
    {
      schema: {
        summary: 'Change a link',
        description: 'null clears an optional field. The last ten old slugs redirect for 30 days.',
        params: idParams,
        body: updateLinkBody,
        response: answers({ 200: success(changed) }, 400, 401, 404, 409, 422, 429),
      },
    },
    async (request) => {
      const link = await ownActiveLink(api, request, request.params.id)
      const updated = await updateLink(api, callerOf(request).store, link, request.body)
      const { success, data } = await withHealth(updated)
      const isNew = link.webhookUrl === null && updated.webhookUrl !== null
      return { success, data: { ...data, ...(isNew && (await webhookSecret(api, updated))) } }
    },
  )

  app.delete<{ Params: IdParams }>(
    '/api/v1/links/:id',
    {
      schema: {
        summary: 'Delete a link',
        description: 'Soft: its record is kept, its slug is free again. Repeating it answers the same.',
        params: idParams,
        response: answers({ 200: exactly({ success: { const: true } }) }, 401, 404, 429),
      },
    },
    async (request) => {
      const link = await ownLink(api, request, request.params.id)
      await api.links.deactivate(link.id, api.clock.now())
      announceLink(api, callerOf(request).store.username, link)
      return { success: true }
    },
  )
}

/** The secret that a link's `webhookUrl` is signed with; nothing where there is none. */
async function webhookSecret(api: Api, { id, webhookUrl }: Link): Promise<{ webhookSecret?: string }> {
  const endpoint = webhookUrl === null ? undefined : await api.webhooks.find(id)
  return endpoint === undefined ? {} : { webhookSecret: secretOf(api.sealer, id, endpoint.salt) }
}

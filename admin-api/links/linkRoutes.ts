import type { FastifyInstance } from 'fastify'
import { isPaid, type Link, type LinkState, linkStates } from '../../core/domain/link.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { ok } from '../http/envelope.ts'
import { type IdParams, idParams } from '../http/ids.ts'
import { nextLink } from '../http/nextLink.ts'
import { answers, exactly, listOf, success, textOrNull } from '../schema/answers.ts'
import { cursorField } from '../schema/page.ts'
import { secretOf } from '../webhooks/signWebhook.ts'
import { announceLink } from './announceLink.ts'
import { createLinkOnce } from './createLink.ts'
import { type CreateLinkBody, createLinkBody, type UpdateLinkBody, updateLinkBody } from './linkBodies.ts'
import { linkFiguresSchema, readLinkFigures } from './linkFigures.ts'
import { healthOf, healthSchema } from './linkHealth.ts'
import { createdLinkSchema, linkFields, toCreatedLink, toLinkView, webhookSecretSchema } from './linkView.ts'
import { ownActiveLink, ownLink } from './ownLink.ts'
import { updateLink } from './updateLink.ts'

const listed = exactly({ ...linkFields, stats: linkFiguresSchema })
const single = exactly({ ...linkFields, health: healthSchema, stats: linkFiguresSchema })
const changed = { ...single, properties: { ...single.properties, webhookSecret: webhookSecretSchema } }

/** As many as are answered without a word, and at most: their documents are long. */
const MAX_PER_PAGE = 100
const MAX_WORDS = 16

const pageQuery = {
  type: 'object',
  properties: {
    limit: {
      type: 'integer',
      minimum: 1,
      maximum: MAX_PER_PAGE,
      description: `Default: ${MAX_PER_PAGE}. With it, or with \`cursor\`, the answer has \`nextCursor\`.`,
    },
    cursor: cursorField,
    q: {
      type: 'string',
      maxLength: 200,
      description: 'Links that have each of these words in their title, slug, url or tags.',
    },
    state: {
      enum: linkStates,
      description: 'Links in this state only; a suspended one is in no other.',
    },
  },
} as const

interface ListQuery {
  readonly limit?: number
  readonly cursor?: string
  readonly q?: string
  readonly state?: LinkState
}

const page = exactly({ links: listOf(listed) })
const pageSchema = {
  ...page,
  properties: {
    ...page.properties,
    nextCursor: textOrNull('Null on the last page. Left out where neither `limit` nor `cursor` was given.'),
  },
}

/** `/api/v1/links`: the caller's links. */
export function linkRoutes(app: FastifyInstance, api: Api): void {
  const createOnce = createLinkOnce(api)
  async function whole(link: Link) {
    const [health, statsOf] = await Promise.all([
      healthOf(api, link),
      readLinkFigures(api, link.storeId, [link.id]),
    ])
    return ok({ ...toLinkView(link), health, stats: statsOf(link) })
  }

  app.get<{ Querystring: ListQuery }>(
    '/api/v1/links',
    {
      schema: {
        summary: 'List the links',
        description: `Active links, newest first, at most ${MAX_PER_PAGE} at a time: the Link header says where the next page is.`,
        querystring: pageQuery,
        response: answers({ 200: success(pageSchema) }, 400, 401, 429),
      },
    },
    async (request, reply) => {
      const { id } = callerOf(request).store
      const { limit, cursor, q = '', state } = request.query
      const { links, nextCursor } = await api.links.page(id, {
        limit: limit ?? MAX_PER_PAGE,
        words: q.split(/\s+/).filter(Boolean).slice(0, MAX_WORDS),
        ...(cursor !== undefined && { cursor }),
        ...(state !== undefined && { state }),
      })
      const ids = links.map((link) => link.id)
      const statsOf = await readLinkFigures(api, id, ids)
      if (nextCursor !== null) {
        const next = { cursor: nextCursor, limit, q: q || undefined, state }
        reply.header('link', nextLink(api, '/api/v1/links', next))
      }
      const shown = links.map((link) => ({ ...toLinkView(link), stats: statsOf(link) }))
      const isPaged = limit !== undefined || cursor !== undefined
      return ok({ links: shown, ...(isPaged && { nextCursor }) })
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
    async (request) => whole(await ownLink(api, request, request.params.id)),
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
      const { success, data } = await whole(updated)
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

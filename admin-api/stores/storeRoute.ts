import type { FastifyInstance } from 'fastify'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { ListedLink } from '../../core/ports/store/links.ts'
import type { Api } from '../deps.ts'
import { nextLink } from '../http/nextLink.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { answers, exactly, listOf, text, uuid } from '../schema/answers.ts'
import { cursorField } from '../schema/page.ts'
import { publicSocials, toPublicSocials } from '../socials/socialsView.ts'
import { usernameForm } from './username.ts'

/** As many as a store has by default: one with more holds nobody up who asks something else meanwhile. */
const MAX_LINKS = 1_000

const pageQuery = {
  type: 'object',
  properties: {
    limit: { type: 'integer', minimum: 1, maximum: MAX_LINKS, description: `Default: ${MAX_LINKS}.` },
    cursor: { ...cursorField, description: 'Of the Link header of the page before.' },
  },
} as const

interface ListQuery {
  readonly limit?: number
  readonly cursor?: string
}

const publicLink = exactly({
  id: uuid,
  title: text(),
  slug: text(),
  price: text(),
  currency: text(),
  linkType: text(),
})
const publicStore = exactly({
  profile: exactly({ username: text(), displayName: text(), bio: text(), avatarUrl: text() }),
  links: listOf(publicLink),
  socials: publicSocials,
})

/** `GET /api/store/:username`: what anybody may know of a store. No envelope (marketplace interface, section 2). */
export function storeRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Params: { username: string }; Querystring: ListQuery }>(
    '/api/store/:username',
    {
      config: { anyOrigin: true },
      onRequest: limitPerClient(api, 'store', api.limits.storePerMinute, minuteMs),
      schema: {
        summary: 'Read a store',
        description: `Public links only, newest first, at most ${MAX_LINKS} at a time: the Link header says where the next page is. A former name redirects for 30 days.`,
        querystring: pageQuery,
        params: { type: 'object', required: ['username'], properties: { username: { type: 'string' } } },
        response: answers({ 200: publicStore }, 400, 404, 429),
      },
    },
    async (request, reply) => {
      const { username } = request.params
      const store = await findStore(api, username)
      if (store === undefined) throw new TollgateError('NOT_FOUND', 'There is no store with this username.')
      reply.header('cache-control', 'no-cache')
      if (store.username !== username) return reply.redirect(`/api/store/${store.username}`, 307)
      const { limit = MAX_LINKS, cursor } = request.query
      const page = { limit, ...(cursor !== undefined && { cursor }) }
      const { links, nextCursor } = await api.links.listedOf(store.id, page)
      if (nextCursor !== null) {
        const next = { cursor: nextCursor, limit: request.query.limit }
        reply.header('link', nextLink(api, `/api/store/${username}`, next))
      }
      return {
        profile: profileOf(store),
        links: links.map(toPublicLink),
        socials: toPublicSocials(store.socials),
      }
    },
  )
}

/** The store of this name, or the one that was called so less than 30 days ago. */
export async function findStore(api: Api, username: string): Promise<Store | undefined> {
  if (!usernameForm.test(username)) return
  const store = await api.stores.byUsername(username)
  if (store !== undefined) return store
  const present = await api.stores.redirectOf(username, api.clock.now())
  return present === undefined ? undefined : api.stores.byUsername(present)
}

const profileOf = ({ username, displayName, bio, avatarUrl }: Store) => ({
  username,
  displayName,
  bio,
  avatarUrl,
})

const toPublicLink = ({ id, title, slug, price, linkType }: ListedLink) => ({
  id,
  title,
  slug,
  price,
  currency: 'USDC',
  linkType,
})

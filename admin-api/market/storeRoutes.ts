import type { FastifyInstance } from 'fastify'
import type { ServedLink } from '../../core/domain/link.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { ListedLink } from '../../core/ports/store/links.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, MINUTE_MS } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import { exactly, field, listOf, nextLink, ok, paging, respond, success } from '../http/responses.ts'
import { healthHistory, healthHistorySchema } from '../links/healthHistory.ts'
import { publicSocials, toPublicSocials } from '../sellers/socials.ts'
import { usernameForm } from '../sellers/username.ts'
import { priceMaxField } from './discoverRoute.ts'

const params = {
  type: 'object',
  required: ['username', 'slug'],
  properties: { username: { type: 'string' }, slug: { type: 'string' } },
} as const

/** `GET /api/store/:username/:slug/health` returns the uptime of a public link in the last thirty days. */
export function storeHealthRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Params: { username: string; slug: string } }>(
    '/api/store/:username/:slug/health',
    {
      config: { anyOrigin: true },
      onRequest: limitPerClient(api, 'store', api.limits.storePerMinute, MINUTE_MS),
      schema: {
        summary: 'Read the uptime of a link',
        description:
          'The uptime of a public link for each day (UTC), oldest first. Time in which the link was suspended counts as down. A former address redirects for 30 days.',
        params,
        response: respond({ 200: success(healthHistorySchema) }, [404, 429]),
      },
    },
    async (request, reply) => {
      const { username, slug } = request.params
      const link = await publicLink(api, username, slug)
      if (link === undefined) throw new TollgateError('LINK_NOT_FOUND', 'No public link is at this address.')
      if (link.username !== username || link.slug !== slug)
        return reply.redirect(`/api/store/${link.username}/${link.slug}/health`, 307)
      reply.header('cache-control', 'public, max-age=60')
      return ok(await healthHistory(api, link))
    },
  )
}

/** A public link at this address, or at a former address that still redirects. A suspended link is included. */
export async function publicLink(api: Api, username: string, slug: string): Promise<ServedLink | undefined> {
  const store = await findStore(api, username)
  if (store === undefined) return
  const former = await api.links.redirectOf(store.username, slug, api.clock.now())
  const link = await api.links.served(store.username, former?.slug ?? slug)
  return link?.isPublic && !link.isStealth ? link : undefined
}

/**
 * Maximum number of links of one response, so that a store with more links does not delay other requests. It is also the default
 * limit of a store.
 */
const MAX_LINKS = 1_000

const pageQuery = {
  type: 'object',
  properties: {
    limit: {
      type: 'integer',
      minimum: 1,
      maximum: MAX_LINKS,
      description: `The number of links of a page. Default: ${MAX_LINKS}.`,
    },
    cursor: { ...paging.cursor, description: 'The cursor from the Link header of the previous page.' },
  },
} as const

const everyLink = exactly({
  id: field.uuid,
  title: field.text(),
  slug: field.text(),
  price: field.text('The price in USDC. If the price depends on the request, the lowest price.'),
  currency: field.text(),
  linkType: field.text(),
})
const publicLinkSchema = {
  ...everyLink,
  properties: { ...everyLink.properties, priceMax: priceMaxField },
}
const publicStore = exactly({
  profile: exactly({
    username: field.text(),
    displayName: field.text(),
    bio: field.text(),
    avatarUrl: field.text(),
  }),
  links: listOf(publicLinkSchema),
  socials: publicSocials,
})

/** `GET /api/store/:username` returns the public data of a store. It has no envelope (marketplace interface, section 2). */
export function storeRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Params: { username: string }; Querystring: Infer<typeof pageQuery> }>(
    '/api/store/:username',
    {
      config: { anyOrigin: true },
      onRequest: limitPerClient(api, 'store', api.limits.storePerMinute, MINUTE_MS),
      schema: {
        summary: 'Read a store',
        description: `The profile of a store and its public links, newest first, at most ${MAX_LINKS} per page. The Link header has the address of the next page. A former username redirects for 30 days.`,
        querystring: pageQuery,
        params: { type: 'object', required: ['username'], properties: { username: { type: 'string' } } },
        response: respond({ 200: publicStore }, [400, 404, 429]),
      },
    },
    async (request, reply) => {
      const { username } = request.params
      const store = await findStore(api, username)
      if (store === undefined) throw new TollgateError('NOT_FOUND', 'No store has this username.')
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

/** The store with this username, or the store that had it less than 30 days ago. */
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

const toPublicLink = ({ id, title, slug, price, priceMax, linkType }: ListedLink) => ({
  id,
  title,
  slug,
  price,
  ...(priceMax !== null && { priceMax }),
  currency: 'USDC',
  linkType,
})

/** The link at this address, or the link that had it less than 30 days ago. */
export async function findLink(
  api: Pick<Api, 'links' | 'clock'>,
  username: string,
  slug: string,
): Promise<ServedLink | undefined> {
  const link = await api.links.served(username, slug)
  if (link !== undefined) return link
  const moved = await api.links.redirectOf(username, slug, api.clock.now())
  return moved && api.links.served(moved.username, moved.slug)
}

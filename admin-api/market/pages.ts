import type { FastifyInstance } from 'fastify'
import { isPaid, type LinkType } from '../../core/domain/link.ts'
import { chainNameOf, networkTitle } from '../../core/domain/network.ts'
import { ratingOf } from '../../core/domain/review.ts'
import type { Store } from '../../core/domain/store.ts'
import { answeredCalls } from '../../core/domain/uptime.ts'
import {
  type DiscoveryQuery,
  discoverySorts,
  type FoundLink,
  wordsOf,
} from '../../core/ports/store/discovery.ts'
import type { HealthStats } from '../../core/ports/store/stats.ts'
import { html } from '../../web/html.ts'
import { MarketPage, type MarketQuery } from '../../web/site/marketPage.ts'
import type { Result } from '../../web/site/result.ts'
import { StorePage } from '../../web/site/storePage.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, MINUTE_MS } from '../http/callers.ts'
import { answerNotFound, cachedPage } from '../http/pages.ts'
import { type Answer, createResponseCache, type ResponseCache, sendCached } from '../http/responses.ts'
import { monthBefore, uptimeIn } from '../links/healthHistory.ts'
import { toPublicSocials } from '../sellers/socials.ts'
import { cardOfMarket, cardOfStore, cardUrl } from './cards/card.ts'
import { linkPageRoute, reviewsOf, SHOWN_REVIEWS } from './linkPage.ts'
import { addressOf } from './listedLinks.ts'
import { findStore } from './storeRoutes.ts'

const MARKET_PAGE_LINKS = 20
/** Number of popular links whose tags buyers can choose from. */
const TAGGED_LINKS = 500
const SHOWN_TAGS = 30

/** `/` is the marketplace, filtered by the query string. Unknown or invalid parameters are ignored. */
function marketPageRoute(app: FastifyInstance, api: Api, cache: ResponseCache): void {
  const { serviceName, publicUrl } = api
  const networks = [...new Set(api.assets.map((asset) => asset.network))].map((network) => ({
    value: chainNameOf(network),
    label: networkTitle(network),
  }))
  app.get<{ Querystring: Readonly<Record<string, unknown>> }>(
    '/',
    {
      schema: { hide: true },
      onRequest: limitPerClient(api, 'discover', api.limits.discoverPerMinute, MINUTE_MS),
    },
    async (request, reply) => {
      const query = readQuery(request.query)
      const offset = offsetIn(request.query['offset'])
      const response = await cache.of(`market ${JSON.stringify([query, offset])}`, async () => {
        const { links, total } = await api.discovery.search(toDiscovery(query, offset))
        const tags = await mostUsedTags(api, cache)
        const props = {
          serviceName,
          publicUrl,
          query,
          total,
          limit: MARKET_PAGE_LINKS,
          offset,
          networks,
          tags,
        }
        const results = await resultsOf(api, links)
        return cachedPage(
          {
            name: 'site',
            title: query.q ? `${query.q} · ${serviceName}` : `${serviceName}: APIs that agents pay per call`,
            description:
              'Find APIs that are paid per call in USDC by x402: no account, no key, no subscription.',
            canonicalUrl: `${publicUrl}/`,
            cardUrl: cardUrl(api, '/', cardOfMarket(api)),
            isUnlisted: Object.keys(query).length > 0 || offset > 0,
            hasForeignImages: true,
            body: html`<${MarketPage} ...${{ ...props, links: results }} />`,
          },
          links.map(addressOf),
        )
      })
      return sendCached(request, reply, response, 'text/html; charset=utf-8')
    },
  )
}

/** The most used tags of popular links. All pages share them for a minute. */
async function mostUsedTags(api: Api, cache: ResponseCache): Promise<readonly string[]> {
  const { body } = await cache.of('market tags', async () => {
    const { links } = await api.discovery.search({ sort: 'popular', limit: TAGGED_LINKS, offset: 0 })
    const uses = new Map<string, number>()
    for (const tag of links.flatMap(({ tags }) => tags)) uses.set(tag, (uses.get(tag) ?? 0) + 1)
    const byUse = [...uses].sort(([a, usesOfA], [b, usesOfB]) => usesOfB - usesOfA || a.localeCompare(b))
    const tags = byUse.slice(0, SHOWN_TAGS).map(([tag]) => tag)
    return { body: JSON.stringify(tags), addresses: links.map(addressOf) }
  })
  return JSON.parse(body) as string[]
}

/** The valid parameters of a query string. Other parameters are ignored. */
function readQuery(given: Readonly<Record<string, unknown>>): MarketQuery {
  const textOf = (name: string, form: RegExp) => {
    const value = typeof given[name] === 'string' ? given[name].trim() : ''
    return form.test(value) ? { [name]: value } : {}
  }
  return {
    ...textOf('q', /^(?=.*\S).{1,200}$/su),
    ...textOf('type', /^(api|standard)$/),
    ...textOf('network', /^(base|solana)$/),
    ...textOf('price', /^(free|\d{1,20}(\.\d{1,18})?)$/),
    ...textOf('tag', /^.{1,32}$/su),
    ...textOf('minRating', /^(100|\d{1,2})$/),
    ...textOf('sort', new RegExp(`^(${discoverySorts.filter((sort) => sort !== 'relevance').join('|')})$`)),
  }
}

function toDiscovery(
  { q, type, network, price, tag, minRating, sort }: MarketQuery,
  offset: number,
): DiscoveryQuery {
  return {
    ...(q && { words: wordsOf(q) }),
    ...(type && { linkType: type as LinkType }),
    ...(network && { chain: network as 'base' | 'solana' }),
    ...(price === 'free' ? { isFree: true } : price && { maxPrice: price }),
    ...(tag && { tag }),
    ...(minRating && { minRating: Number(minRating) }),
    sort: (sort as DiscoveryQuery['sort'] | undefined) ?? (q ? 'relevance' : 'popular'),
    limit: MARKET_PAGE_LINKS,
    offset,
  }
}

const STORE_PAGE_LINKS = 50
/** Maximum number of links of a store whose calls are totaled. It is also the default limit of a store. */
const MAX_STORE_LINKS = 1_000

/** `/:username` is a store's page for a browser. */
function storePageRoute(app: FastifyInstance, api: Api, cache: ResponseCache): void {
  app.get<{ Params: { username: string }; Querystring: Readonly<Record<string, unknown>> }>(
    '/:username',
    {
      // This route handles every unknown address with one segment. Such an address gets a 404 for any method.
      config: { answers404: true },
      schema: { hide: true },
      onRequest: limitPerClient(api, 'store', api.limits.storePerMinute, MINUTE_MS),
    },
    async (request, reply) => {
      const { username } = request.params
      const store = await findStore(api, username)
      if (store === undefined) return answerNotFound(request, reply, api)
      if (store.username !== username) return reply.redirect(`/${store.username}`, 307)
      const offset = offsetIn(request.query['offset'])
      const response = await cache.of(`store ${username} ${offset}`, () => makePage(api, store, offset))
      return sendCached(request, reply, response, 'text/html; charset=utf-8')
    },
  )
}

async function makePage(api: Api, store: Store, offset: number): Promise<Answer> {
  const { serviceName, publicUrl } = api
  const { username, displayName, bio } = store
  const query = { sort: 'popular', username } as const
  const [all, { links, total }, reviews] = await Promise.all([
    api.discovery.search({ ...query, limit: MAX_STORE_LINKS, offset: 0 }),
    api.discovery.search({ ...query, limit: STORE_PAGE_LINKS, offset }),
    api.reviews.ofStore(store.id, { limit: SHOWN_REVIEWS, offset: 0 }),
  ])
  const props = {
    serviceName,
    store,
    socials: toPublicSocials(store.socials),
    links: await resultsOf(api, links),
    total,
    limit: STORE_PAGE_LINKS,
    offset,
    calls: await callsOf(api, all.links),
    reviews: reviewsOf(reviews, api.clock.now(), all.links),
  }
  return cachedPage(
    {
      name: 'site',
      title: `${displayName} (@${username}) · ${serviceName}`,
      description: bio === '' ? `APIs of ${displayName}, paid per call.` : bio,
      canonicalUrl: `${publicUrl}/${username}`,
      cardUrl: cardUrl(api, `/${username}`, cardOfStore(api, store)),
      isUnlisted: offset > 0,
      hasForeignImages: store.avatarUrl !== '',
      body: html`<${StorePage} ...${props} />`,
    },
    // The store itself counts as part of the page, because its name can change while it has no links. The page also depends on all
    // its links, because it shows their total calls.
    [...all.links.map(addressOf), `${username}/`],
  )
}

const MAX_OFFSET = 100_000

/** The `offset` in a query string. 0 if it is not a number. */
const offsetIn = (text: unknown): number =>
  Math.min(MAX_OFFSET, typeof text === 'string' && /^\d{1,9}$/.test(text) ? Number(text) : 0)

/** Links as pages list them. One query reads their stats of thirty days. */
async function resultsOf(api: Api, links: readonly FoundLink[]): Promise<Result[]> {
  const { health, fromMs, nowMs } = await healthOf(api, links)
  return links.map((link) => toResult(link, health.get(link.id), fromMs, nowMs))
}

/** Total calls of these links in thirty days. */
async function callsOf(api: Api, links: readonly FoundLink[]): Promise<number> {
  const { health } = await healthOf(api, links)
  return [...health.values()].reduce((sum, { checks }) => sum + answeredCalls(checks), 0)
}

async function healthOf(api: Api, links: readonly FoundLink[]) {
  const nowMs = api.clock.now()
  const fromMs = monthBefore(nowMs)
  const ids = links.map(({ id }) => id)
  return { health: await api.stats.healthOf(ids, fromMs), fromMs, nowMs }
}

const toResult = (
  link: FoundLink,
  health: HealthStats | undefined,
  fromMs: number,
  nowMs: number,
): Result => ({
  title: link.title,
  description: link.description,
  slug: link.slug,
  price: isPaid(link) ? link.price : null,
  priceMax: link.priceMax,
  username: link.username,
  displayName: link.displayName,
  avatarUrl: link.avatarUrl,
  tags: link.tags,
  stats: {
    linkType: link.linkType,
    buyers: link.buyers,
    // The suspension is null, because listed links are not suspended.
    uptime: health
      ? uptimeIn({ ...link, suspension: null }, health.checks, health.changes, fromMs, nowMs)
      : null,
    rating: ratingOf(link.reviews),
    reviews: link.reviews.total,
    calls: health ? answeredCalls(health.checks) : 0,
  },
})

/**
 * The public marketplace pages. They are complete HTML and the same for every visitor. They are cached for a minute, like discovery
 * responses.
 */
export function pageRoutes(app: FastifyInstance, api: Api): void {
  const cache = createResponseCache(api)
  app.addHook('onClose', async () => cache.close())
  marketPageRoute(app, api, cache)
  storePageRoute(app, api, cache)
  linkPageRoute(app, api, cache)
}

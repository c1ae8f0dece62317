import type { FastifyInstance } from 'fastify'
import type { LinkType } from '../../core/domain/link.ts'
import { chainNameOf, networkTitle } from '../../core/domain/network.ts'
import { type DiscoveryQuery, discoverySorts, wordsOf } from '../../core/ports/store/discovery.ts'
import { html } from '../../web/html.ts'
import { MarketPage, type MarketQuery } from '../../web/site/marketPage.ts'
import { cardOfMarket, cardUrl } from '../cards/card.ts'
import type { Api } from '../deps.ts'
import type { AnswerCache } from '../discovery/answerCache.ts'
import { addressOf } from '../discovery/described.ts'
import { sendKept } from '../discovery/sendKept.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { keptPage } from './keptPage.ts'
import { offsetIn, resultsOf } from './results.ts'

const PAGE_LINKS = 20
/** How many popular links are read for the tags that buyers choose from. */
const TAGGED_LINKS = 500
const SHOWN_TAGS = 30

/** `/`: the marketplace, by what stands in its address. What an address asks for in no known form is left out. */
export function marketPageRoute(app: FastifyInstance, api: Api, cache: AnswerCache): void {
  const { serviceName, publicUrl } = api
  const networks = [...new Set(api.assets.map((asset) => asset.network))].map((network) => ({
    value: chainNameOf(network),
    label: networkTitle(network),
  }))
  app.get<{ Querystring: Readonly<Record<string, unknown>> }>(
    '/',
    {
      schema: { hide: true },
      onRequest: limitPerClient(api, 'discover', api.limits.discoverPerMinute, minuteMs),
    },
    async (request, reply) => {
      const query = readQuery(request.query)
      const offset = offsetIn(request.query['offset'])
      const answer = await cache.of(`market ${JSON.stringify([query, offset])}`, async () => {
        const { links, total } = await api.discovery.search(toDiscovery(query, offset))
        const tags = await mostUsedTags(api, cache)
        const props = { serviceName, publicUrl, query, total, limit: PAGE_LINKS, offset, networks, tags }
        const results = await resultsOf(api, links)
        return keptPage(
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
      return sendKept(request, reply, answer, 'text/html; charset=utf-8')
    },
  )
}

/** Of the popular links; the same for every page of a minute. */
async function mostUsedTags(api: Api, cache: AnswerCache): Promise<readonly string[]> {
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

/** What a page understands of its address; the rest is nobody's. */
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
    limit: PAGE_LINKS,
    offset,
  }
}

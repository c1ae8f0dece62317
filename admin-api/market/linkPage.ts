import type { FastifyInstance } from 'fastify'
import { isPaid, type ServedLink } from '../../core/domain/link.ts'
import { conditionText, isByUse, isQueried, measureText, type Pricing } from '../../core/domain/pricing.ts'
import { ratingOf } from '../../core/domain/review.ts'
import { answeredCalls } from '../../core/domain/uptime.ts'
import type { FoundLink } from '../../core/ports/store/discovery.ts'
import type { ReviewPage } from '../../core/ports/store/reviews.ts'
import { bazaarOf, shownMethod } from '../../core/x402/bazaar.ts'
import { shortAddress } from '../../web/components/money.ts'
import { html } from '../../web/html.ts'
import { inputFieldsOf } from '../../web/site/inputFields.ts'
import { LinkPage, type LinkPageProps } from '../../web/site/linkPage.ts'
import type { ReviewListProps } from '../../web/site/reviews.ts'
import type { Api } from '../deps.ts'
import { limitPerClient, MINUTE_MS } from '../http/callers.ts'
import { answerNotFound, cachedPage } from '../http/pages.ts'
import { type Answer, type ResponseCache, sendCached } from '../http/responses.ts'
import { healthHistory, monthBefore } from '../links/healthHistory.ts'
import { cardOfLink, cardUrl } from './cards/card.ts'
import { urlOf } from './discoverRoute.ts'
import { addressOf } from './listedLinks.ts'
import { findLink } from './storeRoutes.ts'

/**
 * The link whose page is at this address, or was there until a rename. The redirect of the rename must still be valid. Public links
 * have a page even while suspended. A `standard` link has a page even if it is not listed, because buyers buy it there.
 */
export async function linkOfPage(api: Api, username: string, slug: string): Promise<ServedLink | undefined> {
  const link = await findLink(api, username, slug)
  if (link === undefined) return
  return isListed(link) || link.linkType === 'standard' ? link : undefined
}

/** Whether the link is listed publicly. */
const isListed = ({ isPublic, isStealth }: ServedLink): boolean => isPublic && !isStealth

/** `username/slug` of a link's page. The page of a stealth link has the private slug. */
export const pageAddressOf = ({ username, privateSlug, slug }: ServedLink): string =>
  `${username}/${privateSlug ?? slug}`

/** `/:username/:slug` shows what a link offers, its price, and how to call or buy it. */
export function linkPageRoute(app: FastifyInstance, api: Api, cache: ResponseCache): void {
  app.get<{ Params: { username: string; slug: string } }>(
    '/:username/:slug',
    {
      config: { answers404: true },
      schema: { hide: true },
      onRequest: limitPerClient(api, 'store', api.limits.storePerMinute, MINUTE_MS),
    },
    async (request, reply) => {
      const { username, slug } = request.params
      const link = await linkOfPage(api, username, slug)
      if (link === undefined) return answerNotFound(request, reply, api)
      const address = pageAddressOf(link)
      if (address !== `${username}/${slug}`) return reply.redirect(`/${address}`, 307)
      const response = await cache.of(`link ${address}`, () => makePage(api, link))
      return sendCached(request, reply, response, 'text/html; charset=utf-8')
    },
  )
}

/** The prices of a link by request, for buyers. Empty if the link has no table of prices. */
function pricesOf(pricing: Pricing | null): LinkPageProps['link']['prices'] {
  if (pricing === null || isQueried(pricing) || isByUse(pricing)) return []
  const rules = pricing.rules.map(({ when, price }) => ({ when: conditionText(when), price }))
  return [...rules, { when: 'every other request', price: pricing.otherwise }]
}

async function makePage(api: Api, link: ServedLink): Promise<Answer> {
  const { serviceName, publicUrl, assets } = api
  const nowMs = api.clock.now()
  const [store, reviews, health] = await Promise.all([
    api.stores.find(link.storeId),
    api.reviews.ofLink(link.id, { limit: SHOWN_REVIEWS, offset: 0 }),
    healthHistory(api, link),
  ])
  const recent = (await api.stats.healthOf([link.id], monthBefore(nowMs))).get(link.id)
  const [sold] = await api.stats.ofLinks(link.storeId, [link.id], 0)
  const { username, title, description, tags, price, linkType } = link
  const slug = link.privateSlug ?? link.slug
  const address = pageAddressOf(link)
  const props: LinkPageProps = {
    serviceName,
    publicUrl,
    link: {
      username,
      slug,
      title,
      description,
      tags,
      price: isPaid(link) ? price : null,
      priceMax: link.priceMax,
      prices: pricesOf(link.pricing),
      use: link.pricing !== null && isByUse(link.pricing) ? measureText(link.pricing.by) : null,
      displayName: store?.displayName ?? username,
      avatarUrl: store?.avatarUrl ?? '',
      url: urlOf(api, link),
      methods: link.methods,
      method: shownMethod(link),
      linkType,
      isSuspended: link.suspension !== null,
      isChargedFirst: link.settle === 'before',
      access: link.access,
      networks: [...new Set(api.termsOf(link).map(({ network }) => network))],
    },
    fields: inputFieldsOf(link.inputSchema),
    example: exampleOf(link),
    answer: link.outputExample,
    // Only the fields that the page's script reads.
    assets: isPaid(link) ? assets : [],
    stats: {
      linkType,
      uptime: health.uptime,
      rating: ratingOf(reviews.counts),
      reviews: reviews.counts.total,
      calls: recent ? answeredCalls(recent.checks) : 0,
      buyers: sold?.buyers ?? 0,
    },
    days: health.days,
    reviews: reviewsOf(reviews, nowMs),
  }
  return cachedPage(
    {
      name: 'site',
      title: `${title} · ${props.link.displayName} · ${serviceName}`,
      description:
        description ||
        (linkType === 'standard'
          ? `${title}, sold by ${props.link.displayName}.`
          : `${title}: an API of ${props.link.displayName}, paid per call.`),
      canonicalUrl: `${publicUrl}/${address}`,
      // Only listed links have a card, because every client can read the image.
      ...(isListed(link) && { cardUrl: cardUrl(api, `/${address}`, cardOfLink(api, link, store)) }),
      isUnlisted: link.suspension !== null || !isListed(link),
      hasForeignImages: props.link.avatarUrl !== '',
      body: html`<${LinkPage} ...${props} />`,
    },
    [address],
  )
}

/** An example call, as the link's 402 suggests it. */
function exampleOf(link: ServedLink): Readonly<Record<string, unknown>> | null {
  const { input } = bazaarOf(link).info as { input: { queryParams?: unknown; body?: unknown } }
  const example = input.queryParams ?? input.body
  const isShown = typeof example === 'object' && example !== null && Object.keys(example).length > 0
  return isShown ? (example as Readonly<Record<string, unknown>>) : null
}

/** Maximum number of reviews on one page. `/api/reviews` has all reviews. */
export const SHOWN_REVIEWS = 10

/**
 * Reviews as pages show them, with shortened wallets.
 * @param links the links of a store, if each review is to name its link
 */
export const reviewsOf = (
  { reviews, counts }: ReviewPage,
  nowMs: number,
  links: readonly FoundLink[] = [],
): ReviewListProps => ({
  nowMs,
  total: counts.total,
  rating: ratingOf(counts),
  reviews: reviews.map(({ isPositive, comment, wallet, createdAtMs, linkId }) => ({
    isPositive,
    comment,
    createdAtMs,
    wallet: shortAddress(wallet),
    of: titleOf(links.find(({ id }) => id === linkId)),
  })),
})

const titleOf = (link: FoundLink | undefined) => link && { title: link.title, href: `/${addressOf(link)}` }

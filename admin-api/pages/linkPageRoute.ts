import type { FastifyInstance } from 'fastify'
import { isPaid, type ServedLink } from '../../core/domain/link.ts'
import { ratingOf } from '../../core/domain/review.ts'
import { answeredCalls } from '../../core/domain/uptime.ts'
import { bazaarOf, shownMethod } from '../../core/x402/bazaar.ts'
import { html } from '../../web/html.ts'
import { inputFieldsOf } from '../../web/site/inputFields.ts'
import { LinkPage, type LinkPageProps } from '../../web/site/linkPage.ts'
import { cardOfLink, cardUrl } from '../cards/card.ts'
import type { Api } from '../deps.ts'
import type { Answer, AnswerCache } from '../discovery/answerCache.ts'
import { urlOf } from '../discovery/discoverRoute.ts'
import { sendKept } from '../discovery/sendKept.ts'
import { limitPerClient, minuteMs } from '../http/rateLimits.ts'
import { healthHistory, monthBefore } from '../links/healthHistory.ts'
import { answerNotFound, keptPage } from './keptPage.ts'
import { isListed, linkOfPage, pageAddressOf } from './linkOfPage.ts'
import { reviewsOf, SHOWN_REVIEWS } from './reviewsOf.ts'

/** `/:username/:slug`: what a link gives, for how much, and how to call or buy it. */
export function linkPageRoute(app: FastifyInstance, api: Api, cache: AnswerCache): void {
  app.get<{ Params: { username: string; slug: string } }>(
    '/:username/:slug',
    {
      config: { answers404: true },
      schema: { hide: true },
      onRequest: limitPerClient(api, 'store', api.limits.storePerMinute, minuteMs),
    },
    async (request, reply) => {
      const { username, slug } = request.params
      const link = await linkOfPage(api, username, slug)
      if (link === undefined) return answerNotFound(request, reply, api)
      const address = pageAddressOf(link)
      if (address !== `${username}/${slug}`) return reply.redirect(`/${address}`, 307)
      const answer = await cache.of(`link ${address}`, () => makePage(api, link))
      return sendKept(request, reply, answer, 'text/html; charset=utf-8')
    },
  )
}

async function makePage(api: Api, link: ServedLink): Promise<Answer> {
  const { serviceName, publicUrl, assets } = api
  const nowMs = api.clock.now()
  const [store, reviews, health] = await Promise.all([
    api.stores.find(link.storeId),
    api.reviews.ofLink(link.id, { limit: SHOWN_REVIEWS, offset: 0 }),
    healthHistory(api, link),
  ])
  const recent = (await api.figures.healthOf([link.id], monthBefore(nowMs))).get(link.id)
  const [sold] = await api.figures.ofLinks(link.storeId, [link.id], 0)
  const { username, title, description, tags, price, linkType } = link
  const slug = link.privateSlug ?? link.slug
  const address = pageAddressOf(link)
  const props: LinkPageProps = {
    ...{ serviceName, publicUrl },
    link: {
      ...{ username, slug, title, description, tags, price: isPaid(link) ? price : null },
      ...{ displayName: store?.displayName ?? username, avatarUrl: store?.avatarUrl ?? '' },
      ...{ url: urlOf(api, link), methods: link.methods, method: shownMethod(link) },
      ...{ linkType, isSuspended: link.suspension !== null },
      isChargedFirst: link.settle === 'before',
      networks: [...new Set(api.termsOf(link).map(({ network }) => network))],
    },
    ...{ fields: inputFieldsOf(link.inputSchema), example: exampleOf(link), answer: link.outputExample },
    // Only what the page's script reads of them.
    assets: isPaid(link) ? assets : [],
    stats: {
      ...{ linkType, uptime: health.uptime, rating: ratingOf(reviews.counts), reviews: reviews.counts.total },
      ...{ calls: recent ? answeredCalls(recent.checks) : 0, buyers: sold?.buyers ?? 0 },
    },
    days: health.days,
    reviews: reviewsOf(reviews, nowMs),
  }
  return keptPage(
    {
      name: 'site',
      title: `${title} · ${props.link.displayName} · ${serviceName}`,
      description:
        description ||
        (linkType === 'standard'
          ? `${title}, sold by ${props.link.displayName}.`
          : `${title}: an API of ${props.link.displayName}, paid per call.`),
      canonicalUrl: `${publicUrl}/${address}`,
      // A card is a picture that anyone can ask for.
      ...(isListed(link) && { cardUrl: cardUrl(api, `/${address}`, cardOfLink(api, link, store)) }),
      isUnlisted: link.suspension !== null || !isListed(link),
      hasForeignImages: props.link.avatarUrl !== '',
      body: html`<${LinkPage} ...${props} />`,
    },
    [address],
  )
}

/** What a call could carry, as the 402 suggests it. */
function exampleOf(link: ServedLink): Readonly<Record<string, unknown>> | null {
  const { input } = bazaarOf(link).info as { input: { queryParams?: unknown; body?: unknown } }
  const example = input.queryParams ?? input.body
  const isShown = typeof example === 'object' && example !== null && Object.keys(example).length > 0
  return isShown ? (example as Readonly<Record<string, unknown>>) : null
}

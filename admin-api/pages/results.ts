import { isPaid } from '../../core/domain/link.ts'
import { ratingOf } from '../../core/domain/review.ts'
import { answeredCalls } from '../../core/domain/uptime.ts'
import type { FoundLink } from '../../core/ports/store/discovery.ts'
import type { HealthFigures } from '../../core/ports/store/figures.ts'
import type { Result } from '../../web/site/result.ts'
import type { Api } from '../deps.ts'
import { monthBefore, uptimeIn } from '../links/healthHistory.ts'

const MAX_OFFSET = 100_000

/** Where a page of a list begins, as it stands in the address; what is no number is the beginning. */
export const offsetIn = (text: unknown): number =>
  Math.min(MAX_OFFSET, typeof text === 'string' && /^\d{1,9}$/.test(text) ? Number(text) : 0)

/** Found links as pages list them, with how they did in thirty days: one question for all of them. */
export async function resultsOf(api: Api, links: readonly FoundLink[]): Promise<Result[]> {
  const { health, fromMs, nowMs } = await healthOf(api, links)
  return links.map((link) => toResult(link, health.get(link.id), fromMs, nowMs))
}

/** Calls of thirty days of all of these together. */
export async function callsOf(api: Api, links: readonly FoundLink[]): Promise<number> {
  const { health } = await healthOf(api, links)
  return [...health.values()].reduce((sum, { checks }) => sum + answeredCalls(checks), 0)
}

async function healthOf(api: Api, links: readonly FoundLink[]) {
  const nowMs = api.clock.now()
  const fromMs = monthBefore(nowMs)
  const ids = links.map(({ id }) => id)
  return { health: await api.figures.healthOf(ids, fromMs), fromMs, nowMs }
}

const toResult = (
  link: FoundLink,
  health: HealthFigures | undefined,
  fromMs: number,
  nowMs: number,
): Result => ({
  title: link.title,
  description: link.description,
  slug: link.slug,
  price: isPaid(link) ? link.price : null,
  username: link.username,
  displayName: link.displayName,
  avatarUrl: link.avatarUrl,
  tags: link.tags,
  stats: {
    linkType: link.linkType,
    buyers: link.buyers,
    // What is listed is not suspended now.
    uptime: health
      ? uptimeIn({ ...link, suspension: null }, health.checks, health.changes, fromMs, nowMs)
      : null,
    rating: ratingOf(link.reviews),
    reviews: link.reviews.total,
    calls: health ? answeredCalls(health.checks) : 0,
  },
})

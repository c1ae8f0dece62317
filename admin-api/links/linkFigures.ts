import type { Link, StoreId } from '../../core/domain/link.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { ratingOf } from '../../core/domain/review.ts'
import { answeredCalls } from '../../core/domain/uptime.ts'
import type { LinkFigures } from '../../core/ports/store/figures.ts'
import type { Api } from '../deps.ts'
import { count, exactly, text } from '../schema/answers.ts'
import { REVENUE_PLACES } from '../stats/period.ts'
import { monthBefore, uptimeIn, uptimeSchema } from './healthHistory.ts'

/** How a link does, for its seller. */
export const linkFiguresSchema = exactly(
  {
    purchases: { ...count, description: 'Paid calls and paid payment sessions, while they stand.' },
    calls: {
      ...count,
      description: 'Requests, free and paid, that its API answered without failing (5xx, timeout).',
    },
    buyers: count,
    revenue: text('USDC.'),
    uptime: uptimeSchema,
    reviews: { ...count, description: 'Of all time, like the rating.' },
    rating: { type: ['integer', 'null'], description: 'Percentage of positive reviews.' },
  },
  "Of the last 30 days (UTC, today included). Purchases, buyers and revenue leave out the store's own wallets.",
)

/**
 * Reads how these links of a store do, all of them at once.
 *
 * @returns the figures of a link, of those that were read
 */
export async function readLinkFigures(api: Api, storeId: StoreId, linkIds: readonly string[]) {
  const nowMs = api.clock.now()
  const fromMs = monthBefore(nowMs)
  const found = await api.figures.ofLinks(storeId, linkIds, fromMs)
  const figuresOf = new Map(found.map((figures) => [figures.linkId, figures]))
  return (link: Link) => {
    const { purchases, buyers, revenueE18, reviews, health } = figuresOf.get(link.id) ?? nothing
    return {
      ...{ purchases, calls: answeredCalls(health.checks) },
      ...{ buyers, revenue: formatAmount(revenueE18, REVENUE_PLACES, REVENUE_PLACES) },
      uptime: uptimeIn(link, health.checks, health.changes, fromMs, nowMs),
      ...{ reviews: reviews.total, rating: ratingOf(reviews) },
    }
  }
}

const nothing: Omit<LinkFigures, 'linkId'> = {
  ...{ purchases: 0, buyers: 0, revenueE18: 0n, reviews: { total: 0, positive: 0 } },
  health: { checks: { probes: 0, failedProbes: 0, calls: 0, failedCalls: 0 }, changes: [] },
}

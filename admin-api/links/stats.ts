import type { FastifyInstance } from 'fastify'
import { formatAmount } from '../../core/domain/money.ts'
import { type Bucket, DAY_MS, HOUR_MS, type Span, type Totals } from '../../core/ports/store/stats.ts'
import type { Api } from '../deps.ts'
import { callerOf } from '../http/callers.ts'
import type { Infer } from '../http/fields.ts'
import { ownLinkFilter } from '../http/ownership.ts'
import { exactly, field, isoTime, listOf, ok, respond, success } from '../http/responses.ts'
import { validationError } from '../http/validation.ts'

/** The periods of statistics (marketplace interface, section 4, Analytics). */
const periods = ['7d', '30d', '90d', 'all'] as const
type Period = (typeof periods)[number]

/** The periods of statistics over time. They also include a day. */
const seriesPeriods = ['24h', ...periods] as const
type SeriesPeriod = (typeof seriesPeriods)[number]

const days: Readonly<Record<Exclude<SeriesPeriod, 'all'>, number>> = {
  '24h': 1,
  '7d': 7,
  '30d': 30,
  '90d': 90,
}

const periodField = { type: 'string', enum: periods, default: '30d' } as const

/** The length of a period in ms. Null for all time. */
const lengthOf = (period: SeriesPeriod): number | null => (period === 'all' ? null : days[period] * DAY_MS)

/** The whole UTC days of a period. Today is the last, and nothing in the future is counted. */
export function daysOf(period: Period, nowMs: number): { readonly fromMs: number; readonly toMs: number } {
  const lengthMs = lengthOf(period)
  const toMs = (Math.floor(nowMs / DAY_MS) + 1) * DAY_MS
  return { fromMs: lengthMs === null ? 0 : toMs - lengthMs, toMs }
}

/** Decimals of revenue (marketplace interface, section 2). */
export const REVENUE_PLACES = 18

const totalsQuery = {
  type: 'object',
  properties: {
    period: periodField,
    linkId: { type: 'string', description: 'The id of a link. The statistics then cover only this link.' },
  },
} as const

/** `GET /api/v1/stats` returns views, buyers and revenue of the caller's store. */
export function statsRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: Infer<typeof totalsQuery> }>(
    '/api/v1/stats',
    {
      schema: {
        summary: 'Read the statistics',
        description:
          "Revenue is in USDC, without purchases that were refunded or that left the chain. Views count callers who made a free call or got a 402, each caller once an hour. Buyers and revenue do not include purchases by the store's own wallets. A period begins with a whole day in UTC.",
        querystring: totalsQuery,
        response: respond(
          {
            200: success(
              exactly({
                period: { enum: periods },
                views: field.count,
                buyers: field.count,
                revenue: field.text(),
              }),
            ),
          },
          [400, 401, 404, 429],
        ),
      },
    },
    async (request) => {
      const { period } = request.query
      const linkId = await ownLinkFilter(api, request, request.query.linkId)
      const { views, buyers, revenueE18 } = await api.stats.totals(callerOf(request).store.id, {
        ...daysOf(period, api.clock.now()),
        ...(linkId !== undefined && { linkId }),
      })
      return ok({ period, views, buyers, revenue: formatAmount(revenueE18, REVENUE_PLACES, REVENUE_PLACES) })
    },
  )
}

const buckets = { hour: HOUR_MS, day: DAY_MS } as const

const seriesQuery = {
  type: 'object',
  properties: {
    period: { type: 'string', enum: seriesPeriods, default: '30d' },
    linkId: { type: 'string', description: 'The id of a link. The statistics then cover only this link.' },
    bucket: {
      type: 'string',
      enum: ['hour', 'day'],
      default: 'day',
      description: 'The length of a bucket, in UTC. `hour` is possible for the periods 24h, 7d and 30d.',
    },
  },
} as const

const stats = {
  views: field.count,
  challenges: { ...field.count, description: 'The number of 402 responses.' },
  purchases: {
    ...field.count,
    description:
      'The number of paid calls and paid payment sessions, without purchases that were refunded or that left the chain.',
  },
  buyers: field.count,
  revenue: field.text('USDC.'),
  refunds: field.count,
  refunded: field.text('USDC.'),
}
const summed = {
  ...stats,
  conversion: {
    type: ['number', 'null'],
    minimum: 0,
    maximum: 100,
    description: 'Purchases as a percentage of 402 responses. Null if there are no 402 responses.',
  },
}
const span = exactly({ from: field.time, to: field.time, ...summed })
const response = exactly({
  period: { enum: seriesPeriods },
  bucket: { enum: Object.keys(buckets) },
  total: span,
  previous: {
    ...span,
    type: ['object', 'null'],
    description: 'The totals of the previous period of the same length. Null for all time.',
  },
  points: {
    ...listOf(exactly({ at: field.time, ...stats })),
    description: 'All buckets, oldest first.',
  },
})

/** `GET /api/v1/stats/timeseries` returns statistics by hour or day, together with those of the previous period. */
export function timeseriesRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: Infer<typeof seriesQuery> }>(
    '/api/v1/stats/timeseries',
    {
      schema: {
        summary: 'Read the statistics by hour or day',
        description:
          'Divides the period into buckets of an hour or a day. The last bucket is the current one. Revenue counts in the bucket of the sale, without purchases that were refunded or that left the chain. A refund counts in the bucket in which you sent the money back.',
        querystring: seriesQuery,
        response: respond({ 200: success(response) }, [400, 401, 404, 429]),
      },
    },
    async (request) => {
      const { period, bucket } = request.query
      const linkId = await ownLinkFilter(api, request, request.query.linkId)
      const lengthMs = lengthOf(period)
      if (bucket === 'hour' && (lengthMs === null || lengthMs > lengthOf('30d')!))
        throw validationError([
          {
            path: 'bucket',
            code: 'conflict',
            message: `Expected day for ${period}, because hour is only for 24h, 7d and 30d.`,
          },
        ])
      const { store } = callerOf(request)
      const bucketMs = buckets[bucket]
      const toMs = (Math.floor(api.clock.now() / bucketMs) + 1) * bucketMs
      const fromMs = lengthMs === null ? Math.floor(store.createdAtMs / bucketMs) * bucketMs : toMs - lengthMs
      const spanOf = (fromMs: number, toMs: number) => ({
        fromMs,
        toMs,
        ...(linkId !== undefined && { linkId }),
      })
      const now = await readSpan(api, store.id, spanOf(fromMs, toMs), bucketMs)
      const before =
        lengthMs === null ? null : await readSpan(api, store.id, spanOf(fromMs - lengthMs, fromMs), bucketMs)
      return ok({
        period,
        bucket,
        total: now.total,
        previous: before?.total ?? null,
        points: now.points,
      })
    },
  )
}

/** The totals of one span, and each of its buckets, including empty ones. */
async function readSpan(api: Api, storeId: string, span: Span, bucketMs: (typeof buckets)['hour' | 'day']) {
  const { fromMs, toMs } = span
  const [found, { buyers }] = await Promise.all([
    api.stats.series(storeId, { ...span, bucketMs }),
    api.stats.totals(storeId, span),
  ])
  const at = new Map(found.map((bucket) => [bucket.startMs, bucket]))
  const points: Bucket[] = []
  for (let startMs = fromMs; startMs < toMs; startMs += bucketMs)
    points.push({ ...(at.get(startMs) ?? nothing), startMs })
  const total = points.reduce<Totals>(plus, nothing)
  return {
    total: {
      from: isoTime(fromMs),
      to: isoTime(toMs),
      ...toView({ ...total, buyers }),
      conversion: conversionOf(total),
    },
    points: points.map((point) => ({ at: isoTime(point.startMs), ...toView(point) })),
  }
}

const toView = ({ views, challenges, purchases, buyers, revenueE18, refunds, refundedE18 }: Totals) => ({
  views,
  challenges,
  purchases,
  buyers,
  revenue: formatAmount(revenueE18, REVENUE_PLACES, REVENUE_PLACES),
  refunds,
  refunded: formatAmount(refundedE18, REVENUE_PLACES, REVENUE_PLACES),
})

/**
 * Purchases as a percentage of 402 responses. It is at most 100, because a buyer who knows the price may pay without a 402 first.
 */
const conversionOf = ({ purchases, challenges }: Totals): number | null =>
  challenges === 0 ? null : Math.min(100, Math.round((purchases / challenges) * 10_000) / 100)

const nothing: Totals = {
  views: 0,
  challenges: 0,
  purchases: 0,
  buyers: 0,
  revenueE18: 0n,
  refunds: 0,
  refundedE18: 0n,
}

/** Adds up totals. Buyers are not added up, because the same buyer may come every day. */
const plus = (a: Totals, b: Totals): Totals => ({
  views: a.views + b.views,
  challenges: a.challenges + b.challenges,
  purchases: a.purchases + b.purchases,
  buyers: 0,
  revenueE18: a.revenueE18 + b.revenueE18,
  refunds: a.refunds + b.refunds,
  refundedE18: a.refundedE18 + b.refundedE18,
})

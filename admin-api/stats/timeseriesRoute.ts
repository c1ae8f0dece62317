import type { FastifyInstance } from 'fastify'
import { formatAmount } from '../../core/domain/money.ts'
import { type Bucket, DAY_MS, HOUR_MS, type Span, type Totals } from '../../core/ports/store/figures.ts'
import { callerOf } from '../auth/authenticate.ts'
import type { Api } from '../deps.ts'
import { isoTime, ok } from '../http/envelope.ts'
import { ownLinkFilter } from '../links/ownLink.ts'
import { answers, count, exactly, listOf, success, text, time } from '../schema/answers.ts'
import { validationError } from '../schema/validationError.ts'
import { lengthOf, REVENUE_PLACES, type SeriesPeriod, seriesPeriods } from './period.ts'

const buckets = { hour: HOUR_MS, day: DAY_MS } as const

const query = {
  type: 'object',
  properties: {
    period: { type: 'string', enum: seriesPeriods, default: '30d' },
    linkId: { type: 'string', description: 'Of this link only.' },
    bucket: {
      type: 'string',
      enum: ['hour', 'day'],
      default: 'day',
      description: 'UTC. By the hour for 24h, 7d and 30d.',
    },
  },
} as const

interface Query {
  readonly period: SeriesPeriod
  readonly linkId?: string
  readonly bucket: keyof typeof buckets
}

const figures = {
  views: count,
  challenges: { ...count, description: '402 answers.' },
  purchases: { ...count, description: 'Paid calls and paid payment sessions, while they stand.' },
  buyers: count,
  revenue: text('USDC.'),
  refunds: count,
  refunded: text('USDC.'),
}
const summed = {
  ...figures,
  conversion: {
    type: ['number', 'null'],
    minimum: 0,
    maximum: 100,
    description: 'Purchases in percent of 402 answers; null where there was none.',
  },
}
const span = exactly({ from: time, to: time, ...summed })
const answer = exactly({
  period: { enum: seriesPeriods },
  bucket: { enum: Object.keys(buckets) },
  total: span,
  previous: {
    ...span,
    type: ['object', 'null'],
    description: 'The same number of buckets before; null for all of the time.',
  },
  points: { ...listOf(exactly({ at: time, ...figures })), description: 'The oldest first, each of them.' },
})

/** `GET /api/v1/stats/timeseries`: the figures hour by hour or day by day, beside those of the time before. */
export function timeseriesRoute(app: FastifyInstance, api: Api): void {
  app.get<{ Querystring: Query }>(
    '/api/v1/stats/timeseries',
    {
      schema: {
        summary: 'Read the figures over time',
        description:
          'In whole buckets, the last of which is the present one. Revenue stands where the sale was made, and only while it stands; refunds stand where the money went back.',
        querystring: query,
        response: answers({ 200: success(answer) }, 400, 401, 404, 429),
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
            message: `Expected day for ${period}; hour is for 24h, 7d and 30d.`,
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
        ...{ period, bucket, total: now.total, previous: before?.total ?? null },
        points: now.points,
      })
    },
  )
}

/** What one span came to, and each of its buckets, those without anything too. */
async function readSpan(api: Api, storeId: string, span: Span, bucketMs: (typeof buckets)['hour' | 'day']) {
  const { fromMs, toMs } = span
  const [found, { buyers }] = await Promise.all([
    api.figures.series(storeId, { ...span, bucketMs }),
    api.figures.totals(storeId, span),
  ])
  const at = new Map(found.map((bucket) => [bucket.startMs, bucket]))
  const points: Bucket[] = []
  for (let startMs = fromMs; startMs < toMs; startMs += bucketMs)
    points.push({ ...(at.get(startMs) ?? nothing), startMs })
  const total = points.reduce<Totals>(plus, nothing)
  return {
    total: {
      ...{ from: isoTime(fromMs), to: isoTime(toMs), ...toView({ ...total, buyers }) },
      conversion: conversionOf(total),
    },
    points: points.map((point) => ({ at: isoTime(point.startMs), ...toView(point) })),
  }
}

const toView = ({ views, challenges, purchases, buyers, revenueE18, refunds, refundedE18 }: Totals) => ({
  ...{ views, challenges, purchases, buyers },
  revenue: formatAmount(revenueE18, REVENUE_PLACES, REVENUE_PLACES),
  refunds,
  refunded: formatAmount(refundedE18, REVENUE_PLACES, REVENUE_PLACES),
})

/** Whoever knows the price may pay without having asked for it. */
const conversionOf = ({ purchases, challenges }: Totals): number | null =>
  challenges === 0 ? null : Math.min(100, Math.round((purchases / challenges) * 10_000) / 100)

const nothing: Totals = {
  ...{ views: 0, challenges: 0, purchases: 0, buyers: 0, revenueE18: 0n, refunds: 0, refundedE18: 0n },
}

/** Buyers don't add up: one may come every day. */
const plus = (a: Totals, b: Totals): Totals => ({
  views: a.views + b.views,
  challenges: a.challenges + b.challenges,
  purchases: a.purchases + b.purchases,
  buyers: 0,
  revenueE18: a.revenueE18 + b.revenueE18,
  refunds: a.refunds + b.refunds,
  refundedE18: a.refundedE18 + b.refundedE18,
})

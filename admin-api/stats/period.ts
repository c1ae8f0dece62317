import { DAY_MS } from '../../core/ports/store/figures.ts'

/** How far figures reach back (marketplace interface, section 4, Analytics). */
export const periods = ['7d', '30d', '90d', 'all'] as const
export type Period = (typeof periods)[number]

/** Of the figures over time: of a day, too. */
export const seriesPeriods = ['24h', ...periods] as const
export type SeriesPeriod = (typeof seriesPeriods)[number]

const days: Readonly<Record<Exclude<SeriesPeriod, 'all'>, number>> = {
  '24h': 1,
  '7d': 7,
  '30d': 30,
  '90d': 90,
}

export const periodField = { type: 'string', enum: periods, default: '30d' } as const

/** Its length; null for all of the time. */
export const lengthOf = (period: SeriesPeriod): number | null =>
  period === 'all' ? null : days[period] * DAY_MS

/** As many days of UTC, of which today is the last: what lies ahead of the clock is in no figure. */
export function daysOf(period: Period, nowMs: number): { readonly fromMs: number; readonly toMs: number } {
  const lengthMs = lengthOf(period)
  const toMs = (Math.floor(nowMs / DAY_MS) + 1) * DAY_MS
  return { fromMs: lengthMs === null ? 0 : toMs - lengthMs, toMs }
}

/** Revenue is shown with as many places (marketplace interface, section 2). */
export const REVENUE_PLACES = 18

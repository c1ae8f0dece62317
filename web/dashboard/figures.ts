/** What `GET /api/v1/stats/timeseries` says, as far as the overview reads it. */
export interface FiguresAnswer {
  readonly total: TotalsAnswer
  readonly previous: TotalsAnswer | null
  readonly points: readonly { readonly at: string; readonly revenue: string; readonly purchases: number }[]
}

export interface TotalsAnswer {
  readonly purchases: number
  readonly buyers: number
  readonly revenue: string
  /** Purchases in percent of 402 answers; null where there was none. */
  readonly conversion: number | null
}

/** The times that the overview can show. */
export const periods = {
  '24h': { title: '24 hours', query: 'period=24h&bucket=hour', hasHours: true },
  '7d': { title: '7 days', query: 'period=7d&bucket=day', hasHours: false },
  '30d': { title: '30 days', query: 'period=30d&bucket=day', hasHours: false },
} as const

export type Period = keyof typeof periods

/** `+12 %`, `−3 %`; undefined where there was nothing to compare with. */
export function changeOf(now: number, before: number | null | undefined): string | undefined {
  if (before == null || before === 0) return
  const percent = Math.round((now / before - 1) * 100)
  return percent === 0 ? '±0 %' : `${percent > 0 ? '+' : '−'}${Math.abs(percent)} %`
}

import type { SuspensionChange } from '../../../../core/domain/uptime.ts'
import {
  type Bucket,
  DAY_MS,
  type HealthStats,
  HOUR_MS,
  type LinkStats,
  type Span,
  type Totals,
} from '../../../../core/ports/store/stats.ts'
import type { Row } from '../rows.ts'

/** Shortest time between two writes of a link's last call, in ms. */
export const CALLED_AGAIN_MS = 60_000

export const units = { day: DAY_MS, hour: HOUR_MS } as const
export type Unit = keyof typeof units

/** Whether rollups cover exactly this span. They cover whole days. The rollups of a store also cover whole hours. */
export function isWhole(unit: Unit, { linkId, fromMs, toMs }: Span): boolean {
  if (unit === 'hour' && linkId !== undefined) return false
  return fromMs % units[unit] === 0 && (toMs % units[unit] === 0 || toMs === Number.MAX_SAFE_INTEGER)
}

export function toTotals(sold: Row | undefined, seen: Row | undefined): Totals {
  const number = (row: Row | undefined, name: string) => Number(row?.[name] ?? 0)
  const amount = (name: string) => BigInt(String(sold?.[name] ?? 0))
  return {
    views: number(seen, 'views'),
    challenges: number(seen, 'challenges'),
    purchases: number(sold, 'calls'),
    buyers: number(sold, 'buyers'),
    revenueE18: amount('revenue'),
    refunds: number(sold, 'refunds'),
    refundedE18: amount('refunded'),
  }
}

/** The series of rollups and views, by bucket. */
export const seriesOf = (bucketMs: number, rollups: Keyed, seen: Keyed): Bucket[] =>
  bucketsOf(bucketMs, [rollups, seen], (key) => toTotals(rollups.get(key)?.[0], seen.get(key)?.[0]))

export function bucketsOf(
  bucketMs: number,
  parts: readonly Keyed[],
  totalsAt: (key: number) => Totals,
): Bucket[] {
  const keys = [...new Set(parts.flatMap((rows) => [...rows.keys()]))] as number[]
  return keys.sort((a, b) => a - b).map((key) => ({ startMs: key * bucketMs, ...totalsAt(key) }))
}

export type Keyed = ReadonlyMap<string | number, readonly Row[]>

export const keyed = (rows: readonly Row[]): Keyed =>
  Map.groupBy(rows, (row) => row['key'] as string | number)

/** The health of each link that has any data, in the order of `linkIds`. */
export function healthByLink(
  linkIds: readonly string[],
  checks: Keyed,
  changes: Keyed,
): Map<string, HealthStats> {
  const known = linkIds.filter((id) => checks.has(id) || changes.has(id))
  return new Map(known.map((id) => [id, healthFrom(checks.get(id), changes.get(id))]))
}

/** @param reviews has a row for every link of the store, with null counts if there are no reviews */
export function linkStats(
  linkIds: readonly string[],
  rollups: Keyed,
  reviews: Keyed,
  health: ReadonlyMap<string, HealthStats>,
): LinkStats[] {
  const isKnown = (id: string) => rollups.has(id) || health.has(id) || reviews.get(id)![0]!['total'] !== null
  const known = linkIds.filter((id) => reviews.has(id) && isKnown(id))
  return known.map((linkId) => {
    const review = reviews.get(linkId)?.[0]
    const { purchases, buyers, revenueE18 } = toTotals(rollups.get(linkId)?.[0], undefined)
    return {
      linkId,
      purchases,
      buyers,
      revenueE18,
      reviews: { total: Number(review?.['total'] ?? 0), positive: Number(review?.['positive'] ?? 0) },
      health: health.get(linkId) ?? healthFrom(undefined),
    }
  })
}

export const toHealthDays = (days: readonly Row[], changes: readonly Row[]) => ({
  days: days.map((row) => ({ day: Number(row['day']), ...toChecks(row) })),
  changes: changes.map(toChange),
})

const healthFrom = (checks: readonly Row[] | undefined, changes: readonly Row[] = []): HealthStats => ({
  checks: toChecks(checks?.[0]),
  changes: changes.map(toChange),
})

const toChecks = (row: Row | undefined) => ({
  probes: Number(row?.['probes'] ?? 0),
  failedProbes: Number(row?.['failed_probes'] ?? 0),
  calls: Math.max(0, Number(row?.['calls'] ?? 0)),
  failedCalls: Number(row?.['failed_calls'] ?? 0),
})

const toChange = (row: Row): SuspensionChange => ({
  atMs: Number(row['at_ms']),
  kind: row['kind'] as SuspensionChange['kind'],
})

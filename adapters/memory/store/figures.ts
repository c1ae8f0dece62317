import { parseAmount } from '../../../core/domain/money.ts'
import type { Purchase } from '../../../core/domain/purchase.ts'
import type { SuspensionChange } from '../../../core/domain/uptime.ts'
import type { Clock } from '../../../core/ports/clock.ts'
import {
  DAY_MS,
  type Figures,
  type HealthFigures,
  HOUR_MS,
  HOURS_KEPT_MS,
  type Sales,
  type Span,
  type Totals,
} from '../../../core/ports/store/figures.ts'
import type { Access } from './access.ts'
import { canonical } from './books.ts'
import type { Tables } from './memory.ts'

/** Figures in memory. */
export function createFigures(tables: Tables, { read, write }: Access, clock: Clock): Figures {
  const { purchases, refunds, traffic, links, reviews, health } = tables
  const { linkChecks, checkHours } = tables

  /** A store's purchases by others, of one link where it is named. */
  function soldBy(storeId: string, linkId: string | undefined) {
    return purchases.keys().flatMap((row) => {
      const { purchase, isOwn } = purchases.get(row)!
      const isIts = purchase.storeId === storeId && (linkId === undefined || purchase.linkId === linkId)
      return isIts && !isOwn ? [{ row, purchase }] : []
    })
  }

  function salesIn(storeId: string, { linkId, fromMs, toMs }: Span): Purchase[] {
    return soldBy(storeId, linkId)
      .map(({ purchase }) => purchase)
      .filter(({ status }) => status === 'settled' || status === 'delivered')
      .filter(({ createdAtMs }) => createdAtMs >= fromMs && createdAtMs < toMs)
  }

  function refundsIn(storeId: string, { linkId, fromMs, toMs }: Span) {
    return soldBy(storeId, linkId).flatMap(({ row, purchase }) => {
      const atMs = refunds.get(row)?.refundedAtMs
      return atMs !== undefined && atMs >= fromMs && atMs < toMs ? [{ atMs, purchase }] : []
    })
  }

  function seenIn(storeId: string, { linkId, fromMs, toMs }: Span, unitMs: number) {
    const [from, to] = [Math.floor(fromMs / unitMs), Math.floor((toMs - 1) / unitMs)]
    return traffic
      .values()
      .map((one) => ({ ...one, at: Math.floor((one.hour * HOUR_MS) / unitMs) }))
      .filter((one) => one.at >= from && one.at <= to && links.get(one.linkId)?.storeId === storeId)
      .filter((one) => linkId === undefined || one.linkId === linkId)
  }

  function totalsOf(
    sold: readonly Purchase[],
    back: readonly { readonly purchase: Purchase }[],
    seen: readonly { readonly views: number; readonly challenges: number }[],
  ): Totals {
    return {
      views: seen.reduce((sum, { views }) => sum + views, 0),
      challenges: seen.reduce((sum, { challenges }) => sum + challenges, 0),
      ...salesOf(sold),
      refunds: back.length,
      refundedE18: worthOf(back.map(({ purchase }) => purchase)),
    }
  }

  const changesOf = (linkId: string, fromMs: number): SuspensionChange[] =>
    (health.get(linkId) ?? [])
      .flatMap(({ atMs, kind }) => (kind !== 'probe' && atMs >= fromMs ? [{ atMs, kind }] : []))
      .sort((a, b) => a.atMs - b.atMs)

  function daysOf(linkId: string, fromMs: number) {
    const days = new Map<number, ReturnType<typeof noChecks>>()
    const of = (day: number) => days.get(day) ?? days.set(day, noChecks()).get(day)!
    const from = Math.floor(fromMs / DAY_MS)
    for (const one of checkHours.values()) {
      const day = Math.floor((one.hour * HOUR_MS) / DAY_MS)
      if (one.linkId !== linkId || day < from) continue
      of(day).probes += one.checks
      of(day).failedProbes += one.failed
    }
    for (const one of traffic.values()) {
      const day = Math.floor((one.hour * HOUR_MS) / DAY_MS)
      if (one.linkId !== linkId || day < from || (one.calls === 0 && one.failedCalls === 0)) continue
      of(day).calls += one.calls
      of(day).failedCalls += one.failedCalls
    }
    return [...days]
      .map(([day, checks]) => ({ day, ...checks, calls: Math.max(0, checks.calls) }))
      .filter(({ probes, calls }) => probes > 0 || calls > 0)
      .sort((a, b) => a.day - b.day)
  }

  function healthFrom(linkId: string, fromMs: number): HealthFigures {
    const days = daysOf(linkId, fromMs)
    const sum = (of: (day: (typeof days)[number]) => number) => days.reduce((all, day) => all + of(day), 0)
    return {
      checks: {
        ...{ probes: sum((day) => day.probes), failedProbes: sum((day) => day.failedProbes) },
        ...{ calls: sum((day) => day.calls), failedCalls: sum((day) => day.failedCalls) },
      },
      changes: changesOf(linkId, fromMs),
    }
  }

  return {
    addTraffic: (rows) =>
      write('visible', () => {
        for (const { linkId, hour, ...counts } of rows) {
          const key = `${linkId} ${hour}`
          const turn = linkChecks.get(linkId)
          if (turn !== undefined && counts.calls > 0)
            linkChecks.set(linkId, { ...turn, queue: 'called', calledAtMs: clock.now() })
          const { views, challenges, calls, failedCalls } = traffic.get(key) ?? noTraffic
          traffic.set(key, {
            ...{ linkId, hour, views: views + counts.views, challenges: challenges + counts.challenges },
            ...{ calls: calls + counts.calls, failedCalls: failedCalls + counts.failedCalls },
          })
        }
      }),

    sumUp: async () => 0,

    totals: (storeId, span) =>
      read(() => totalsOf(salesIn(storeId, span), refundsIn(storeId, span), seenIn(storeId, span, DAY_MS))),

    series: (storeId, { bucketMs, ...span }) =>
      read(() => {
        const keyOf = (atMs: number) => Math.floor(atMs / bucketMs)
        const sold = Map.groupBy(salesIn(storeId, span), ({ createdAtMs }) => keyOf(createdAtMs))
        const back = Map.groupBy(refundsIn(storeId, span), ({ atMs }) => keyOf(atMs))
        const kept = seenIn(storeId, span, bucketMs).filter((one) => one.views > 0 || one.challenges > 0)
        const newest = Math.max(0, ...traffic.values().map(({ hour }) => hour))
        const isKept = (hour: number) => bucketMs === DAY_MS || hour >= newest - HOURS_KEPT_MS / HOUR_MS
        const seen = Map.groupBy(
          kept.filter(({ hour }) => isKept(hour)),
          ({ at }) => at,
        )
        return [...new Set([...sold.keys(), ...back.keys(), ...seen.keys()])]
          .sort((a, b) => a - b)
          .map((key) => ({
            startMs: key * bucketMs,
            ...totalsOf(sold.get(key) ?? [], back.get(key) ?? [], seen.get(key) ?? []),
          }))
      }),

    ofLinks: (storeId, linkIds, fromMs) =>
      read(() =>
        linkIds
          .filter((id) => links.get(id)?.storeId === storeId)
          .map((linkId) => {
            const fromDayMs = Math.floor(fromMs / DAY_MS) * DAY_MS
            const span = { linkId, fromMs: fromDayMs, toMs: Number.MAX_SAFE_INTEGER }
            const about = reviews.values().filter((review) => review.linkId === linkId)
            return {
              linkId,
              ...salesOf(salesIn(storeId, span)),
              reviews: { total: about.length, positive: about.filter(({ isPositive }) => isPositive).length },
              health: healthFrom(linkId, fromMs),
            }
          })
          .filter(
            ({ purchases, reviews, health: { checks, changes } }) =>
              purchases + reviews.total + checks.probes + checks.calls + changes.length > 0,
          ),
      ),

    healthOf: (linkIds, fromMs) =>
      read(() => {
        const all = linkIds.map((id) => [id, healthFrom(id, fromMs)] as const)
        return new Map(
          all.filter(([, { checks, changes }]) => checks.probes + checks.calls + changes.length > 0),
        )
      }),

    healthDays: (linkId, fromMs) =>
      read(() => ({ days: daysOf(linkId, fromMs), changes: changesOf(linkId, fromMs) })),
  }
}

const noTraffic = { views: 0, challenges: 0, calls: 0, failedCalls: 0 }
const noChecks = () => ({ probes: 0, failedProbes: 0, calls: 0, failedCalls: 0 })

const worthOf = (sold: readonly Purchase[]): bigint =>
  sold.reduce((sum, { priceUsd }) => sum + parseAmount(priceUsd, 18), 0n)

const salesOf = (sold: readonly Purchase[]): Sales => ({
  purchases: sold.length,
  buyers: new Set(sold.map(({ network, buyerWallet }) => canonical(network, buyerWallet))).size,
  revenueE18: worthOf(sold),
})

import { setTimeout as sleep } from 'node:timers/promises'
import { collectDefaultMetrics, type Metric, Registry } from 'prom-client'
import { gatewayPlugin, type RouteHooks } from '../../core/plugin/gateway.ts'
import type { Metrics } from '../../core/ports/metrics.ts'
import { options } from './options.ts'

/** Counts by the port that they are read through, so that a reload of the configuration does not set them back. */
const counts = new WeakMap<Metrics, Map<string, Series>>()

/** The process's own figures: measured once, however often the configuration is reloaded. */
let processRegistry: Promise<Registry> | undefined
/** How often the delay of the event loop is sampled: the least without any is no number that anybody could read. */
const SAMPLED_EVERY_MS = 10

/** Counts calls and their duration for Prometheus; read at `/metrics` of the operator's address. */
export default gatewayPlugin({
  name: 'metrics',
  api: 1,
  options,
  needs: ['metrics', 'clock'],
  setup({ perLink, processMetrics }, { ports: { metrics, clock } }) {
    const all = countsOf(metrics)
    const registry = new Registry()
    // The registry only calls `get` of what it is given; our own metrics read the counts when they are asked.
    for (const metric of [callsMetric(values(all)), durationMetric(values(all))]) {
      registry.registerMetric(metric as unknown as Metric)
    }

    async function exported(): Promise<Registry> {
      return processMetrics ? Registry.merge([registry, await measuredProcess()]) : registry
    }

    function hooksOf(labels: Readonly<Record<string, string>>): RouteHooks {
      const key = JSON.stringify(labels)
      const series = all.get(key) ?? new Series(labels)
      all.set(key, series)
      return {
        log(x) {
          const durationMs = clock.now() - x.startedAtMs
          // A failure that nobody was there to hear is the caller's going: anybody can have as many as he likes.
          if (x.isUnsent && x.status >= 500) series.add(0, null, durationMs)
          else series.add(x.status, x.errorCode, durationMs)
        },
      }
    }

    const ofAll = new Map<string, RouteHooks>()

    return {
      route({ link, isPaid }) {
        const paid = isPaid ? 'yes' : 'no'
        if (perLink) return hooksOf({ paid, link: `${link.username}/${link.slug}` })
        const hooks = ofAll.get(paid) ?? hooksOf({ paid })
        ofAll.set(paid, hooks)
        return hooks
      },
      start() {
        metrics.register({
          contentType: registry.contentType,
          text: async () => (await exported()).metrics(),
        })
      },
    }
  },
})

function countsOf(metrics: Metrics): Map<string, Series> {
  let all = counts.get(metrics)
  if (all === undefined) counts.set(metrics, (all = new Map()))
  return all
}

/** From the first look at them on: a timer for the delay of the loop wakes an idle process 100 times a second. */
function measuredProcess(): Promise<Registry> {
  return (processRegistry ??= (async () => {
    const register = new Registry()
    collectDefaultMetrics({ register, eventLoopMonitoringPrecision: SAMPLED_EVERY_MS })
    // One after the other: in each turn of a busy loop one sample is taken, and the first one of all is only a beginning.
    for (let sample = 0; sample < 3; sample++) await sleep(SAMPLED_EVERY_MS)
    return register
  })())
}

/** The map's values as they are whenever they are read. */
const values = (all: ReadonlyMap<string, Series>): Iterable<Series> => ({
  [Symbol.iterator]: () => all.values(),
})

/** Upper bounds of the duration buckets, in milliseconds. */
export const bucketsMs = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000] as const

/**
 * The counts of one kind of call. Adding is a few array operations: a prom-client observation would be the dearest part
 * of a free call (bench/plugins.ts).
 */
export class Series {
  readonly labels: Readonly<Record<string, string>>
  /** Calls that were answered without an error code, by status. */
  readonly byStatus: number[] = new Array(1_000).fill(0)
  /** Calls that ended with an error code: `<status> <code>` → count. */
  readonly byCode = new Map<string, number>()
  /** Calls per bucket, not cumulative; the last is beyond every bound. */
  readonly buckets: number[] = new Array(bucketsMs.length + 1).fill(0)
  sumMs = 0
  count = 0

  constructor(labels: Readonly<Record<string, string>>) {
    this.labels = labels
  }

  add(status: number, code: string | null, durationMs: number): void {
    if (code === null) this.byStatus[status]!++
    else this.byCode.set(`${status} ${code}`, (this.byCode.get(`${status} ${code}`) ?? 0) + 1)
    let at = 0
    while (at < bucketsMs.length && durationMs > bucketsMs[at]!) at++
    this.buckets[at]!++
    this.sumMs += durationMs
    this.count++
  }
}

/** One sample as prom-client writes it. */
interface Sample {
  readonly value: number
  readonly labels: Readonly<Record<string, string | number>>
  readonly metricName?: string
}

/** A metric that prom-client's registry reads when it is asked: its own `get`, no copies kept. */
export interface LazyMetric {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'histogram'
  readonly aggregator: 'sum'
  get(): Promise<{ name: string; help: string; type: string; aggregator: string; values: Sample[] }>
}

export function callsMetric(all: Iterable<Series>): LazyMetric {
  return lazy('tollgate_calls_total', 'Calls of links, by status and error code.', 'counter', () => {
    const values: Sample[] = []
    for (const { labels, byStatus, byCode } of all) {
      byStatus.forEach((value, status) => {
        if (value > 0) values.push({ value, labels: { ...labels, status, code: '' } })
      })
      for (const [key, value] of byCode) {
        const [status, code] = key.split(' ') as [string, string]
        values.push({ value, labels: { ...labels, status, code } })
      }
    }
    return values
  })
}

export function durationMetric(all: Iterable<Series>): LazyMetric {
  const name = 'tollgate_call_duration_seconds'
  return lazy(name, 'From the head of a call to the end of its answer.', 'histogram', () => {
    const values: Sample[] = []
    for (const { labels, buckets, sumMs, count } of all) {
      let below = 0
      buckets.forEach((inBucket, at) => {
        below += inBucket
        const le = at < bucketsMs.length ? bucketsMs[at]! / 1000 : '+Inf'
        values.push({ value: below, labels: { ...labels, le }, metricName: `${name}_bucket` })
      })
      values.push({ value: sumMs / 1000, labels, metricName: `${name}_sum` })
      values.push({ value: count, labels, metricName: `${name}_count` })
    }
    return values
  })
}

function lazy(name: string, help: string, type: LazyMetric['type'], read: () => Sample[]): LazyMetric {
  const aggregator = 'sum'
  return { name, help, type, aggregator, get: async () => ({ name, help, type, aggregator, values: read() }) }
}

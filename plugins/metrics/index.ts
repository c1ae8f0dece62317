import { setTimeout as sleep } from 'node:timers/promises'
import { collectDefaultMetrics, type Metric, Registry } from 'prom-client'
import type { CallOutcome, Exchange, UpstreamOutcome } from '../../core/plugin/exchange.ts'
import { gatewayPlugin, type RouteHooks } from '../../core/plugin/gateway.ts'
import type { OptionsSchema } from '../../core/plugin/options.ts'
import type { Metrics } from '../../core/ports/metrics.ts'

const options = {
  type: 'object',
  additionalProperties: false,
  examples: [{ perLink: true }],
  properties: {
    perLink: {
      type: 'boolean',
      default: false,
      description:
        'Whether the metrics of calls also have the label `link`. Each link then needs memory, so leave this option off if you have thousands of links.',
    },
    processMetrics: {
      type: 'boolean',
      default: true,
      description:
        'Whether `/metrics` also contains CPU time, memory and event loop delay of the process. The gateway starts to measure them at the first request to `/metrics`.',
    },
  },
} as const satisfies OptionsSchema

/** Counts by the `Metrics` port that reads them. The port outlives a reload of the configuration, so the counts do too. */
const counts = new WeakMap<Metrics, Map<string, Series>>()

/** The process's own metrics. They are set up once for the process, because a reload must not set them up again. */
let processRegistry: Promise<Registry> | undefined
/** Interval at which the delay of the event loop is sampled, in ms. Before the first sample, the minimum is not a valid number. */
const SAMPLED_EVERY_MS = 10

/** Counts calls and their duration for Prometheus, which scrapes them at `/metrics` of the operator's address. */
export default gatewayPlugin({
  name: 'metrics',
  api: 1,
  options,
  needs: ['metrics', 'clock'],
  setup({ perLink, processMetrics }, { ports: { metrics, clock } }) {
    const all = countsOf(metrics)
    const registry = new Registry()
    // The registry calls only `get`, and these metrics read the counts at that time.
    for (const metric of [callsMetric, durationMetric, sellerMetric].map((make) => make(values(all)))) {
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
          series.add(x, clock.now() - x.startedAtMs)
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

/**
 * Sets up the process's metrics at the first scrape. Without a scrape they would cost too much, because sampling the event loop
 * wakes an idle process 100 times a second.
 */
function measuredProcess(): Promise<Registry> {
  return (processRegistry ??= (async () => {
    const register = new Registry()
    collectDefaultMetrics({ register, eventLoopMonitoringPrecision: SAMPLED_EVERY_MS })
    // Waits several times, because a turn of a busy loop takes only one sample, and the first sample only starts the measurement.
    for (let sample = 0; sample < 3; sample++) await sleep(SAMPLED_EVERY_MS)
    return register
  })())
}

/** The map's values at the time of each iteration. */
const values = (all: ReadonlyMap<string, Series>): Iterable<Series> => ({
  [Symbol.iterator]: () => all.values(),
})

/** Upper bounds of the duration buckets, in ms. */
const bucketsMs = [
  ...[1, 2.5, 5, 10, 25, 50, 100, 250, 500],
  ...[1_000, 2_500, 5_000, 10_000, 30_000, 60_000],
] as const

/** A histogram of durations. */
class Durations {
  /** Counts per bucket, not cumulative. The last bucket counts durations above the highest bound. */
  readonly buckets: number[] = new Array(bucketsMs.length + 1).fill(0)
  sumMs = 0
  count = 0

  add(ms: number): void {
    let at = 0
    while (at < bucketsMs.length && ms > bucketsMs[at]!) at++
    this.buckets[at]!++
    this.sumMs += ms
    this.count++
  }
}

/**
 * The counts of one kind of call. Adding is a few array operations, because an observation of prom-client would be the most
 * expensive part of a free call (bench/steps.ts).
 */
class Series {
  readonly labels: Readonly<Record<string, string>>
  /** Calls that ended without an error code, by status. */
  readonly byStatus: number[] = new Array(1_000).fill(0)
  /** Calls that ended with an error code, by `<status> <code>`. */
  readonly byCode = new Map<string, number>()
  readonly byOutcome = new Map<CallOutcome, Durations>()
  /** Durations of sellers' APIs. */
  readonly bySeller = new Map<UpstreamOutcome, Durations>()

  constructor(labels: Readonly<Record<string, string>>) {
    this.labels = labels
  }

  add(x: Exchange, durationMs: number): void {
    const { outcome, upstreamOutcome, errorCode, status } = x
    // If the caller had disconnected, a failure counts as `left` without its code, because a caller can cause any number of such
    // failures.
    if (outcome === 'left') this.#count(0, null)
    else this.#count(status, errorCode)
    durationsOf(this.byOutcome, outcome).add(durationMs)
    if (upstreamOutcome !== null && x.sellerMs >= 0)
      durationsOf(this.bySeller, upstreamOutcome).add(x.sellerMs)
  }

  #count(status: number, code: string | null): void {
    if (code === null) this.byStatus[status]!++
    else this.byCode.set(`${status} ${code}`, (this.byCode.get(`${status} ${code}`) ?? 0) + 1)
  }
}

function durationsOf<K>(all: Map<K, Durations>, key: K): Durations {
  let durations = all.get(key)
  if (durations === undefined) all.set(key, (durations = new Durations()))
  return durations
}

/** One sample as prom-client writes it. */
interface Sample {
  readonly value: number
  readonly labels: Readonly<Record<string, string | number>>
  readonly metricName?: string
}

/** A metric with its own `get`, which prom-client's registry calls at a scrape. It keeps no copies of the counts. */
interface LazyMetric {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'histogram'
  readonly aggregator: 'sum'
  get(): Promise<{ name: string; help: string; type: string; aggregator: string; values: Sample[] }>
}

function callsMetric(all: Iterable<Series>): LazyMetric {
  return lazy(
    'tollgate_calls_total',
    'Number of calls of links, by status and error code.',
    'counter',
    () => {
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
    },
  )
}

const durationMetric = (all: Iterable<Series>): LazyMetric =>
  histogram(
    'tollgate_call_duration_seconds',
    'Time from the request headers of a call to the end of its response, in seconds.',
    all,
    ({ byOutcome }) => byOutcome,
  )

const sellerMetric = (all: Iterable<Series>): LazyMetric =>
  histogram(
    'tollgate_seller_duration_seconds',
    "Time from a request to a seller's API to the end of the API's response, in seconds.",
    all,
    ({ bySeller }) => bySeller,
  )

function histogram(
  name: string,
  help: string,
  all: Iterable<Series>,
  durationsOfSeries: (series: Series) => ReadonlyMap<string, Durations>,
): LazyMetric {
  return lazy(name, help, 'histogram', () => {
    const values: Sample[] = []
    for (const series of all) {
      for (const [outcome, { buckets, sumMs, count }] of durationsOfSeries(series)) {
        const labels = { ...series.labels, outcome }
        let below = 0
        buckets.forEach((inBucket, at) => {
          below += inBucket
          const le = at < bucketsMs.length ? bucketsMs[at]! / 1000 : '+Inf'
          values.push({ value: below, labels: { ...labels, le }, metricName: `${name}_bucket` })
        })
        values.push({ value: sumMs / 1000, labels, metricName: `${name}_sum` })
        values.push({ value: count, labels, metricName: `${name}_count` })
      }
    }
    return values
  })
}

function lazy(name: string, help: string, type: LazyMetric['type'], read: () => Sample[]): LazyMetric {
  const aggregator = 'sum'
  return { name, help, type, aggregator, get: async () => ({ name, help, type, aggregator, values: read() }) }
}

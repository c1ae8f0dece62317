import type { CallOutcome, Exchange, UpstreamOutcome } from '../../core/plugin/exchange.ts'

/** Upper bounds of the duration buckets, in milliseconds. */
export const bucketsMs = [
  ...[1, 2.5, 5, 10, 25, 50, 100, 250, 500],
  ...[1_000, 2_500, 5_000, 10_000, 30_000, 60_000],
] as const

/** A histogram of durations. */
class Durations {
  /** Per bucket, not cumulative; the last is beyond every bound. */
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
 * The counts of one kind of call. Adding is a few array operations: a prom-client observation would be the most expensive part
 * of a free call (bench/plugins.ts).
 */
export class Series {
  readonly labels: Readonly<Record<string, string>>
  /** Calls that were answered without an error code, by status. */
  readonly byStatus: number[] = new Array(1_000).fill(0)
  /** Calls that ended with an error code: `<status> <code>` → count. */
  readonly byCode = new Map<string, number>()
  readonly byOutcome = new Map<CallOutcome, Durations>()
  /** What sellers took. */
  readonly bySeller = new Map<UpstreamOutcome, Durations>()

  constructor(labels: Readonly<Record<string, string>>) {
    this.labels = labels
  }

  add(x: Exchange, durationMs: number): void {
    const { outcome, upstreamOutcome, errorCode, status } = x
    // A failure that no caller was there to get counts as the caller's leaving: a caller can make any number of those.
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

/** A metric that prom-client's registry reads when it is scraped: its own `get`, no copies kept. */
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

export const durationMetric = (all: Iterable<Series>): LazyMetric =>
  histogram(
    'tollgate_call_duration_seconds',
    'From the head of a call to the end of its answer, by outcome.',
    all,
    ({ byOutcome }) => byOutcome,
  )

export const sellerMetric = (all: Iterable<Series>): LazyMetric =>
  histogram(
    'tollgate_seller_duration_seconds',
    "From a request to a seller's API to the end of its answer, by outcome.",
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

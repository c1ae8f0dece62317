import { bucketsMs, type Series } from './series.ts'

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

import { Counter, Gauge, Histogram, type Metric, Registry } from 'prom-client'
import {
  MAX_SERIES,
  type MetricDefinition,
  type MetricLabels,
  type Metrics,
  type MetricsSource,
} from '../../core/ports/metrics.ts'

/** The gateway's own metrics, in addition to those that plugins define. */
export interface OwnMetrics {
  readonly metrics: Metrics
  /** Records that a settlement has ended for now. A `pending` settlement is settled later. */
  settled(network: string, outcome: string, ms: number): void
}

const nameForm = /^[a-z][a-z0-9_]{0,127}$/
const labelForm = /^[a-z][a-z0-9_]{0,63}$/
/** Maximum number of characters in a label value. Longer values are cut. */
const MAX_VALUE_CHARS = 128
/** Upper bounds of the buckets, in seconds. A settlement takes a few blocks at most, and a facilitator may take half a minute. */
const settlementBuckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40]

/** The metrics of one process, by prom-client. */
export function createMetrics(): OwnMetrics {
  const registry = new Registry()
  const defined = new Map<string, { readonly key: string; readonly metric: Metric }>()
  const settlements = new Histogram({
    name: 'tollgate_settlement_duration_seconds',
    help: 'How long the settlement of a payment took, in seconds.',
    labelNames: ['network', 'outcome'],
    buckets: settlementBuckets,
    registers: [registry],
  })
  let source: MetricsSource | undefined

  /** @param make creates the metric if no metric of this definition exists */
  function define<M extends Metric>(
    kind: string,
    definition: MetricDefinition & { readonly buckets?: readonly number[] },
    make: (common: { name: string; help: string; labelNames: string[]; registers: Registry[] }) => M,
  ): M {
    const { name, help, labels = [], buckets = [] } = definition
    assertDefinition(definition)
    const key = JSON.stringify([kind, help, labels, buckets])
    const before = defined.get(name)
    if (before !== undefined && before.key !== key)
      throw new Error(
        `Expected metric ${name} to be defined as before. To change the metric, restart the gateway.`,
      )
    if (before !== undefined) return before.metric as M
    const metric = make({ name, help, labelNames: [...labels], registers: [registry] })
    defined.set(name, { key, metric: metric as Metric })
    return metric
  }

  return {
    settled: (network, outcome, ms) => settlements.observe({ network, outcome }, ms / 1_000),
    metrics: {
      counter(definition) {
        const metric = define('counter', definition, (common) => new Counter(common))
        const bounded = boundedLabels(definition)
        return { inc: (labels, by = 1) => metric.inc(bounded(labels), by) }
      },
      gauge(definition) {
        const metric = define('gauge', definition, (common) => new Gauge(common))
        const bounded = boundedLabels(definition)
        return { set: (value, labels) => metric.set(bounded(labels), value) }
      },
      histogram(definition) {
        const buckets = [...definition.buckets]
        const metric = define('histogram', definition, (common) => new Histogram({ ...common, buckets }))
        const bounded = boundedLabels(definition)
        return { observe: (value, labels) => metric.observe(bounded(labels), value) }
      },
      register(next) {
        source = next
      },
      get source() {
        if (source === undefined) return undefined
        const { contentType, text } = source
        return {
          contentType,
          text: async () => `${(await text()).replace(/\n?$/, '\n')}${await registry.metrics()}`,
        }
      },
    },
  }
}

/** Checks the labels against the metric's declaration, and limits the number of its series. */
function boundedLabels({
  labels: names = [],
}: MetricDefinition): (given?: MetricLabels) => Record<string, string> {
  const seen = new Set<string>()
  const others = Object.fromEntries(names.map((name) => [name, 'other']))
  return (given = {}) => {
    const values = names.map((name) => String(given[name] ?? '').slice(0, MAX_VALUE_CHARS))
    const key = values.join('\n')
    if (!seen.has(key)) {
      if (seen.size === MAX_SERIES) return others
      seen.add(key)
    }
    return Object.fromEntries(names.map((name, i) => [name, values[i]!]))
  }
}

function assertDefinition({ name, help, labels = [] }: MetricDefinition): void {
  if (!nameForm.test(name))
    throw new Error(
      `Expected the name of a metric to be lower case letters, digits and _, got ${JSON.stringify(name)}.`,
    )
  if (/^(tollgate|process|nodejs)_/.test(name))
    throw new Error(`Expected a metric named after its plugin; ${name} begins like the service's own.`)
  if (help.trim() === '') throw new Error(`Expected metric ${name} to have a help text.`)
  const bad = labels.find((label) => !labelForm.test(label) || label === 'process' || label === 'le')
  if (bad !== undefined)
    throw new Error(
      `Expected labels of metric ${name} to be lower case words other than process and le, got ${bad}.`,
    )
}

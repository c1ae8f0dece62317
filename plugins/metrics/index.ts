import { collectDefaultMetrics, type Metric, Registry } from 'prom-client'
import { gatewayPlugin } from '../../core/plugin/gateway.ts'
import type { Metrics } from '../../core/ports/metrics.ts'
import { callsMetric, durationMetric } from './export.ts'
import { options } from './options.ts'
import { Series } from './series.ts'

/** Counts by the port that they are read through, so that a reload of the configuration does not set them back. */
const counts = new WeakMap<Metrics, Map<string, Series>>()

/** The process's own figures: measured once, however often the configuration is reloaded. */
let processRegistry: Registry | undefined

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
    const own = processMetrics ? measureProcess() : undefined
    const exported = own === undefined ? registry : Registry.merge([registry, own])

    function seriesOf(labels: Readonly<Record<string, string>>): Series {
      const key = JSON.stringify(labels)
      let series = all.get(key)
      if (series === undefined) all.set(key, (series = new Series(labels)))
      return series
    }

    return {
      route({ link, isPaid }) {
        const paid = isPaid ? 'yes' : 'no'
        const series = seriesOf(perLink ? { paid, link: `${link.username}/${link.slug}` } : { paid })
        return { log: (x) => series.add(x.status, x.errorCode, clock.now() - x.startedAtMs) }
      },
      start() {
        metrics.register({ contentType: exported.contentType, text: () => exported.metrics() })
      },
    }
  },
})

function countsOf(metrics: Metrics): Map<string, Series> {
  let all = counts.get(metrics)
  if (all === undefined) counts.set(metrics, (all = new Map()))
  return all
}

function measureProcess(): Registry {
  if (processRegistry === undefined) collectDefaultMetrics({ register: (processRegistry = new Registry()) })
  return processRegistry
}

/** The map's values as they are whenever they are read. */
const values = (all: ReadonlyMap<string, Series>): Iterable<Series> => ({
  [Symbol.iterator]: () => all.values(),
})

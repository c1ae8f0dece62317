import { setTimeout as sleep } from 'node:timers/promises'
import { collectDefaultMetrics, type Metric, Registry } from 'prom-client'
import { gatewayPlugin, type RouteHooks } from '../../core/plugin/gateway.ts'
import type { Metrics } from '../../core/ports/metrics.ts'
import { options } from './options.ts'
import { callsMetric, durationMetric, Series, sellerMetric } from './series.ts'

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

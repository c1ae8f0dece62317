/** What the metrics plugin offers to the listener that serves `/metrics`. */
export interface MetricsSource {
  readonly contentType: string
  text(): Promise<string>
}

/** What a metric is. Its labels are few, and their values are few as well: no ids, no addresses, no text of callers. */
export interface MetricDefinition {
  /** Lower case, with a unit: `my_plugin_lookups_total`, `my_plugin_lookup_seconds`. Names that begin with `tollgate_` are the service's. */
  readonly name: string
  /** One sentence for operators. */
  readonly help: string
  readonly labels?: readonly string[]
}

/** Values by the names of {@link MetricDefinition.labels}; one that is missing is empty, others are left out. */
export type MetricLabels = Readonly<Record<string, string>>

export interface Counter {
  /** @param by 1 by default; not below 0 */
  inc(labels?: MetricLabels, by?: number): void
}

export interface Gauge {
  set(value: number, labels?: MetricLabels): void
}

export interface Histogram {
  observe(value: number, labels?: MetricLabels): void
}

/**
 * The metrics of this process. They are exported where the plugin `metrics` is configured, and cost their counting otherwise.
 *
 * A metric that is defined again in the same way is the same metric, so that a reload keeps its counts. Another definition of the same name
 * throws. A metric has at most {@link MAX_SERIES} combinations of label values: what comes beyond is counted with the value `other`.
 */
export interface Metrics {
  counter(definition: MetricDefinition): Counter
  gauge(definition: MetricDefinition): Gauge
  /** @param definition `buckets`: upper bounds, ascending, in the unit of the name */
  histogram(definition: MetricDefinition & { readonly buckets: readonly number[] }): Histogram
  /** The last registered source is the one that is served, with the metrics that were defined here behind it. */
  register(source: MetricsSource): void
  readonly source: MetricsSource | undefined
}

/** Combinations of label values of one metric. */
export const MAX_SERIES = 1_000

/** The source of the text that the gateway serves at `/metrics`. The metrics plugin registers it. */
export interface MetricsSource {
  readonly contentType: string
  text(): Promise<string>
}

/** Defines a metric. Use few labels with few values each. Never use an id, an address or a text of callers as a value. */
export interface MetricDefinition {
  /**
   * Name in lower case with a unit, such as `my_plugin_lookups_total` or `my_plugin_lookup_seconds`. The prefix `tollgate_` is
   * reserved for the gateway.
   */
  readonly name: string
  /** One sentence that explains the metric to operators. */
  readonly help: string
  readonly labels?: readonly string[]
}

/**
 * Label values by the names in {@link MetricDefinition.labels}. A missing label is empty, and an unknown
 * label is ignored.
 */
export type MetricLabels = Readonly<Record<string, string>>

export interface Counter {
  /** @param by increment, at least 0. 1 if absent */
  inc(labels?: MetricLabels, by?: number): void
}

export interface Gauge {
  set(value: number, labels?: MetricLabels): void
}

export interface Histogram {
  observe(value: number, labels?: MetricLabels): void
}

/**
 * The metrics of this process. They are exported only if the plugin `metrics` is configured.
 *
 * A metric that is defined again in the same way is the same metric, so that a reload keeps its counts. A different definition with
 * the same name throws. A metric has at most {@link MAX_SERIES} combinations of label values, and further combinations count for
 * the value `other`.
 */
export interface Metrics {
  counter(definition: MetricDefinition): Counter
  gauge(definition: MetricDefinition): Gauge
  /** @param definition `buckets` are the upper bounds, ascending, in the unit of the name */
  histogram(definition: MetricDefinition & { readonly buckets: readonly number[] }): Histogram
  /** Registers a source. The gateway serves the source that was registered last, followed by the metrics that were defined here. */
  register(source: MetricsSource): void
  readonly source: MetricsSource | undefined
}

/** Maximum combinations of label values of one metric. Further combinations count for the value `other`. */
export const MAX_SERIES = 1_000

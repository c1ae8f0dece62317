/** What the metrics plugin offers to whoever serves `/metrics`. */
export interface MetricsSource {
  readonly contentType: string
  text(): Promise<string>
}

export interface Metrics {
  /** The last registered source is the one that is served. */
  register(source: MetricsSource): void
  readonly source: MetricsSource | undefined
}

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

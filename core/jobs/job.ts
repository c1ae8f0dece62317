import type { Log } from '../ports/log.ts'

/**
 * Pause before a job runs again, in ms. 0 if there is more to do now. It is an object, so that a count cannot be mistaken for a
 * pause.
 */
export interface NextRun {
  readonly inMs: number
}

export interface JobOptions {
  /** What the job does, for the operator and the log, such as `expire payment sessions`. */
  readonly name: string
  /** Pause from the end of one run to the start of the next, in ms. The job shortens it by at most {@link JITTER} at random. */
  readonly everyMs: number
  /** True if the first run starts at once instead of after `everyMs`. */
  readonly startsNow?: boolean
  /** Minimum time between two runs if {@link Job.runNow} requests the second one, in ms. 0 if absent. */
  readonly minGapMs?: number
  readonly log: Log
  /**
   * One run. If a run fails, the job logs the error and runs again after `everyMs`.
   *
   * @param signal aborts when the job is stopped
   * @returns when the next run starts, if not after `everyMs`
   */
  run(signal: AbortSignal): void | NextRun | undefined | Promise<void | NextRun | undefined>
}

/**
 * Maximum share of each pause that is left out at random, so that processes that started together do not query the database at the
 * same time.
 */
const JITTER = 0.1

/** The jobs of this process that have not been stopped. */
export const runningJobs = new Set<Job>()

export const startJob = (options: JobOptions): Job => new Job(options)

/** Work that is repeated while the process runs, with one run at a time. It does not keep the process alive. */
export class Job {
  readonly name: string
  /** When the job was started, by the wall clock, in ms since 1970. */
  readonly startedAtMs = Date.now()
  /** When the last run started, by the wall clock, in ms since 1970. */
  lastRunAtMs: number | undefined
  /** When the last run without an error ended, by the wall clock, in ms since 1970. */
  lastSuccessAtMs: number | undefined
  lastDurationMs: number | undefined
  /** The error of the last run. Undefined if that run succeeded. */
  lastError: string | undefined
  readonly #options: JobOptions
  readonly #stopped = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #soon: NodeJS.Immediate | undefined
  #running: Promise<void> | undefined
  /** Resolves at the end of the next run, for callers of `runNow`. */
  #requested: PromiseWithResolvers<void> | undefined
  /** Start of the current run by `performance.now()`. Undefined if no run is in progress. */
  #runSinceMs: number | undefined
  /** End of the last run by `performance.now()`. */
  #endedAtMs = Number.NEGATIVE_INFINITY

  constructor(options: JobOptions) {
    this.name = options.name
    this.#options = options
    runningJobs.add(this)
    if (options.startsNow) this.#start()
    else this.#startIn(options.everyMs)
  }

  /** Duration of the current run so far, in ms. Undefined if no run is in progress. */
  get runningMs(): number | undefined {
    return this.#runSinceMs === undefined ? undefined : performance.now() - this.#runSinceMs
  }

  /** Starts a run now, or after the current run. @returns a promise that resolves at the end of that run, and never rejects */
  runNow(): Promise<void> {
    if (this.#stopped.signal.aborted) return Promise.resolve()
    this.#requested ??= Promise.withResolvers<void>()
    const { promise } = this.#requested
    if (this.#running === undefined) this.#startAfterGap()
    return promise
  }

  /** Ends the job, and waits for the current run. */
  async stop(): Promise<void> {
    this.#stopped.abort()
    clearTimeout(this.#timer)
    clearImmediate(this.#soon)
    runningJobs.delete(this)
    await this.#running
    this.#requested?.resolve()
  }

  #startIn(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#start(), ms * (1 - JITTER * Math.random())).unref()
  }

  /**
   * Starts the run in the next turn of the event loop. Otherwise runs without asynchronous I/O, such as a read of SQLite, would
   * follow each other without a turn for anything else.
   */
  #startSoon(): void {
    this.#soon = setImmediate(() => this.#start()).unref()
  }

  #startAfterGap(): void {
    const waitMs = this.#endedAtMs + (this.#options.minGapMs ?? 0) - performance.now()
    if (waitMs > 0) this.#startIn(waitMs)
    else this.#start()
  }

  #start(): void {
    clearTimeout(this.#timer)
    clearImmediate(this.#soon)
    const requested = this.#requested
    this.#requested = undefined
    this.#running = this.#run().then((nextMs) => {
      this.#running = undefined
      this.#endedAtMs = performance.now()
      requested?.resolve()
      if (this.#stopped.signal.aborted) return
      if (this.#requested !== undefined) this.#startAfterGap()
      else if (nextMs > 0) this.#startIn(nextMs)
      else this.#startSoon()
    })
  }

  /** @returns ms until the next run */
  async #run(): Promise<number> {
    const { name, everyMs, log, run } = this.#options
    const { signal } = this.#stopped
    const startMs = (this.#runSinceMs = performance.now())
    this.lastRunAtMs = Date.now()
    try {
      const next = await run(signal)
      if (this.lastError !== undefined)
        log.info({ event: 'job_recovered', job: name }, `${name}: works again`)
      this.lastError = undefined
      this.lastSuccessAtMs = Date.now()
      return next?.inMs ?? everyMs
    } catch (err) {
      // Only the first failure is logged until the job succeeds again, because a job that fails every second usually fails for the
      // same reason.
      if (this.lastError === undefined && !signal.aborted)
        log.warn({ event: 'job_failed', job: name, err }, `${name}: failed; trying again`)
      this.lastError = err instanceof Error ? err.message : String(err)
      return everyMs
    } finally {
      this.#runSinceMs = undefined
      this.lastDurationMs = Math.round(performance.now() - startMs)
    }
  }
}

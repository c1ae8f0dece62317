/** So much the server's clock may seem to run fast or slow from one look to the next: answers come late, and a clock is put right by moments. */
const STEP_MS = 3_000
/** Whoever lives has renewed its leases by then. */
const RENEWED_MS = 5_000

/**
 * The server's clock, held against this machine's monotonic one. Where it was set forward or back, or a standby with another one has taken
 * over, leases of living processes look as if they were over, until each has renewed its own.
 */
export interface ServerClock {
  /**
   * The server has said its time.
   *
   * @param nowMs its clock
   * @param askedAtMs when it was asked, by this machine's clock
   */
  heard(nowMs: number, askedAtMs: number): void
  /** What the server's clock says now; undefined while leases can't be judged by it: it was set lately, or not looked at for long enough. */
  readonly window: ClockWindow | undefined
}

export interface ClockWindow {
  readonly fromMs: number
  readonly toMs: number
}

/** No time is in it: for statements that judge no lease while there is no {@link ServerClock.window}. */
export const never: ClockWindow = { fromMs: 1, toMs: 0 }

/** @param machineNowMs this machine's monotonic clock */
export function createServerClock(machineNowMs: () => number): ServerClock {
  /** How far the server is ahead of this machine: as far as the first at least, and as the second at most. */
  let [least, most] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]
  let steadyFromMs = Number.POSITIVE_INFINITY
  return {
    heard(nowMs, askedAtMs) {
      const heardAtMs = machineNowMs()
      const [low, high] = [nowMs - heardAtMs, nowMs - askedAtMs]
      const isFirst = most === Number.POSITIVE_INFINITY
      if (isFirst || low > most + STEP_MS || high < least - STEP_MS) steadyFromMs = heardAtMs + RENEWED_MS
      ;[least, most] = [low, high]
    },
    get window() {
      const nowMs = machineNowMs()
      if (nowMs < steadyFromMs) return undefined
      return { fromMs: Math.floor(nowMs + least - STEP_MS), toMs: Math.ceil(nowMs + most + STEP_MS) }
    },
  }
}

/** Time, so that tests and the simulator can turn it. */
export interface Clock {
  /** Milliseconds, since 1970 where nothing else is said. */
  now(): number
}

export const systemClock: Clock = { now: () => Date.now() }

/** Milliseconds since the machine started: the same in all its processes, and nobody sets it. Counts from 0 after a reboot. */
export const machineClock: Clock = { now: () => Math.floor(Number(process.hrtime.bigint()) / 1e6) }

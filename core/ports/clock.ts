/** The current time. Tests and the simulator replace it. */
export interface Clock {
  /** The time in ms, since 1970 unless stated otherwise. */
  now(): number
}

export const systemClock: Clock = { now: () => Date.now() }

/**
 * Milliseconds since the machine started. All processes of the machine get the same time, and setting the clock does not change it.
 * A reboot resets it to 0.
 */
export const machineClock: Clock = { now: () => Math.floor(Number(process.hrtime.bigint()) / 1e6) }

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** When an event is tried, counted from its first try. */
export const TRIES_AT_MS: readonly number[] = [
  0,
  5 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
]

/** Part of a wait that is added to it at most, so that what failed together is not tried together. */
const JITTER = 0.1

/**
 * How long to wait for the next try.
 *
 * @param tries that are over, 1 or more
 * @param random from 0 to 1
 * @returns undefined when that was the last one
 */
export function nextTryInMs(tries: number, random: number): number | undefined {
  const [last, next] = [TRIES_AT_MS[tries - 1], TRIES_AT_MS[tries]]
  if (last === undefined || next === undefined) return undefined
  return Math.round((next - last) * (1 + JITTER * random))
}

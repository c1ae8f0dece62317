/** The middle of the values; of an even number, the mean of the two in the middle. @throws when there are none. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new Error('Expected values to take the median of, got none.')
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** The value that so many percent of the values do not exceed. @throws when there are none. */
export function percentile(values: readonly number[], percent: number): number {
  if (values.length === 0) throw new Error('Expected values to take a percentile of, got none.')
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.ceil((percent / 100) * sorted.length) - 1]!
}

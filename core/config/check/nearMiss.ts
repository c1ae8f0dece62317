/**
 * The candidate that the author of a misspelled word probably meant. At most a third of the letters may be wrong, where a missing,
 * extra, changed or swapped letter counts as one, and case does not count. Undefined if no candidate is that close.
 *
 * @example nearMiss('windwMs', ['points', 'windowMs']) // 'windowMs'
 */
export function nearMiss(word: string, candidates: readonly string[]): string | undefined {
  if (word.length > 100) return undefined
  let best: string | undefined
  let bestDistance = Number.POSITIVE_INFINITY
  for (const candidate of candidates) {
    const far = distance(word.toLowerCase(), candidate.toLowerCase())
    const allowed = Math.max(1, Math.floor(Math.max(word.length, candidate.length) / 3))
    if (far <= allowed && far < bestDistance && far < candidate.length) {
      best = candidate
      bestDistance = far
    }
  }
  return best
}

/** Damerau-Levenshtein distance in its restricted form (optimal string alignment). */
export function distance(a: string, b: string): number {
  let beforePrevious: number[] = []
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const current = [i]
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1
      let least = Math.min(previous[j]! + 1, current[j - 1]! + 1, previous[j - 1]! + cost)
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (isSwap) least = Math.min(least, beforePrevious[j - 2]! + 1)
      current.push(least)
    }
    beforePrevious = previous
    previous = current
  }
  return previous[b.length]!
}

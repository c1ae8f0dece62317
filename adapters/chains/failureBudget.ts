import { LRUCache } from 'lru-cache'
import type { Clock } from '../../core/ports/clock.ts'

export interface FailureBudgetOptions {
  /** Failures that one payer may cause in the window. */
  readonly failures: number
  readonly windowMs: number
  readonly clock: Clock
}

/** Counts what a payer's bad payments cost us on chain, and says when it was enough. Kept in this process only. */
export interface FailureBudget {
  isSpent(payer: string): boolean
  note(payer: string): void
}

export function createFailureBudget({ failures, windowMs, clock }: FailureBudgetOptions): FailureBudget {
  const seen = new LRUCache<string, { count: number; sinceMs: number }>({ max: 10_000 })
  const current = (payer: string) => {
    const entry = seen.get(payer)
    return entry !== undefined && clock.now() - entry.sinceMs < windowMs ? entry : undefined
  }
  return {
    // The map is empty on a healthy gateway, so that this costs a look at its size.
    isSpent: (payer) => seen.size > 0 && (current(payer)?.count ?? 0) >= failures,
    note(payer) {
      const entry = current(payer)
      if (entry !== undefined) entry.count++
      else seen.set(payer, { count: 1, sinceMs: clock.now() })
    },
  }
}

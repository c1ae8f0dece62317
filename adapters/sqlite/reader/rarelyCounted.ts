import { LRUCache } from 'lru-cache'
import type { Clock } from '../../../core/ports/clock.ts'
import type { Figures, Sales, Span } from '../../../core/ports/store/figures.ts'

/** Sales that are counted in 1 ms, as in discovery.ts: the figures of a million are counted again after 100 s. */
const COUNTED_PER_MS = 10
/** Fewer than these are counted whenever somebody asks. */
const MANY_SALES = 1_000
const MAX_KEPT = 500
const MINUTE_MS = 60_000

/** Those that may have to look at every sale of a span. */
export type Counted = Pick<Figures, 'totals' | 'series'>

/**
 * Figures of many sales are kept for as long as they are worth, so that one seller's page keeps no other's waiting; whoever asks
 * for the same at once waits for one answer. Spans that begin in the same minute are the same.
 */
export function rarelyCounted(figures: Counted, clock: Clock): Counted {
  const kept = new LRUCache<string, object>({ max: MAX_KEPT, ttl: 1, ttlResolution: 0, perf: clock })
  const underWay = new Map<string, Promise<unknown>>()

  async function of<T extends object>(
    key: string,
    read: () => Promise<T>,
    salesIn: (answer: T) => number,
  ): Promise<T> {
    const found = kept.get(key) ?? underWay.get(key)
    if (found !== undefined) return found as T | Promise<T>
    const reading = read().finally(() => underWay.delete(key))
    underWay.set(key, reading)
    const answer = await reading
    const sales = salesIn(answer)
    if (sales >= MANY_SALES) kept.set(key, answer, { ttl: sales / COUNTED_PER_MS })
    return answer
  }

  const keyOf = (what: string, storeId: string, { linkId, fromMs, toMs }: Span) =>
    `${what} ${storeId} ${linkId} ${Math.floor(fromMs / MINUTE_MS)} ${toMs}`
  const all = (some: readonly Sales[]) => some.reduce((sum, { purchases }) => sum + purchases, 0)

  return {
    totals: (storeId, span) =>
      of(
        keyOf('totals', storeId, span),
        () => figures.totals(storeId, span),
        ({ purchases }) => purchases,
      ),
    series: (storeId, span) =>
      of(keyOf(`by ${span.bucketMs}`, storeId, span), () => figures.series(storeId, span), all),
  }
}

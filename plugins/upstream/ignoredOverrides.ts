import { LRUCache } from 'lru-cache'
import { isPaid } from '../../core/domain/link.ts'
import { isByUse } from '../../core/domain/pricing.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Log } from '../../core/ports/log.ts'

/** Minimum time between two log lines about a link, in ms. */
const WARN_EVERY_MS = 60_000
/** Maximum number of links whose last log line is remembered. */
const MAX_LINKS = 1_000

/** Logs that a seller's API states what a call has cost, although the price of its link does not depend on that. */
export class IgnoredOverrides {
  readonly #log: Pick<Log, 'warn'>
  readonly #warned = new LRUCache<string, true>({ max: MAX_LINKS, ttl: WARN_EVERY_MS })

  constructor(log: Pick<Log, 'warn'>) {
    this.#log = log
  }

  /** Called after each call whose response has the header `Settlement-Overrides`. */
  note({ link }: Exchange): void {
    const { id, pricing } = link
    if (!isPaid(link) || (pricing !== null && isByUse(pricing)) || this.#warned.has(id)) return
    this.#warned.set(id, true)
    this.#log.warn(
      { event: 'settlement_overrides_ignored', linkId: id },
      "the header Settlement-Overrides of a seller's API was ignored, because the link has no price by use",
    )
  }
}

import type { OpenChains } from './openChains.ts'

/** How often facilitators that did not answer at the start are asked again. */
const RETRY_MS = 5_000

/** What opens networks after the start. */
export interface LateOpening {
  /** Asks now, beside the regular turns. */
  now(): Promise<void>
  stop(): void
}

/** Opens the networks that are missing as soon as their facilitators answer. @param opened told when there are more */
export function openLate(chains: OpenChains, opened: () => unknown): LateOpening {
  async function now(): Promise<void> {
    if (chains.missing.length > 0 && (await chains.openMissing()).length > 0) await opened()
  }
  const timer = setInterval(() => void now(), RETRY_MS)
  timer.unref()
  return { now, stop: () => clearInterval(timer) }
}

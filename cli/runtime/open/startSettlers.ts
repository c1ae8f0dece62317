import { setTimeout as sleep } from 'node:timers/promises'
import type { NetworkId } from '../../../core/domain/network.ts'
import type { Settler } from '../../../core/ports/chains/settler.ts'
import type { Log } from '../../../core/ports/log.ts'
import { takeUp } from '../keys/keyHolder.ts'

/** Between two tries to read what a settler has to know. */
const RETRY_MS = 5_000

/**
 * Starts the settlers that any number of processes may have, in every process that sells: each verifies and signs by itself, whether
 * or not the background work is done there. One with keys of one process at a time waits for them instead.
 */
export interface SettlerStarts {
  /** Once, before its network is offered. Tries once, and goes on by itself where that fails. Never rejects. */
  begin(settler: Settler): Promise<void>
  /** Networks whose settlers could not start yet: paid calls are refused there. */
  readonly waiting: ReadonlySet<NetworkId>
  close(): Promise<void>
}

export function createSettlerStarts(
  books: Parameters<typeof takeUp>[2],
  log: Log,
  retryMs = RETRY_MS,
): SettlerStarts {
  const closed = new AbortController()
  const { signal } = closed
  const waiting = new Set<NetworkId>()
  const trying: Promise<void>[] = []

  async function tryAgain(settler: Settler): Promise<void> {
    while (waiting.has(settler.network)) {
      await sleep(retryMs, undefined, { signal, ref: false }).catch(() => undefined)
      if (signal.aborted) return
      if (await takeUp(settler.network, settler, books, log)) waiting.delete(settler.network)
    }
  }

  return {
    async begin(settler) {
      if (settler.isExclusive === true || (await takeUp(settler.network, settler, books, log))) return
      waiting.add(settler.network)
      trying.push(tryAgain(settler))
    },
    waiting,
    async close() {
      closed.abort()
      await Promise.all(trying)
    },
  }
}

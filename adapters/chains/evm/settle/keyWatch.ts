import type { NetworkId } from '../../../../core/domain/network.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { NonceQueue } from './nonceQueue.ts'

/** Between two looks whether somebody else signs with the key. */
const LOOK_MS = 2_000
/**
 * Looks at the start that have to agree: a former process leaves empty transactions in the pool, which fill numbers, and no store knows
 * them. They are in the next block, while an installation that works brings others.
 */
const FIRST_LOOKS = 3

/** Watches whether somebody else uses numbers of a key, such as an installation with a database of its own. */
export interface KeyWatch {
  /** The next look is the first one: others of this installation may have had the key. */
  begin(): void
  /** Not again within {@link LOOK_MS}; those who ask share a look. Never rejects. */
  look(): Promise<void>
  /** Somebody else has used numbers of this key lately. */
  readonly isShared: boolean
}

export interface KeyWatchParts {
  readonly network: NetworkId
  readonly address: string
  readonly log: Log
  /** How long nothing is signed after somebody else has, in ms; by chance up to half as long again. 0: nobody looks. */
  readonly sharedKeyMs: number
  readonly queue: NonceQueue
  /** The account's next number by `latest` or `pending`. */
  readonly countOf: (block: string) => Promise<number>
  /** Whether a number is of a transaction that is on its way from here. */
  readonly isLive: (nonce: number) => boolean
  /** Numbers of payments that are open in the store, where the way there is known. */
  readonly openInStore: () => Promise<Pick<ReadonlySet<number>, 'has'>> | undefined
}

export function createKeyWatch(parts: KeyWatchParts): KeyWatch {
  const { network, address, log, sharedKeyMs, queue, countOf, isLive, openInStore } = parts
  /** Whether the queue's next number is what the chain had when this process began to settle; before, others may have used more. */
  let knowsNext = false
  /** First looks in a row that found numbers in the pool which nobody here knows. */
  let doubts = 0
  let sharedUntilMs = Number.NEGATIVE_INFINITY
  let lookedAtMs = Number.NEGATIVE_INFINITY
  let looking: Promise<void> = Promise.resolve()

  /** What is in the pool, and neither signed here nor stored by a former process. */
  const isForeignInPool = async (pooled: number): Promise<boolean> => {
    for (let nonce = await countOf('latest'); nonce < pooled; nonce++) if (!isLive(nonce)) return true
    return false
  }

  /** Whether numbers are used that were not given out here and are no open payment's of the store. */
  const isUnknownBelow = async (pooled: number): Promise<boolean> => {
    const next = queue.next ?? 0
    if (pooled <= next) return false
    const open = await openInStore()
    return !Array.from({ length: pooled - next }, (_, i) => next + i).every((nonce) => open?.has(nonce))
  }

  const lookOnce = async (): Promise<void> => {
    const pooled = await countOf('pending')
    const isForeign = await (knowsNext ? isUnknownBelow(pooled) : isForeignInPool(pooled))
    queue.raiseAbove(pooled - 1)
    if (isForeign && !knowsNext && ++doubts < FIRST_LOOKS) {
      sharedUntilMs = performance.now() + Math.min(LOOK_MS, sharedKeyMs)
      return
    }
    knowsNext = true
    if (!isForeign) return
    // By chance, so that of two that have seen each other one begins first.
    sharedUntilMs = performance.now() + sharedKeyMs * (1 + Math.random() / 2)
    log.error(
      { network, account: address, nonce: pooled },
      'somebody else signs with the settling key; this gateway waits until that is over. Give each installation a key of its own',
    )
  }

  return {
    begin() {
      knowsNext = false
      doubts = 0
      lookedAtMs = Number.NEGATIVE_INFINITY
    },
    look() {
      const nowMs = performance.now()
      if (sharedKeyMs === 0 || nowMs - lookedAtMs < LOOK_MS) return looking
      lookedAtMs = nowMs
      looking = lookOnce().catch((error: unknown) => {
        log.warn({ network, error: String(error) }, 'could not look who else signs with the settling key')
      })
      return looking
    },
    get isShared() {
      return performance.now() < sharedUntilMs
    },
  }
}

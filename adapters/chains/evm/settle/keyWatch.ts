import type { NetworkId } from '../../../../core/domain/network.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { NonceQueue } from './nonceQueue.ts'
import { type AskBooks, type Counts, createStartCounts } from './startCounts.ts'
import { createStartDoubts } from './startDoubts.ts'

/** Between two looks whether somebody else signs with the key. */
const LOOK_MS = 2_000

/** Watches whether somebody else uses numbers of a key, such as an installation with a database of its own. */
export interface KeyWatch {
  /**
   * The next look is the first one: others of this installation may have had the key.
   *
   * @param bookedNumbers asks the books for the numbers that they have attempts for
   */
  begin(bookedNumbers?: AskBooks): void
  /**
   * The account's next number by the chain, its pool included. What is above everything that is known here is believed when it is
   * said twice, and at a start when it is said once more after that: what is signed above a number that nobody uses waits for good.
   * Rejects when no node says, and where that is not over.
   */
  firstFree(): Promise<number>
  /** Not again within {@link LOOK_MS}, but for the first one after a wait; those who ask share a look. Never rejects. */
  look(): Promise<void>
  /** Somebody else has used numbers of this key lately. */
  readonly isShared: boolean
  /** Numbers from the first on and below the second are used as nodes have said, and nobody here knows by whom. */
  readonly onlySaid: readonly [number, number]
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
  /** The number of the newest block. */
  readonly newestBlock: () => Promise<number>
  /** Whether a number is of a transaction of this installation, on its way or mined, as far as this process knows. */
  readonly isOwn: (nonce: number) => boolean
  /** Numbers of payments that are open in the store, where the way there is known. */
  readonly openInStore: () => Promise<ReadonlyMap<number, unknown>> | undefined
}

export function createKeyWatch(parts: KeyWatchParts): KeyWatch {
  const { network, address, log, sharedKeyMs, queue, countOf, newestBlock, isOwn, openInStore } = parts
  /** Whether the queue's next number is what the chain had when this process began to settle; before, others may have used more. */
  let knowsNext = false
  const doubts = createStartDoubts(sharedKeyMs)
  let sharedUntilMs = Number.NEGATIVE_INFINITY
  let lookedAtMs = Number.NEGATIVE_INFINITY
  let onlySaid: readonly [number, number] = [0, 0]
  let looking: Promise<void> = Promise.resolve()
  /** The look at the start that is under way. */
  let finding: Promise<void> | undefined

  /** How often others may have had the key, this process's start included. */
  let begun = 0

  const atStart = createStartCounts({ network, address, log, queue, countOf, pauseMs: LOOK_MS })

  /** What is in the pool, and neither signed here nor stored by a former process. */
  const isForeignInPool = ({ mined, pooled }: Counts): boolean => {
    for (let nonce = mined; nonce < pooled; nonce++)
      if (!isOwn(nonce) && !atStart.isBooked(nonce)) return true
    return false
  }

  /** Whether numbers are used that were not given out here and are no open payment's of the store. */
  const isUnknownBelow = async (pooled: number): Promise<boolean> => {
    const next = queue.next ?? 0
    if (pooled <= next) return false
    const open = await openInStore()
    // Up to the first: how many they are is a node's word.
    for (let nonce = next; nonce < pooled; nonce++) if (open?.has(nonce) !== true) return true
    return false
  }

  const isShared = () => performance.now() < sharedUntilMs
  /** Nothing is signed with a number that is asked for now. */
  const refuseShared = (): void => {
    if (isShared()) throw new Error('somebody else may be signing with the settling key')
  }
  /** It was said again: something may be signed above it. */
  const believe = (below: number): void => {
    queue.supposeNothing()
    const from = queue.next ?? 0
    if (below > from) onlySaid = [from, below]
    queue.raiseAbove(below - 1)
  }
  /** Until the next look. */
  const soonMs = () => performance.now() + Math.min(LOOK_MS, sharedKeyMs)

  /**
   * Numbers that somebody else seemed to have used are asked for once more when the wait for that is over, before anything is signed
   * above them. Not sooner: a node that lags behind the others does not know of them yet.
   */
  const judgeSupposed = async (pooled: number): Promise<void> => {
    if (isShared()) return
    const supposed = queue.next!
    let used = pooled
    // What is signed with a used number never lands: the highest answer counts, and what the store has a payment for.
    if (used < supposed) {
      used = Math.min(supposed, Math.max(used, await countOf('pending')))
      for (const nonce of (await openInStore())?.keys() ?? [])
        if (nonce < supposed) used = Math.max(used, nonce + 1)
    }
    // Another look has seen more meanwhile.
    if (isShared()) return
    believe(used)
    if (queue.next! >= supposed) return
    log.warn(
      { network, account: address, nonce: supposed, next: queue.next },
      'nobody has used the numbers of the settling key that a node said were used',
    )
  }

  const tellOfOthers = (pooled: number): void => {
    // By chance, so that of two that have seen each other one begins first.
    sharedUntilMs = performance.now() + sharedKeyMs * (1 + Math.random() / 2)
    log.error(
      { network, account: address, nonce: pooled },
      'somebody else signs with the settling key; this gateway waits until that is over. Give each installation a key of its own',
    )
  }

  /**
   * Numbers that only a node's word says are supposed: nothing is signed above them before the chain, asked again, has said that somebody
   * has used them, and where it says that nobody has, they are nobody's.
   */
  const findNext = async (): Promise<void> => {
    const start = begun
    while (!knowsNext) {
      queue.supposeNothing()
      const { mined, pooled, known, isFirstSaid } = await atStart.ask()
      // Mined, as a node says that is not behind. Twice, so that of two that take turns both are asked.
      let newest = mined
      for (let i = 0; i < 2 && isForeignInPool({ mined: newest, pooled }); i++)
        newest = Math.max(newest, await countOf('latest'))
      const isForeign = isForeignInPool({ mined: newest, pooled })
      const block = isForeign ? await newestBlock().catch(() => 0) : undefined
      // Meanwhile others may have had it once more.
      if (start !== begun) return
      const isSure = !isForeign && !isFirstSaid
      queue.raiseAbove(Math.min(pooled, known) - 1)
      if (isSure) believe(pooled)
      else queue.suppose(pooled)
      knowsNext = isSure || doubts.add(block)
      if (knowsNext) return isSure ? undefined : tellOfOthers(pooled)
      // Time for its block.
      if (!isForeign) continue
      sharedUntilMs = soonMs()
      return
    }
  }

  /** Whoever wants to know: they share it. */
  const lookAtStart = (): Promise<void> => {
    const own = (finding ??= findNext().finally(() => {
      if (finding === own) finding = undefined
    }))
    return own
  }

  const lookOnce = async (): Promise<void> => {
    if (!knowsNext) return lookAtStart()
    const start = begun
    let pooled = await countOf('pending')
    let isForeign = await isUnknownBelow(pooled)
    if (isForeign) {
      // What is signed above a number that nobody has used waits for good, so that one answer does not say it: it may be another
      // account's, or no count at all.
      pooled = Math.min(pooled, await countOf('pending'))
      isForeign = await isUnknownBelow(pooled)
    }
    // Meanwhile others may have had it, and what it found may be theirs.
    if (start !== begun) return
    if (isForeign) queue.suppose(pooled)
    else if (queue.isSupposing && pooled <= queue.next!) await judgeSupposed(pooled)
    else queue.raiseAbove(pooled - 1)
    if (isForeign) tellOfOthers(pooled)
  }

  return {
    begin(bookedNumbers) {
      // What somebody has used may be theirs, which the chain is asked for now.
      atStart.begin(bookedNumbers, queue.isSupposing ? queue.next! : 0)
      queue.supposeNothing()
      finding = undefined
      onlySaid = [0, 0]
      begun++
      knowsNext = false
      doubts.begin()
      // Who was seen before may be gone: the look at the start finds out whether somebody is there now.
      sharedUntilMs = Number.NEGATIVE_INFINITY
      lookedAtMs = Number.NEGATIVE_INFINITY
    },
    async firstFree() {
      // Where no look has said it, as no node has answered, or nobody looks.
      while (begun > 0 && !knowsNext) {
        await lookAtStart()
        refuseShared()
      }
      const first = await countOf('pending')
      if (first <= (queue.next ?? 0)) return first
      if (sharedKeyMs === 0) return Math.min(first, await countOf('pending'))
      // Whose it is, the look finds out.
      await lookOnce()
      refuseShared()
      return Math.min(first, queue.next ?? 0)
    },
    look() {
      const nowMs = performance.now()
      const isToJudge = queue.isSupposing && lookedAtMs < sharedUntilMs && nowMs >= sharedUntilMs
      if (sharedKeyMs === 0 || (nowMs - lookedAtMs < LOOK_MS && !isToJudge)) return looking
      // That of the start can take longer, and is shared until it is over.
      lookedAtMs = knowsNext ? nowMs : Number.POSITIVE_INFINITY
      const start = begun
      looking = lookOnce()
        .catch((error: unknown) => {
          // Nothing is signed above before a look has said so.
          if (queue.isSupposing || (doubts.hasAny && !knowsNext))
            sharedUntilMs = Math.max(sharedUntilMs, soonMs())
          log.warn({ network, error: String(error) }, 'could not look who else signs with the settling key')
        })
        .finally(() => {
          if (start === begun) lookedAtMs = isShared() ? performance.now() : nowMs
        })
      return looking
    },
    get isShared() {
      return isShared()
    },
    get onlySaid() {
      return onlySaid
    },
  }
}

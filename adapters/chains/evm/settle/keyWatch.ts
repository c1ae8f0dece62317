import { setTimeout as sleep } from 'node:timers/promises'
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
/** Times that the chain is asked at the start, {@link LOOK_MS} apart, until a number that nobody here knows of was said twice. */
const MOST_ASKED = 3

/** Watches whether somebody else uses numbers of a key, such as an installation with a database of its own. */
export interface KeyWatch {
  /**
   * The next look is the first one: others of this installation may have had the key.
   *
   * @param bookedNumbers asks the books for the numbers that they have attempts for
   */
  begin(bookedNumbers?: BookedNumbers): void
  /**
   * The account's next number by the chain, its pool included. What is above everything that is known here is believed when it is
   * said twice: what is signed above a number that nobody uses waits for good. Rejects when no node says.
   */
  firstFree(): Promise<number>
  /** Not again within {@link LOOK_MS}, but for the first one after a wait; those who ask share a look. Never rejects. */
  look(): Promise<void>
  /** Somebody else has used numbers of this key lately. */
  readonly isShared: boolean
}

export type BookedNumbers = () => Promise<ReadonlySet<number> | undefined>

export interface KeyWatchParts {
  readonly network: NetworkId
  readonly address: string
  readonly log: Log
  /** How long nothing is signed after somebody else has, in ms; by chance up to half as long again. 0: nobody looks. */
  readonly sharedKeyMs: number
  readonly queue: NonceQueue
  /** The account's next number by `latest` or `pending`. */
  readonly countOf: (block: string) => Promise<number>
  /** Whether a number is of a transaction of this installation, on its way or mined, as far as this process knows. */
  readonly isOwn: (nonce: number) => boolean
  /** Numbers of payments that are open in the store, where the way there is known. */
  readonly openInStore: () => Promise<ReadonlyMap<number, unknown>> | undefined
}

/** An account's next number by the newest block, and with what waits in the pool. */
interface Counts {
  readonly mined: number
  readonly pooled: number
}

export function createKeyWatch(parts: KeyWatchParts): KeyWatch {
  const { network, address, log, sharedKeyMs, queue, countOf, isOwn, openInStore } = parts
  /** Whether the queue's next number is what the chain had when this process began to settle; before, others may have used more. */
  let knowsNext = false
  /** First looks in a row that found numbers in the pool which nobody here knows. */
  let doubts = 0
  let sharedUntilMs = Number.NEGATIVE_INFINITY
  let lookedAtMs = Number.NEGATIVE_INFINITY
  let looking: Promise<void> = Promise.resolve()

  let askBooks: BookedNumbers | undefined
  let booked: ReadonlySet<number> = new Set()
  /** Below this nobody has to be asked twice: the books have it, or a node has said it twice before. */
  let heard = 0
  /** What the chain has said at the start; undefined before it was asked, and where it has to be asked again. */
  let counts: Promise<Counts> | undefined
  /** How often others may have had the key, this process's start included. */
  let begun = 0

  /** Only where the chain has used more than is known otherwise: after a time in which nobody bought. */
  const readBooks = async (): Promise<void> => {
    try {
      booked = (await askBooks?.()) ?? new Set()
    } catch (error) {
      log.warn(
        { network, error: String(error) },
        'the books could not say which numbers of the settling key they know',
      )
    }
    for (const nonce of booked) heard = Math.max(heard, nonce + 1)
  }

  const askBoth = async (): Promise<Counts> => {
    const [mined, pooled] = await Promise.all([countOf('latest'), countOf('pending')])
    // Of two nodes behind one address, the one that was asked for the pool may be behind.
    return { mined, pooled: Math.max(mined, pooled) }
  }

  /**
   * One that lags says too little, and another one may say too much: at the start, nobody here can tell which it is. Where an answer is
   * none that is expected, the chain is asked again, with time for a block in between, and the highest number counts that was said twice
   * or is known of.
   */
  const askUntilSure = async (): Promise<Counts> => {
    const said: number[] = []
    let mined = 0
    for (;;) {
      const answer = await askBoth()
      if (said.length === 0 && answer.pooled > (queue.next ?? 0)) await readBooks()
      const sure = queue.next ?? 0
      const expected = Math.max(sure, heard)
      mined = Math.max(mined, answer.mined)
      said.push(Math.max(sure, answer.pooled))
      said.sort((a, b) => b - a)
      const [highest = 0, second = 0] = said
      const pooled = Math.max(second, Math.min(highest, expected))
      const isSure = pooled === highest && highest >= expected
      const telling = { network, account: address, said, expected, next: pooled }
      if (isSure || said.length === MOST_ASKED) {
        if (!isSure)
          log.warn(
            telling,
            'nodes disagree about the next number of the settling key, or say less than the database knows of; this gateway goes on with the highest that was said twice or is known here',
          )
        return { mined: Math.min(mined, pooled), pooled }
      }
      if (said.length === 1)
        log.info(
          telling,
          'the next number of the settling key is not the one that is known here; it is asked for again before anything is signed',
        )
      await sleep(LOOK_MS)
    }
  }

  const countsAtStart = (): Promise<Counts> => {
    const asking = (counts ??= askUntilSure())
    return asking.catch((error: unknown) => {
      if (counts === asking) counts = undefined
      throw error
    })
  }

  /** What is in the pool, and neither signed here nor stored by a former process. */
  const isForeignInPool = ({ mined, pooled }: Counts): boolean => {
    for (let nonce = mined; nonce < pooled; nonce++) if (!isOwn(nonce) && !booked.has(nonce)) return true
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
    queue.raiseAbove(used - 1)
    if (!queue.isSupposing) return
    queue.supposeNothing()
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

  const lookAtStart = async (): Promise<void> => {
    const start = begun
    const { mined, pooled } = await countsAtStart()
    // They may be a former process's, which nobody here knows of: these are not taken back.
    queue.raiseAbove(pooled - 1)
    // Mined, as a node says that is not behind. Twice, so that of two that take turns both are asked.
    let newest = mined
    for (let i = 0; i < 2 && isForeignInPool({ mined: newest, pooled }); i++)
      newest = Math.max(newest, await countOf('latest'))
    const isForeign = isForeignInPool({ mined: newest, pooled })
    // Meanwhile others may have had it once more, or another look has found out.
    if (start !== begun || knowsNext) return
    if (isForeign && ++doubts < FIRST_LOOKS) {
      counts = undefined
      sharedUntilMs = soonMs()
      return
    }
    knowsNext = true
    if (isForeign) tellOfOthers(pooled)
  }

  const lookOnce = async (): Promise<void> => {
    if (!knowsNext) return lookAtStart()
    let pooled = await countOf('pending')
    let isForeign = await isUnknownBelow(pooled)
    if (isForeign) {
      // What is signed above a number that nobody has used waits for good, so that one answer does not say it: it may be another
      // account's, or no count at all.
      pooled = Math.min(pooled, await countOf('pending'))
      isForeign = await isUnknownBelow(pooled)
    }
    if (isForeign) queue.suppose(pooled)
    else if (queue.isSupposing && pooled <= queue.next!) await judgeSupposed(pooled)
    else queue.raiseAbove(pooled - 1)
    if (isForeign) tellOfOthers(pooled)
  }

  return {
    begin(bookedNumbers) {
      askBooks = bookedNumbers
      booked = new Set()
      // What somebody has used may be theirs, which the chain is asked for now.
      heard = queue.isSupposing ? queue.next! : 0
      queue.supposeNothing()
      counts = undefined
      begun++
      knowsNext = false
      doubts = 0
      lookedAtMs = Number.NEGATIVE_INFINITY
    },
    async firstFree() {
      // Where no look has said it, as no node has answered.
      if (begun > 0 && counts === undefined) queue.raiseAbove((await countsAtStart()).pooled - 1)
      const first = await countOf('pending')
      return first > (queue.next ?? 0) ? Math.min(first, await countOf('pending')) : first
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
          if (queue.isSupposing) sharedUntilMs = Math.max(sharedUntilMs, soonMs())
          log.warn({ network, error: String(error) }, 'could not look who else signs with the settling key')
        })
        .finally(() => {
          if (start === begun) lookedAtMs = nowMs
        })
      return looking
    },
    get isShared() {
      return isShared()
    },
  }
}

import { setTimeout as sleep } from 'node:timers/promises'
import type { NetworkId } from '../../../../core/domain/network.ts'
import type { BookedNumbers } from '../../../../core/ports/chains/settler.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { NonceQueue } from './nonceQueue.ts'

/** Times that the chain is asked, until a number that nobody here knows of was said twice. */
const MOST_ASKED = 3

/** Asks the books for the numbers that they have attempts for. Rejects where they can't say. */
export type AskBooks = () => Promise<BookedNumbers>

/** An account's next number by the newest block, and with what waits in the pool. */
export interface Counts {
  readonly mined: number
  readonly pooled: number
}

/** What the chain says at a start, and how sure that is. */
export interface SaidCounts extends Counts {
  /** Numbers below are known of: by the books, or because they were given out or taken up here. */
  readonly known: number
  /** Nobody here knows of some numbers below `pooled`, and they were said for the first time: by nodes that may be wrong. */
  readonly isFirstSaid: boolean
}

/**
 * What the chain says of an account's numbers at a start, when others may have had the key: nobody here can tell yet which of several
 * nodes is right. One that lags says too little, and what is signed with a used number never lands; another one says too much, and what
 * is signed above a number that nobody uses waits for good.
 */
export interface StartCounts {
  /**
   * Others may have had the key: nothing that was said before counts.
   *
   * @param heard below this nobody has to be asked twice: it was said before, by a node that may have been right
   */
  begin(askBooks: AskBooks | undefined, heard: number): void
  /**
   * The highest number that was said twice, or is known of, or was the answer before this one and is said once more. Not within `pauseMs`
   * after the time before, so that there is time for a block. Rejects when no node says.
   */
  ask(): Promise<SaidCounts>
  /** Whether the books have an attempt for a number, where they had to be asked. */
  isBooked(nonce: number): boolean
}

export interface StartCountsParts {
  readonly network: NetworkId
  readonly address: string
  readonly log: Log
  readonly queue: Pick<NonceQueue, 'next'>
  /** The account's next number by `latest` or `pending`. */
  readonly countOf: (block: string) => Promise<number>
  /** Between two times that the chain is asked, in ms. */
  readonly pauseMs: number
}

export function createStartCounts(parts: StartCountsParts): StartCounts {
  const { network, address, log, queue, countOf, pauseMs } = parts
  let askBooks: AskBooks | undefined
  let booked: ReadonlySet<number> = new Set()
  /** The books have numbers up to here. */
  let bookedBelow = 0
  /** Below this nobody has to be asked twice: it was said before. */
  let heard = 0
  /** When a node has last said anything, by this machine's monotonic clock. */
  let saidAtMs = Number.NEGATIVE_INFINITY

  /** Only where the chain has used more than is known otherwise: after a time in which nobody bought. */
  const readBooks = async (): Promise<void> => {
    try {
      booked = (await askBooks?.())?.numbers ?? new Set()
    } catch (error) {
      log.warn(
        { network, error: String(error) },
        'the books could not say which numbers of the settling key they know',
      )
    }
    for (const nonce of booked) bookedBelow = Math.max(bookedBelow, nonce + 1)
  }

  const askBoth = async (): Promise<Counts> => {
    const waitMs = saidAtMs + pauseMs - performance.now()
    if (waitMs > 0) await sleep(waitMs)
    const [mined, pooled] = await Promise.all([countOf('latest'), countOf('pending')])
    saidAtMs = performance.now()
    // Of two nodes behind one address, the one that was asked for the pool may be behind.
    return { mined, pooled: Math.max(mined, pooled) }
  }

  return {
    begin(bookedNumbers, heardBefore) {
      askBooks = bookedNumbers
      booked = new Set()
      bookedBelow = 0
      heard = heardBefore
      saidAtMs = Number.NEGATIVE_INFINITY
    },
    async ask() {
      const said: number[] = []
      let mined = 0
      for (;;) {
        const answer = await askBoth()
        const given = queue.next ?? 0
        if (said.length === 0 && answer.pooled > given && bookedBelow === 0) await readBooks()
        const known = Math.max(given, bookedBelow)
        const expected = Math.max(known, heard)
        mined = Math.max(mined, answer.mined)
        said.push(Math.max(given, answer.pooled))
        said.sort((a, b) => b - a)
        const [highest = 0, second = 0] = said
        const pooled = Math.max(second, Math.min(highest, expected))
        const isSure = pooled === highest && highest >= expected
        const telling = { network, account: address, said, expected, next: pooled }
        if (isSure || said.length === MOST_ASKED) {
          if (!isSure)
            log.warn(
              telling,
              'nodes disagree about the next number of the settling key, or say less than before or than the database knows of; this gateway goes on with the highest that was said twice or is known here',
            )
          heard = pooled
          return { mined: Math.min(mined, pooled), pooled, known, isFirstSaid: pooled > expected }
        }
        if (said.length === 1)
          log.info(
            telling,
            'the next number of the settling key is not the one that is known here; it is asked for again before anything is signed',
          )
      }
    },
    isBooked: (nonce) => booked.has(nonce),
  }
}

/** Asks the books once for all who want to know at a start, and again where they could not say. */
export function askOnce(ask: AskBooks): AskBooks {
  let asked: ReturnType<AskBooks> | undefined
  return () => {
    asked ??= ask().catch((error: unknown) => {
      asked = undefined
      throw error
    })
    return asked
  }
}

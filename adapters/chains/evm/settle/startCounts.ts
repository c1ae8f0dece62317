import { setTimeout as sleep } from 'node:timers/promises'
import type { NetworkId } from '../../../../core/domain/network.ts'
import type { Log } from '../../../../core/ports/log.ts'
import type { NonceQueue } from './nonceQueue.ts'

/** Times that the chain is asked, until a number that nobody here knows of was said twice. */
const MOST_ASKED = 3

/** Asks the books for the numbers that they have attempts for; undefined where they can't say. */
export type BookedNumbers = () => Promise<ReadonlySet<number> | undefined>

/** An account's next number by the newest block, and with what waits in the pool. */
export interface Counts {
  readonly mined: number
  readonly pooled: number
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
  begin(askBooks: BookedNumbers | undefined, heard: number): void
  /** The chain has to be asked again. */
  forget(): void
  /** It was asked, and has not to be asked again. */
  readonly isAsked: boolean
  /** Asked once, whoever wants to know. Rejects when no node says. */
  ask(): Promise<Counts>
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
  let askBooks: BookedNumbers | undefined
  let booked: ReadonlySet<number> = new Set()
  /** Below this nobody has to be asked twice: the books have it, or a node has said it twice before. */
  let heard = 0
  /** Undefined before the chain was asked, and where it has to be asked again. */
  let counts: Promise<Counts> | undefined

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
   * Where an answer is none that is expected, the chain is asked again, with time for a block in between, and the highest number counts
   * that was said twice or is known of.
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
      await sleep(pauseMs)
    }
  }

  return {
    begin(bookedNumbers, heardBefore) {
      askBooks = bookedNumbers
      booked = new Set()
      heard = heardBefore
      counts = undefined
    },
    forget() {
      counts = undefined
    },
    get isAsked() {
      return counts !== undefined
    },
    ask() {
      const asking = (counts ??= askUntilSure())
      return asking.catch((error: unknown) => {
        if (counts === asking) counts = undefined
        throw error
      })
    },
    isBooked: (nonce) => booked.has(nonce),
  }
}

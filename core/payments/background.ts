import { notCollected, type PaymentRecord, type PaymentState } from '../domain/payment.ts'
import type { Log } from '../ports/log.ts'
import { isStoreAway } from '../ports/refusals.ts'
import type { Books, PaymentChange } from '../ports/store/books.ts'
import type { Lease } from '../ports/store/leases.ts'
import type { ChangeWatch } from './changeWatch.ts'
import type { OpenCalls } from './openCalls.ts'
import type { HandedOut } from './payments.ts'
import * as rules from './rules.ts'

/** Between two questions whether a store that is away is back: one of the works that wait for it asks for all. */
const ASK_MS = 1_000
/** Pauses before each further try of a write that nobody waits for, and that failed of something else. */
const PAUSES_MS = [200, 1_000, 5_000, 15_000, 30_000, 60_000]
/** Claims in doubt that are looked for however long the store is away: anybody can make one, so they are bounded. */
const MOST_DOUBTS = 1_000
/** What a call works on; a pending payment is the recovery's. */
const ofCalls: readonly PaymentState[] = ['claimed', 'settling', 'settled']
/** Rows that are looked at together for such that no call works on. */
const STRAYS = 1_000

/** A payment that somebody asks for is brought forward once in so long, in ms, however many ask… */
const HASTEN_MS = 2_000
/** …and so many at once: whoever has many open ones must not set the pace at which nodes are asked. */
const MOST_HASTENED = 50

/** What the engine writes beside its calls: nobody waits for it, and a store that is away only delays it. */
export interface Background {
  /**
   * Does what has to be done in the end, and again while the store is away, however long that is: this process knows best
   * what became of its rows, and recovery gets them only as strays.
   *
   * @param work harmless when done twice
   * @returns when it is done or given up, never as an error
   */
  insist(purchaseId: string, work: () => Promise<void>, isEndless?: boolean): Promise<void>
  /** A claim whose answer did not come may be there, now or a little later, and nobody would work on it. */
  freeUnanswered(key: string, purchaseId: string): void
  /**
   * The answer has reached its buyer by a repeat, or by a call whose row another process has taken up meanwhile.
   *
   * @param key of a sale that the other process may still have to book: it is delivered once that is done
   */
  noteHandedOut(paid: HandedOut, key?: string): void
  /** Has the recovery look at an open payment now: somebody has come back with it. */
  hasten(payment: PaymentRecord): void
  /** @see Payments.leaveStrays */
  leaveStrays(): Promise<number>
}

export interface BackgroundParts {
  readonly books: Pick<Books, 'apply' | 'applyAll' | 'find' | 'list' | 'putOff'>
  readonly calls: Pick<OpenCalls, 'has'>
  readonly watch: Pick<ChangeWatch, 'tell'>
  /** This process's own, as it is now. */
  readonly lease: { readonly current: Lease }
  readonly log: Log
}

export function createBackground({ books, calls, watch, lease, log }: BackgroundParts): Background {
  /** Answers that were handed out, and are not noted yet. */
  const handedOut = new Set<number>()
  const hastened = new Set<number>()
  /** Claims of this process's that no call worked on at the last look. */
  let suspects = new Set<string>()
  let doubts = 0
  /** Works that the store was away for, by the order in which they ask for it. */
  const waiting = new Set<(asksForAll: boolean) => void>()
  let asking: NodeJS.Timeout | undefined

  function insist(purchaseId: string, work: () => Promise<void>, isEndless = true): Promise<void> {
    const attempt = (tries: number, done: () => void, asksForAll = false): void => {
      const failed = (err: unknown): void => {
        if (isEndless && isStoreAway(err)) return whenStoreIsBack((asks) => attempt(tries, done, asks))
        if (asksForAll) wakeAll()
        const waitMs = PAUSES_MS[tries]
        if (waitMs !== undefined) return void setTimeout(attempt, waitMs, tries + 1, done).unref()
        log.warn({ err, purchaseId }, 'could not note what became of a payment')
        done()
      }
      work().then(() => {
        if (asksForAll) wakeAll()
        done()
      }, failed)
    }
    return new Promise((done) => attempt(0, done))
  }

  /** It may be away for hours, and what waits may be much: it is asked once a second, and an answer wakes all. */
  function whenStoreIsBack(again: (asksForAll: boolean) => void): void {
    waiting.add(again)
    if (asking === undefined) asking = setTimeout(askStore, ASK_MS).unref()
  }

  /** Whoever asks may wait long for its answer: the next one asks all the same. */
  function askStore(): void {
    asking = undefined
    const [first] = waiting
    if (first === undefined) return
    waiting.delete(first)
    if (waiting.size > 0) asking = setTimeout(askStore, ASK_MS).unref()
    first(true)
  }

  /** Not more often than it is asked: one that is full still reads, and would refuse all of them each time. */
  function wakeAll(): void {
    const woken = [...waiting]
    waiting.clear()
    for (const again of woken) again(false)
  }

  /** @returns false when somebody else has moved the row */
  async function apply(change: PaymentChange): Promise<boolean> {
    const isDone = await books.apply(change)
    if (isDone) watch.tell(change.row)
    return isDone
  }

  return {
    insist,

    freeUnanswered(key, purchaseId) {
      const free = async (): Promise<void> => {
        const record = await books.find(key)
        if (record === undefined) throw new Error('The claim is not there, or not yet.')
        if (record.purchaseId !== purchaseId || record.state !== 'claimed') return
        await apply(rules.free(record, 'store_unavailable'))
      }
      doubts++
      void insist(purchaseId, free, doubts <= MOST_DOUBTS).then(() => void doubts--)
    },

    noteHandedOut({ row, purchaseId }, key) {
      if (handedOut.has(row)) return
      handedOut.add(row)
      const note = async () => {
        if (await apply(rules.handOut({ row, purchaseId }))) return
        const held = { row, purchaseId, lease: null }
        if (await apply(rules.deliverReorged(held))) return
        if (await apply(rules.deliverReorged(held, notCollected))) return
        const record = key === undefined ? undefined : await books.find(key)
        if (record?.purchaseId !== purchaseId) return
        if (record.state === 'settling' || record.state === 'pending')
          throw new Error('The sale is not booked yet by the process that has taken it up.')
      }
      void insist(purchaseId, note).then(() => handedOut.delete(row))
    },

    hasten({ row, state, tries }) {
      const isOpen = state === 'pending' || state === 'reorged'
      if (!isOpen || hastened.has(row) || hastened.size >= MOST_HASTENED) return
      hastened.add(row)
      setTimeout(() => hastened.delete(row), HASTEN_MS).unref()
      // Without it the row is looked at in its time.
      books.putOff([{ row, state, afterMs: 0, tries }]).catch(() => undefined)
    },

    async leaveStrays() {
      const own = await books.list({ states: ofCalls, lease: lease.current.id, limit: STRAYS })
      const idle = own.filter(({ row, hasAnswer, state }) => {
        return !calls.has(row) && (state !== 'settled' || !hasAnswer)
      })
      // A claim that was just won may be in the books before its call is known here; at the next look it is.
      const strays = idle.filter(({ purchaseId }) => suspects.has(purchaseId))
      suspects = new Set(idle.map(({ purchaseId }) => purchaseId))
      if (strays.length === 0) return 0
      const left = await books.applyAll(strays.map((record) => rules.abandon(record)))
      return left.filter((isLeft) => isLeft === true).length
    },
  }
}

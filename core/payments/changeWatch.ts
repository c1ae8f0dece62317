import type { PaymentRecord } from '../domain/payment.ts'
import type { Books } from '../ports/store/books.ts'

/** Between two looks at a payment that somebody waits for, in ms: soon at first, then rarer. */
const FIRST_MS = 50
const LAST_MS = 500

/** Waiting for payments to move, without writing. */
export interface ChangeWatch {
  /** @returns the payment once it stands otherwise than it was seen; undefined when the time is over */
  changed(seen: PaymentRecord, waitMs: number): Promise<PaymentRecord | undefined>
  /** Says that this process has moved a row: those who wait for it look at once. */
  tell(row: number): void
}

/** One payment that is looked at for all who wait for it. */
interface Watched {
  readonly key: string
  readonly waiting: Set<(record: PaymentRecord) => void>
  timer: NodeJS.Timeout
  pauseMs: number
}

export function createChangeWatch(books: Pick<Books, 'find'>): ChangeWatch {
  const watched = new Map<number, Watched>()

  function watch(row: number, key: string): Watched {
    const known = watched.get(row)
    if (known !== undefined) return known
    const timer = setTimeout(() => void look(row), FIRST_MS)
    const fresh: Watched = { key, waiting: new Set(), timer, pauseMs: FIRST_MS }
    watched.set(row, fresh)
    return fresh
  }

  async function look(row: number): Promise<void> {
    const one = watched.get(row)
    if (one === undefined) return
    if (one.waiting.size === 0) return void watched.delete(row)
    // A store that is away says nothing: whoever waits goes on to wait.
    const { timer } = one
    const record = await books.find(one.key).catch(() => undefined)
    // Unless the next look was set meanwhile.
    if (one.timer === timer) {
      one.pauseMs = Math.min(2 * one.pauseMs, LAST_MS)
      one.timer = setTimeout(() => void look(row), one.pauseMs)
    }
    if (record === undefined) return
    const waiting = [...one.waiting]
    one.waiting.clear()
    for (const hear of waiting) hear(record)
  }

  /** The next look at it, by whomever; undefined when the time is over. */
  function next({ row, key }: PaymentRecord, waitMs: number): Promise<PaymentRecord | undefined> {
    const { waiting } = watch(row, key)
    return new Promise((resolve) => {
      const hear = (record: PaymentRecord) => {
        clearTimeout(timeout)
        resolve(record)
      }
      const timeout = setTimeout(() => {
        waiting.delete(hear)
        resolve(undefined)
      }, waitMs)
      waiting.add(hear)
    })
  }

  return {
    async changed(seen, waitMs) {
      const endMs = performance.now() + waitMs
      for (;;) {
        const leftMs = endMs - performance.now()
        if (leftMs <= 0) return undefined
        const record = await next(seen, leftMs)
        if (record === undefined || hasMoved(seen, record)) return record
      }
    },

    tell(row) {
      const one = watched.get(row)
      if (one === undefined) return
      clearTimeout(one.timer)
      one.pauseMs = FIRST_MS
      one.timer = setTimeout(() => void look(row), 0)
    },
  }
}

const hasMoved = (seen: PaymentRecord, now: PaymentRecord): boolean =>
  seen.state !== now.state || seen.purchaseId !== now.purchaseId || seen.hasAnswer !== now.hasAnswer

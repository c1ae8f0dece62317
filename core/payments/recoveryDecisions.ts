import type { PaymentRecord } from '../domain/payment.ts'
import type { Log } from '../ports/log.ts'
import type { Books, PaymentChange, PutOff } from '../ports/store/books.ts'

/** A row that stays open is looked at after so long, then after twice that, up to the longest, in ms. */
const FIRST_PAUSE_MS = 2_000
export const LONGEST_PAUSE_MS = 60_000

/** How long a row is put off that was put off so often before. */
export const pauseMs = (tries: number, longestMs = LONGEST_PAUSE_MS): number =>
  Math.min(FIRST_PAUSE_MS * 2 ** Math.min(tries, 20), longestMs)

interface Decided {
  readonly record: PaymentRecord
  readonly change: PaymentChange
  readonly whenBooked: (() => void) | undefined
}

/** What is decided of the rows of one page: each is changed, or put off with its reason. Written together. */
export class Decisions {
  readonly #changes: Decided[] = []
  readonly #later: PutOff[] = []
  readonly #books: Pick<Books, 'applyAll' | 'putOff'>
  readonly #log: Log

  constructor(books: Pick<Books, 'applyAll' | 'putOff'>, log: Log) {
    this.#books = books
    this.#log = log
  }

  /** @param whenBooked called once it stands in the row; not where somebody else was there first */
  change(record: PaymentRecord, change: PaymentChange, whenBooked?: () => void): void {
    this.#changes.push({ record, change, whenBooked })
  }

  /** @param afterMs null: for good */
  putOff(
    { row, state, tries }: PaymentRecord,
    reason?: string,
    afterMs: number | null = pauseMs(tries),
  ): void {
    this.#later.push({ row, state, afterMs, tries: tries + 1, ...(reason !== undefined && { reason }) })
  }

  /** Puts off without counting it as a look that was in vain. */
  lookAgain({ row, state }: PaymentRecord, afterMs: number | null, reason?: string): void {
    this.#later.push({ row, state, afterMs, tries: 0, ...(reason !== undefined && { reason }) })
  }

  /** Decides about one row; what can't be done about it is its own fault, and no other row's. */
  about(record: PaymentRecord, decide: () => void): void {
    try {
      decide()
    } catch (error) {
      this.#cannot(record, error)
    }
  }

  /** @returns how many rows moved */
  async write(): Promise<number> {
    const changes = this.#changes
    const done = changes.length === 0 ? [] : await this.#books.applyAll(changes.map(({ change }) => change))
    let moved = 0
    for (const [i, { record, change, whenBooked }] of changes.entries()) {
      const result = done[i]
      if (result instanceof Error) this.#cannot(record, result)
      if (result !== true) continue
      if (change.to !== record.state) moved++
      whenBooked?.()
    }
    if (this.#later.length > 0) await this.#books.putOff(this.#later)
    return moved
  }

  #cannot(record: PaymentRecord, error: unknown): void {
    const why = error instanceof Error ? error.message : String(error)
    this.#log.warn({ purchaseId: record.purchaseId, state: record.state, why }, 'a payment is put off')
    this.putOff(record, why)
  }
}

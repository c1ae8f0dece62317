import type { PaymentState, SettlementAttempt } from '../domain/payment.ts'
import type { Hold, SettleOutcome } from '../ports/chains/settler.ts'
import type { Log } from '../ports/log.ts'
import type { Books, PaymentChange } from '../ports/store/books.ts'
import type { ChangeWatch } from './changeWatch.ts'
import type { HeldLease } from './heldLease.ts'
import type { PaidCall, PaidFor, PresentedPayment } from './payments.ts'
import type { Landed } from './purchase.ts'

/** How a payment stands, as far as the call knows that works on it. */
export class OpenCall implements PaidCall {
  readonly payment: PresentedPayment
  readonly call: PaidFor
  readonly row: number
  readonly purchaseId: string
  lease: number | null
  /** How often this process's lease had lapsed when it was claimed. */
  readonly lapses: number
  state: PaymentState
  /** False after a write whose answer did not come, or that was refused: the row has to be read. */
  isSure = true
  /** Somebody else has moved the row, and what becomes of it is theirs to say, even under a lease of this process. */
  isLost = false
  hold: Hold | null = null
  attempt: SettlementAttempt | null = null
  /** The settler may have sent what was stored. */
  hasBegun = false
  hasAnswer = false
  landed: Landed | null = null
  /** Why its settler refused it, in the words of x402; null while the settler has not. */
  refusedFor: string | null = null
  /** What its settler has said, until it stands in the row. */
  unwritten: SettleOutcome | null = null
  /** The last write, of which whoever made it hears; a call that ends waits until it has its answer, whichever. */
  written: Promise<unknown> | null = null
  /** The call has ended. */
  isOver = false
  /** It has left an answer that somebody may be handed. */
  hasLeftAnswer = false

  constructor(
    payment: PresentedPayment,
    call: PaidFor,
    row: number,
    purchaseId: string,
    { current, lapses }: Pick<HeldLease, 'current' | 'lapses'>,
    state: PaymentState,
  ) {
    this.payment = payment
    this.call = call
    this.row = row
    this.purchaseId = purchaseId
    this.lease = current.id
    this.lapses = lapses
    this.state = state
  }

  get sessionId(): string | null {
    return this.call.sessionId
  }

  get mayBeCharged(): boolean {
    return this.hasBegun || this.state === 'settling' || this.state === 'pending' || this.state === 'settled'
  }
}

/** The calls of this process that work on payments, and the only way in which they write their rows. For the engine. */
export interface OpenCalls {
  add(paid: OpenCall): void
  /** Unless another call has taken the row up meanwhile. */
  remove(paid: OpenCall): void
  /** Whether a call of this process works on the row. */
  has(row: number): boolean
  /**
   * Writes a change of a call's own row, and keeps what is known of it.
   * @returns false when somebody else has moved it
   */
  write(paid: OpenCall, change: PaymentChange): Promise<boolean>
  /** The same for what nobody has to hear of: what is not written here is found when the call ends. */
  tryToWrite(paid: OpenCall, change: PaymentChange): Promise<boolean>
  /**
   * Finds out how a row stands that a write has left in doubt.
   * @returns false when it is not this call's any more
   */
  lookAgain(paid: OpenCall): Promise<boolean>
}

export function createOpenCalls(
  books: Pick<Books, 'apply' | 'find'>,
  watch: Pick<ChangeWatch, 'tell'>,
  log: Log,
): OpenCalls {
  // No Map: one that calls come into and leave is made anew again and again, and each that was before it keeps the calls of its time
  // alive until the whole heap is collected (test/garbage.slow.test.ts).
  const underWay: Record<number, OpenCall | undefined> = Object.create(null)

  const write = (paid: OpenCall, change: PaymentChange): Promise<boolean> =>
    (paid.written = writeNow(paid, change))

  async function writeNow(paid: OpenCall, change: PaymentChange): Promise<boolean> {
    let isDone: boolean
    try {
      isDone = await books.apply(change)
    } catch (error) {
      paid.isSure = false
      throw error
    }
    if (isDone) {
      paid.state = change.to
      if (change.takenBy !== undefined) paid.lease = change.takenBy
      if (change.answer !== undefined) paid.hasAnswer = change.answer !== null
      watch.tell(paid.row)
    } else {
      // After a write whose answer did not come, the one that moved it may have been this call.
      if (paid.isSure) paid.isLost = true
      paid.isSure = false
    }
    return isDone
  }

  return {
    add(paid) {
      underWay[paid.row] = paid
    },
    remove(paid) {
      if (underWay[paid.row] === paid) delete underWay[paid.row]
    },
    has: (row) => underWay[row] !== undefined,
    write,

    async tryToWrite(paid, change) {
      try {
        return await write(paid, change)
      } catch (err) {
        log.warn({ err, purchaseId: paid.purchaseId }, `could not note a ${change.to} payment yet`)
        return false
      }
    },

    async lookAgain(paid) {
      const record = await books.find(paid.payment.identity.key)
      if (record === undefined || record.purchaseId !== paid.purchaseId) return false
      // No process moves a sale back to `settling`: the database has crashed and forgotten it.
      const isForgotten = paid.state === 'settled' && record.state === 'settling'
      if (paid.isLost && !isForgotten) return false
      if (record.lease !== null && record.lease !== paid.lease) return false
      // Another call of this process may have taken it up, when it was owed meanwhile and its buyer came back.
      const working = underWay[paid.row]
      if (working !== undefined && working !== paid) return false
      paid.state = record.state
      paid.hasAnswer = record.hasAnswer
      paid.isSure = true
      paid.isLost = false
      return true
    },
  }
}

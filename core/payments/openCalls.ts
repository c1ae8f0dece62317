import type { AtomicAmount } from '../domain/money.ts'
import type { PaymentRecord, PaymentState, SettlementAttempt, StoredResponse } from '../domain/payment.ts'
import type { TollgateError } from '../errors/error.ts'
import type { Hold, SettleOutcome } from '../ports/chains/settler.ts'
import type { Log } from '../ports/log.ts'
import type { Ledger, PaymentChange } from '../ports/store/ledger.ts'
import type { ChangeWatch } from './claimLoop.ts'
import type { HeldLease } from './leases.ts'
import type { PaidCall, PaidFor, PresentedPayment } from './payments.ts'
import type { Landed } from './purchase.ts'
import { movedMeanwhile, notBegun, sessionNotOpen, stillPending } from './refusals.ts'

/** This process's own lease. Its properties always have the current values. */
export type OwnLease = Pick<HeldLease, 'current' | 'isHeld' | 'lapses'>

/** A payment's state, as the call that works on the payment last saw or wrote it. */
export class OpenCall implements PaidCall {
  readonly payment: PresentedPayment
  readonly call: PaidFor
  readonly row: number
  readonly purchaseId: string
  lease: number | null
  /** How often this process's lease had run out when the payment was claimed. */
  readonly lapses: number
  state: PaymentState
  /** False after a write that got no response or was refused, so that the row has to be read again. */
  isSure = true
  /**
   * True if another process has moved the row, and therefore decides its outcome. This applies even if the row has a lease of this
   * process.
   */
  isLost = false
  hold: Hold | null = null
  attempt: SettlementAttempt | null = null
  /** True if the settler may have sent the stored attempt. */
  hasBegun = false
  hasResponse = false
  landed: Landed | null = null
  /** The response of a call that costs nothing, which is stored with its sale. Otherwise null. */
  freeResponse: StoredResponse | null = null
  /** The x402 reason for which the settler refused the payment. Null if it has not refused. */
  refusedFor: string | null = null
  /** The settler's outcome, until it is written to the row. Otherwise null. */
  unwritten: SettleOutcome | null = null
  /** The last write. The end of the call waits until this write has succeeded or failed. */
  written: Promise<unknown> | null = null
  /** True once the call has ended. */
  isOver = false
  /** True if the call has stored a response for repeated calls. */
  hasLeftResponse = false

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

  get chargedAtomic(): AtomicAmount | null {
    return this.landed?.chargedAtomic ?? null
  }

  get mayBeCharged(): boolean {
    return this.hasBegun || this.state === 'settling' || this.state === 'pending' || this.state === 'settled'
  }
}

/** @throws an `Error` for a call that has ended, because its buyer has already got another response */
export function underWay(handle: PaidCall): OpenCall {
  const paid = handle as OpenCall
  if (paid.isOver) throw isEnded()
  return paid
}

export const isEnded = (): Error => new Error('Expected a call in flight, got one that has ended.')

/** The calls of this process that work on payments. A call writes its payment's row only through this class. */
export class OpenCalls {
  readonly #ledger: Pick<Ledger, 'apply' | 'find'>
  readonly #watch: Pick<ChangeWatch, 'notify'>
  readonly #lease: OwnLease
  readonly #log: Log
  // It is an object, because V8 copies a Map as entries come and go, and the old copies would keep finished calls in memory until
  // V8 collects its whole heap (test/garbage.slow.test.ts).
  readonly #underWay: Record<number, OpenCall | undefined> = Object.create(null)

  constructor(
    ledger: Pick<Ledger, 'apply' | 'find'>,
    watch: Pick<ChangeWatch, 'notify'>,
    lease: OwnLease,
    log: Log,
  ) {
    this.#ledger = ledger
    this.#watch = watch
    this.#lease = lease
    this.#log = log
  }

  add(paid: OpenCall): void {
    this.#underWay[paid.row] = paid
  }

  /** Removes a call. If another call has taken over the row meanwhile, that call's entry stays. */
  remove(paid: OpenCall): void {
    if (this.#underWay[paid.row] === paid) delete this.#underWay[paid.row]
  }

  /** Whether a call of this process works on the row. */
  has(row: number): boolean {
    return this.#underWay[row] !== undefined
  }

  /**
   * Writes a change of a call's own row, and updates the call's copy of the state.
   *
   * @returns false if another process has moved the row
   */
  write(paid: OpenCall, change: PaymentChange): Promise<boolean> {
    return (paid.written = this.#write(paid, change))
  }

  /** Like {@link write}, for callers that can continue after a failure. The end of the call discovers a failed write. */
  async tryToWrite(paid: OpenCall, change: PaymentChange): Promise<boolean> {
    try {
      return await this.write(paid, change)
    } catch (err) {
      this.#log.warn({ err, purchaseId: paid.purchaseId }, `could not write a payment as ${change.to} yet`)
      return false
    }
  }

  async #write(paid: OpenCall, change: PaymentChange): Promise<boolean> {
    let isDone: boolean
    try {
      isDone = await this.#ledger.apply(change)
    } catch (error) {
      paid.isSure = false
      throw error
    }
    if (isDone) {
      paid.state = change.to
      if (change.takenBy !== undefined) paid.lease = change.takenBy
      if (change.response !== undefined) paid.hasResponse = change.response !== null
      this.#watch.notify(paid.row)
    } else {
      // After an earlier write without a response, this call may have moved the row itself.
      if (paid.isSure) paid.isLost = true
      paid.isSure = false
    }
    return isDone
  }

  /**
   * Reads a row after a write with an unknown result.
   *
   * @returns false if the row no longer belongs to this call
   */
  async readAgain(paid: OpenCall): Promise<boolean> {
    const record = await this.#ledger.find(paid.payment.identity.key)
    if (record === undefined || record.purchaseId !== paid.purchaseId) return false
    // No process moves a sale back to `settling`, so the database has crashed and lost the sale.
    const isForgotten = paid.state === 'settled' && record.state === 'settling'
    if (paid.isLost && !isForgotten) return false
    if (record.lease !== null && record.lease !== paid.lease) return false
    // Another call of this process may have taken over the row, because the payment was owed back and its buyer has returned.
    const working = this.#underWay[paid.row]
    if (working !== undefined && working !== paid) return false
    paid.state = record.state
    paid.hasResponse = record.hasResponse
    paid.isSure = true
    paid.isLost = false
    return true
  }

  /**
   * Checks that the row still belongs to the call. It reads the row only if this process was suspended for so long that another
   * process may have taken over its rows.
   */
  assertHeld(paid: OpenCall): void | Promise<void> {
    const lease = this.#lease
    if (paid.lease === lease.current.id && paid.lapses === lease.lapses && lease.isHeld) return
    return this.assertRow(paid)
  }

  /**
   * Checks in the database that the row still belongs to the call. If another process took over the payment while this process was
   * suspended, the call must not report that nothing was charged. This process's clock cannot prove that this did not happen,
   * because leases expire by the database's clock, and a suspended machine stops its own clock.
   */
  async assertRow(paid: OpenCall): Promise<void> {
    const { purchaseId, landed } = paid
    const record = await this.#ledger.find(paid.payment.identity.key)
    if (isOurs(paid, record)) return
    paid.isSure = false
    paid.isLost = true
    if (landed === null) throw await this.whyNotOurs(paid)
    throw movedMeanwhile(record, purchaseId, landed.transaction ?? '')
  }

  /**
   * The error for a call whose claim another process has freed, because it treated the call as abandoned. The row shows whether the
   * payment is still unused, or was claimed again and charged meanwhile.
   */
  async whyNotOurs(paid: OpenCall): Promise<TollgateError> {
    const { payment, purchaseId } = paid
    const record = await this.#ledger.find(payment.identity.key)
    if (paid.sessionId !== null && isOurs(paid, record)) {
      // No process has moved the payment, so the payment session has refused it.
      paid.isSure = true
      paid.isLost = false
      return sessionNotOpen()
    }
    if (record === undefined || record.state === 'rejected' || record.state === 'failed_final')
      return notBegun()
    // If an earlier write of this call had succeeded without a response, the row would not be `claimed`. Recovery then sends what
    // was stored.
    return record.purchaseId === purchaseId && record.state === 'claimed' ? notBegun() : stillPending(record)
  }
}

/** Whether a row has the claim, state and lease that its call has last written. */
const isOurs = ({ purchaseId, state, lease }: OpenCall, record: PaymentRecord | undefined): boolean =>
  record?.purchaseId === purchaseId && record.state === state && record.lease === lease

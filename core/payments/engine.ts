import {
  canonicalTransaction,
  type PaymentRecord,
  refundableStates,
  type StoredResponse,
  unchargedStates,
} from '../domain/payment.ts'
import type { Purchase } from '../domain/purchase.ts'
import type { Refusal } from '../ports/chains/settler.ts'
import type { TransferBackFound } from '../ports/store/ledger.ts'
import { Background } from './background.ts'
import { ChangeWatch } from './claimLoop.ts'
import { isEnded, OpenCall, OpenCalls, underWay } from './openCalls.ts'
import type {
  DeliverablePayment,
  DeliveryOutcome,
  PaidCall,
  PaidFor,
  Payments,
  PresentedPayment,
  RefundResult,
} from './payments.ts'
import { newPurchaseId } from './purchase.ts'
import { deliverReorged, mayResume, payBack, resume } from './reconciliation.ts'
import { identifierTaken } from './refusals.ts'
import * as rules from './rules.ts'
import { type EngineDeps, Settlement, settlerOf } from './settlement.ts'

/** Maximum attempts to write the end of a call. An attempt fails if another process changes the row first, which is rare. */
const MAX_CONCLUDE_TURNS = 4
/**
 * How long a claim waits for a payment that has its identifier and may be refused, in ms. The refusal is written right after its
 * response.
 */
const MAX_REFUSAL_MS = 1_000

const isUncharged = ({ state }: PaymentRecord): boolean =>
  (unchargedStates as readonly string[]).includes(state)

type Claimed = { readonly won: PaidCall } | { readonly lost: PaymentRecord }

/** Claims and verifies the payment of a call, and ends the call. settlement.ts charges the payment. */
export class PaymentEngine implements Payments {
  readonly #deps: EngineDeps
  readonly #watch: ChangeWatch
  readonly #calls: OpenCalls
  readonly #background: Background
  readonly #settlement: Settlement
  /** Rows that no call may take over now, see {@link Payments.withhold}. */
  readonly #withheld = new Set<number>()

  constructor(deps: EngineDeps) {
    const { ledger, lease, log } = deps
    this.#deps = deps
    this.#watch = new ChangeWatch(ledger)
    this.#calls = new OpenCalls(ledger, this.#watch, lease, log)
    this.#background = new Background({ ledger, calls: this.#calls, watch: this.#watch, lease, log })
    this.#settlement = new Settlement(deps, this.#calls)
  }

  async claim(presented: PresentedPayment, call: PaidFor): Promise<Claimed> {
    const claimed = await this.#claim(presented, call)
    if ('won' in claimed || claimed.lost.key === presented.identity.key) return claimed
    return this.#claimAfter(claimed.lost, presented, call)
  }

  /**
   * Claims a payment whose identifier another payment has, once the other payment is refused.
   *
   * @throws `payment_id_reused` when the other payment is not refused
   */
  async #claimAfter(other: PaymentRecord, presented: PresentedPayment, call: PaidFor): Promise<Claimed> {
    const endMs = performance.now() + MAX_REFUSAL_MS
    for (let holder = other; ; ) {
      const leftMs = endMs - performance.now()
      const now = holder.state === 'claimed' ? await this.#watch.changed(holder, leftMs) : holder
      // The other payment may also have been refused right before its row was read.
      if (now === undefined || !isUncharged(now) || leftMs <= 0) throw identifierTaken(holder)
      const claimed = await this.#claim(presented, call)
      if ('won' in claimed || claimed.lost.key === presented.identity.key) return claimed
      holder = claimed.lost
    }
  }

  /** @returns the row of another payment if that has the identifier */
  async #claim(presented: PresentedPayment, call: PaidFor): Promise<Claimed> {
    const { ledger, lease, clock } = this.#deps
    const { identity, payload, terms } = presented
    // Throws for a payment that no settler has checked.
    settlerOf(presented)
    const { linkId, sessionId, storeId, requestHash } = call
    // The lease is copied before the claim is sent, because this process may be suspended until the response arrives.
    const held = { current: lease.current, lapses: lease.lapses }
    const purchaseId = newPurchaseId(clock.now())
    const result = await ledger
      .claim({
        ...identity,
        scheme: terms.scheme,
        lease: held.current.id,
        linkId,
        sessionId,
        storeId,
        requestHash,
        purchaseId,
        payload: JSON.stringify(payload),
        ...(payload.identifier !== undefined && { identifier: payload.identifier }),
      })
      .catch((error: unknown) => {
        this.#background.freeUnanswered(identity.key, purchaseId)
        throw error
      })
    if (!result.won) {
      this.#background.hasten(result.record)
      return { lost: result.record }
    }
    const paid = new OpenCall(presented, call, result.row, purchaseId, held, 'claimed')
    this.#calls.add(paid)
    return { won: paid }
  }

  async verify(handle: PaidCall): Promise<{ readonly ok: true } | Refusal> {
    const paid = underWay(handle)
    const { payload, terms, identity } = paid.payment
    const settler = settlerOf(paid.payment)
    const verified = await settler.verify(payload, terms, identity, { storeId: paid.call.storeId })
    if (!verified.ok) {
      paid.refusedFor = verified.reason
      await this.#calls.assertRow(paid)
      return verified
    }
    if (paid.isOver) {
      verified.hold.release()
      throw isEnded()
    }
    paid.hold?.release()
    paid.hold = verified.hold
    return { ok: true }
  }

  assertHeld(handle: PaidCall): void | Promise<void> {
    return this.#calls.assertHeld(underWay(handle))
  }

  settle(
    handle: PaidCall,
    response: StoredResponse | null,
    amountAtomic?: bigint,
  ): ReturnType<Payments['settle']> {
    return this.#settlement.settle(handle, response, amountAtomic)
  }

  record(handle: PaidCall): Promise<void> {
    return this.#settlement.record(handle)
  }

  deliver(
    handle: PaidCall | DeliverablePayment,
    outcome: DeliveryOutcome,
    response?: StoredResponse,
    reason?: string,
  ): void {
    if (handle instanceof OpenCall && !handle.isOver) return this.#end(handle, outcome, response, reason)
    // A payment that was freed or is owed back has no response for a repeated call, so there is no delivery to record.
    const hasResponse = !(handle instanceof OpenCall) || handle.hasLeftResponse
    if (outcome === 'delivered' && hasResponse) this.#background.noteDelivered(handle)
  }

  #end(paid: OpenCall, outcome: DeliveryOutcome, response?: StoredResponse, reason?: string): void {
    paid.isOver = true
    paid.hasLeftResponse = outcome === 'delivered' || outcome === 'not_collected' || outcome === 'unsent'
    paid.hold?.release()
    const ended = this.#background.insist(paid.purchaseId, () =>
      this.#conclude(paid, outcome, response, reason),
    )
    void ended.then(() => {
      // This must happen before this process's own recovery may read the row.
      if (paid.isLost) this.#settlement.overtaken(paid)
      this.#calls.remove(paid)
    })
  }

  /** Writes the outcome of a call that has ended to the payment's row. */
  async #conclude(
    paid: OpenCall,
    outcome: DeliveryOutcome,
    response: StoredResponse | undefined,
    reason: string | undefined,
  ): Promise<void> {
    for (let turn = 0; turn < MAX_CONCLUDE_TURNS; turn++) {
      // The settler may have given up while an attempt was being stored. The attempt may still appear in the row, and this call has
      // to free it.
      await paid.written?.catch(() => undefined)
      if (!paid.isSure && !(await this.#calls.readAgain(paid))) {
        // This process has sent the response, but another process has taken over the payment, because the database was down for
        // longer than a lease lasts.
        if (outcome === 'delivered' && paid.landed !== null)
          this.#background.noteDelivered(paid, paid.payment.identity.key)
        return
      }
      if (paid.state === 'settling' && paid.landed !== null) {
        if (!(await this.#settlement.book(paid, paid.landed))) continue
      }
      const change = rules.conclude(paid, outcome, response, paid.refusedFor ?? reason)
      if (change === undefined || (await this.#calls.write(paid, change))) return
      if (change.to === 'delivered' && (await this.#deps.ledger.apply(deliverReorged(paid)))) return
    }
  }

  async resume(
    record: PaymentRecord,
    presented: PresentedPayment,
    call: PaidFor,
  ): Promise<PaidCall | undefined> {
    const { lease } = this.#deps
    const calls = this.#calls
    // Only one call of this process may work on a row. Two calls would have the same lease, so the end of one call would change the
    // row of the other.
    if (!mayResume(record) || calls.has(record.row) || this.#withheld.has(record.row)) return undefined
    const { row, purchaseId, transaction, event, block, chargedAtomic, amountAtomic } = record
    const held = { current: lease.current, lapses: lease.lapses }
    const paid = new OpenCall(presented, call, row, purchaseId, held, 'settled')
    paid.landed = { transaction, event, block, chargedAtomic: chargedAtomic ?? amountAtomic }
    calls.add(paid)
    try {
      if (await calls.write(paid, resume(record, held.current.id))) return paid
    } catch (error) {
      // The change may be written anyway. The payment is then owed back again, until its buyer returns.
      this.#end(paid, 'not_charged')
      throw error
    }
    calls.remove(paid)
    return undefined
  }

  async find(key: string): Promise<PaymentRecord | undefined> {
    const record = await this.#deps.ledger.find(key)
    if (record !== undefined) this.#background.hasten(record)
    return record
  }

  responseOf({ row }: PaymentRecord): Promise<StoredResponse | undefined> {
    return this.#deps.ledger.responseOf(row)
  }

  changed(seen: PaymentRecord, waitMs: number): Promise<PaymentRecord | undefined> {
    return this.#watch.changed(seen, waitMs)
  }

  async refund(payment: PaymentRecord, purchase: Purchase, proof: TransferBackFound): Promise<RefundResult> {
    const { ledger } = this.#deps
    if (await ledger.apply(payBack(payment, purchase, proof))) {
      this.#watch.notify(payment.row)
      return 'refunded'
    }
    const known = await ledger.refundOf(payment.row)
    if (known !== undefined) {
      const transaction = canonicalTransaction(proof.network, proof.transaction)
      return known.transaction === transaction ? 'refunded' : 'refunded_otherwise'
    }
    const now = await ledger.find(payment.key)
    const mayBe: readonly string[] = refundableStates
    return now !== undefined && mayBe.includes(now.state) ? 'transaction_used' : 'not_refundable'
  }

  isUnderWay(row: number): boolean {
    return this.#calls.has(row)
  }

  withhold(row: number): (() => void) | undefined {
    if (this.#calls.has(row) || this.#withheld.has(row)) return undefined
    this.#withheld.add(row)
    return () => void this.#withheld.delete(row)
  }

  abandonOrphans(): Promise<number> {
    return this.#background.abandonOrphans()
  }
}

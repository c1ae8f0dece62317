import {
  chargedStates,
  landedLate,
  mayMove,
  type PaymentState,
  refundableStates,
} from '../../core/domain/payment.ts'
import type { PurchaseStatus } from '../../core/domain/purchase.ts'
import type { RefundResult } from '../../core/ports/payments.ts'

export interface ModelRow {
  state: PaymentState
  owner: string
  purchaseId: string
  transaction: string | null
  errorReason: string | null
  attempt: string | null
  answer: number | null
  updatedAtMs: number
}

export type Outcome = boolean | 'throws' | 'conflict'

/** What the Payments port promises, as a handful of maps: the judge of the real ones. */
export class PaymentModel {
  readonly rows = new Map<string, ModelRow>()
  readonly purchases = new Map<string, { id: string; status: PurchaseStatus; transaction: string }>()

  /** Given up before they landed. */
  readonly #soldNothing = new Set<string>()

  /** Transfers back by the payment's key. */
  readonly refunds = new Map<string, string>()

  claim(key: string, owner: string, purchaseId: string, nowMs: number): boolean {
    const row = this.rows.get(key)
    if (row !== undefined && row.state !== 'rejected') return false
    this.rows.set(key, {
      ...{ state: 'claimed', owner, purchaseId, transaction: null, errorReason: null },
      ...{ attempt: null, answer: null, updatedAtMs: nowMs },
    })
    return true
  }

  advance(
    key: string,
    owner: string,
    from: PaymentState,
    to: PaymentState,
    reason: string,
    nowMs: number,
  ): Outcome {
    if (!mayMove(from, to)) return 'throws'
    if (!['verified', 'rejected', 'pending', 'failed_final'].includes(to)) return 'throws'
    const row = this.rows.get(key)
    if (row?.state !== from || row.owner !== owner) return false
    Object.assign(row, { state: to, errorReason: reason, updatedAtMs: nowMs })
    if (from === 'settling' && to === 'rejected') row.answer = null
    return true
  }

  beginSettlement(
    key: string,
    owner: string,
    attempt: string,
    answer: number | null,
    nowMs: number,
  ): Outcome {
    const row = this.rows.get(key)
    if ((row?.state !== 'claimed' && row?.state !== 'verified') || row.owner !== owner) return false
    Object.assign(row, { state: 'settling', attempt, answer, updatedAtMs: nowMs })
    return true
  }

  settle(key: string, owner: string, transaction: string, nowMs: number): Outcome {
    const row = this.rows.get(key)
    if (row === undefined) return false
    const isOpen = ['settling', 'pending', 'reorged'].includes(row.state) && row.owner === owner
    if (!isOpen) return this.purchases.has(key) && (chargedStates as readonly string[]).includes(row.state)
    for (const [other, purchase] of this.purchases) {
      if (other !== key && purchase.transaction === transaction) return 'conflict'
    }
    Object.assign(row, { state: 'settled', transaction, errorReason: null, updatedAtMs: nowMs })
    this.purchases.set(key, { id: row.purchaseId, status: 'settled', transaction })
    return true
  }

  keepAnswer(key: string, answer: number): void {
    const row = this.rows.get(key)
    if (row !== undefined && !['claimed', 'verified', 'rejected'].includes(row.state)) row.answer = answer
  }

  moveCharged(
    key: string,
    from: PaymentState,
    to: PurchaseStatus & PaymentState,
    reason: string | undefined,
    nowMs: number,
  ): Outcome {
    if (!mayMove(from, to)) return 'throws'
    const row = this.rows.get(key)
    if (row?.state !== from) return false
    Object.assign(row, { state: to, errorReason: reason ?? row.errorReason, updatedAtMs: nowMs })
    const purchase = this.purchases.get(key)
    if (purchase !== undefined) purchase.status = to
    else if (from === 'failed_final') this.#soldNothing.add(key)
    return true
  }

  resume(key: string, owner: string, nowMs: number): boolean {
    const row = this.rows.get(key)
    if (row?.state !== 'refund_due' || row.errorReason !== landedLate || this.#soldNothing.has(key))
      return false
    Object.assign(row, { state: 'settled', owner, errorReason: null, updatedAtMs: nowMs })
    this.purchases.get(key)!.status = 'settled'
    return true
  }

  recordRefund(key: string, transaction: string, nowMs: number): RefundResult {
    const row = this.rows.get(key)
    const known = this.refunds.get(key)
    if (known !== undefined) return known === transaction ? 'refunded' : 'refunded_otherwise'
    if (!(refundableStates as readonly string[]).includes(row?.state ?? '')) return 'not_refundable'
    const settled = [...this.purchases.values()].map((purchase) => purchase.transaction)
    if ([...settled, ...this.refunds.values()].includes(transaction)) return 'transaction_used'
    this.refunds.set(key, transaction)
    Object.assign(row!, { state: 'refunded', updatedAtMs: nowMs })
    const purchase = this.purchases.get(key)
    if (purchase !== undefined) purchase.status = 'refunded'
    return 'refunded'
  }

  takeOver(key: string, previousOwner: string, owner: string, nowMs: number): boolean {
    const row = this.rows.get(key)
    if (row?.owner !== previousOwner) return false
    Object.assign(row, { owner, updatedAtMs: nowMs })
    return true
  }

  forgetAnswers(afterMs: number, beforeMs: number): number {
    let forgotten = 0
    for (const row of this.rows.values()) {
      const isOpen = row.state === 'settling' || row.state === 'pending'
      if (row.answer === null || isOpen || row.updatedAtMs < afterMs || row.updatedAtMs >= beforeMs) continue
      row.answer = null
      forgotten++
    }
    return forgotten
  }
}

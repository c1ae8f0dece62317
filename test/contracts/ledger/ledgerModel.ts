import type { PaymentState } from '../../../core/domain/payment.ts'
import type { Purchase } from '../../../core/domain/purchase.ts'
import type { PaymentChange, PutOff } from '../../../core/ports/store/ledger.ts'

export interface ModelRow {
  state: PaymentState
  lease: number | null
  purchaseId: string
  transaction: string | null
  event: string | null
  errorReason: string | null
  attempt: string | null
  response: number | null
  tries: number
  updatedAtMs: number
  dueAtMs: number | null
}

const mayHaveLease = ['claimed', 'settling', 'pending', 'settled']

/** What the port Books promises of one row after another, as a handful of maps: the judge of the real ones. */
export class BookModel {
  readonly rows = new Map<string, ModelRow>()
  readonly purchases = new Map<
    string,
    { status: Purchase['status']; transaction: string; event: string | null }
  >()
  readonly refunds = new Map<string, string>()
  readonly lines = new Map<string, number>()

  claim(key: string, lease: number, purchaseId: string, nowMs: number): boolean {
    const present = this.rows.get(key)
    if (present !== undefined && present.state !== 'rejected') return false
    this.rows.set(key, {
      state: 'claimed',
      lease,
      purchaseId,
      transaction: null,
      event: null,
      errorReason: null,
      attempt: null,
      response: null,
      tries: 0,
      updatedAtMs: nowMs,
      dueAtMs: null,
    })
    return true
  }

  apply(key: string, change: PaymentChange, nowMs: number, storeNowMs: number): boolean | 'conflict' {
    const row = this.rows.get(key)
    if (row === undefined || !change.from.includes(row.state)) return false
    if (row.purchaseId !== change.purchaseId) return false
    if (change.lease !== null && change.lease !== row.lease) return false
    if (change.errorWas !== undefined && change.errorWas !== row.errorReason) return false
    const back = change.refund?.transaction
    if (back !== undefined && (this.refunds.has(key) || this.#isUsed(back))) return false
    const { settled, purchase } = change
    if (purchase !== undefined) {
      const event = settled?.event ?? null
      for (const [other, sold] of this.purchases) {
        if (other !== key && event !== null && sold.transaction === purchase.txHash && sold.event === event)
          return 'conflict'
      }
      this.purchases.set(key, { status: purchase.status, transaction: purchase.txHash!, event })
    }
    const sold = this.purchases.get(key)
    if (change.purchaseStatus !== undefined && sold !== undefined) {
      sold.status = change.purchaseStatus
      // What has left the chain holds no event there.
      if (sold.status === 'reorged') sold.event = null
    }
    if (back !== undefined) this.refunds.set(key, back)
    const lines = (this.lines.get(row.purchaseId) ?? 0) + (change.entries?.length ?? 0)
    this.lines.set(row.purchaseId, lines)
    if (settled !== undefined) Object.assign(row, { transaction: settled.transaction, event: settled.event })
    if (change.errorReason !== undefined) row.errorReason = change.errorReason
    if (change.attempt !== undefined) row.attempt = change.attempt?.bytes ?? null
    if (change.response !== undefined) row.response = change.response?.status ?? null
    if (change.takenBy !== undefined) row.lease = change.takenBy
    if (!mayHaveLease.includes(change.to)) row.lease = null
    row.dueAtMs = change.dueInMs === null ? null : storeNowMs + change.dueInMs
    Object.assign(row, { state: change.to, tries: 0, updatedAtMs: nowMs })
    return true
  }

  putOff(key: string, { state, afterMs, tries }: PutOff, storeNowMs: number): void {
    const row = this.rows.get(key)
    if (row?.state !== state) return
    row.tries = tries
    row.dueAtMs = afterMs === null ? null : storeNowMs + afterMs
  }

  adopt(keys: readonly string[], lease: number, living: readonly number[], storeNowMs: number): number {
    let count = 0
    for (const key of keys) {
      const row = this.rows.get(key)
      if (row?.lease == null || row.lease === lease || living.includes(row.lease)) continue
      row.lease = lease
      row.dueAtMs = storeNowMs
      count++
    }
    return count
  }

  #isUsed(transaction: string): boolean {
    const paid = [...this.purchases.values()].map((sold) => sold.transaction)
    return [...paid, ...this.refunds.values()].includes(transaction)
  }
}

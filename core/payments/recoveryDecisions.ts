import type { NetworkId } from '../domain/network.ts'
import type { PaymentRecord } from '../domain/payment.ts'
import { mayConfirm } from '../domain/session.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { RefundProofs } from '../ports/chains/refundProofs.ts'
import type { Settled } from '../ports/chains/settler.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/log.ts'
import type { Lease } from '../ports/store/leases.ts'
import type { Ledger, PaymentChange, PutOff } from '../ports/store/ledger.ts'
import type { Purchases } from '../ports/store/purchases.ts'
import type { Sessions } from '../ports/store/sessions.ts'
import type { Payments } from './payments.ts'
import { assetOf, type PurchaseNotes } from './purchase.ts'
import { land } from './reconciliation.ts'
import type { SettlerQueries } from './transferWatch.ts'

export interface RecoveryDeps {
  readonly ledger: Ledger
  readonly payments: Pick<Payments, 'isUnderWay' | 'withhold'>
  readonly purchases: Pick<Purchases, 'find' | 'refundOf' | 'lostRefundsOf'>
  readonly sessions: Pick<Sessions, 'find'>
  readonly chains: Pick<Chains, 'assets' | 'settlers'> & {
    /** The settler or watch for payments of a scheme. Undefined if payments of that scheme cannot be checked now. */
    settler(network: NetworkId, scheme: string): SettlerQueries | undefined
  }
  readonly refundProofs: RefundProofs
  readonly notes: Pick<PurchaseNotes, 'tokenHash'>
  /** This process's own lease. Recovery writes it to the rows that it takes over. */
  readonly lease: { readonly current: Lease }
  readonly clock: Clock
  readonly log: Log
}

/** First pause before a row that stays open is checked again, in ms. The pause doubles each time, up to `LONGEST_PAUSE_MS`. */
const FIRST_PAUSE_MS = 2_000
export const LONGEST_PAUSE_MS = 60_000
/** Pause before a row whose call is still running is checked again, in ms. */
const UNDER_WAY_MS = 2_000

/** The pause before the next check of a row that was put off `tries` times, in ms. */
export const pauseMs = (tries: number, longestMs = LONGEST_PAUSE_MS): number =>
  Math.min(FIRST_PAUSE_MS * 2 ** Math.min(tries, 20), longestMs)

interface Decided {
  readonly record: PaymentRecord
  readonly change: PaymentChange
  readonly whenBooked: (() => void) | undefined
}

/** Collects the decisions about the rows of one page and writes them together. Each row is changed, or put off with a reason. */
export class Decisions {
  readonly #changes: Decided[] = []
  readonly #later: PutOff[] = []
  readonly #deps: RecoveryDeps

  constructor(deps: RecoveryDeps) {
    this.#deps = deps
  }

  /** @param whenBooked called once the change is written. Not called if another process has moved the row */
  change(record: PaymentRecord, change: PaymentChange, whenBooked?: () => void): void {
    this.#changes.push({ record, change, whenBooked })
  }

  /**
   * Records a transfer that was found on chain.
   *
   * @param late rows that can no longer confirm their payment sessions
   */
  land(record: PaymentRecord, outcome: Settled, late: ReadonlySet<number>, whenBooked: () => void): void {
    const { chains, notes, clock, log } = this.#deps
    const { transaction, event, block, chargedAtomic } = outcome
    const { purchaseId, state } = record
    const sale = {
      payment: record,
      landed: { transaction, event, block, chargedAtomic },
      asset: assetOf(chains.assets, record),
      reviewTokenHash: notes.tokenHash(purchaseId),
      atMs: clock.now(),
    }
    const change = land(record, sale, late.has(record.row))
    this.change(record, change, whenBooked)
    log.info({ purchaseId, transaction, from: state, to: change.to }, 'an open payment was found on chain')
  }

  /** @param afterMs null if the row is never checked again */
  putOff(
    { row, state, tries }: PaymentRecord,
    reason?: string,
    afterMs: number | null = pauseMs(tries),
  ): void {
    this.#later.push({ row, state, afterMs, tries: tries + 1, ...(reason !== undefined && { reason }) })
  }

  /** Puts off a payment on a network that cannot be queried. */
  putOffUnreachable(record: PaymentRecord): void {
    const { network, scheme } = record
    this.putOff(record, `${network} (${scheme}) is not configured, or its facilitator does not respond`)
  }

  /** Puts a row off without counting a failed check. */
  recheck({ row, state }: PaymentRecord, afterMs: number | null, reason?: string): void {
    this.#later.push({ row, state, afterMs, tries: 0, ...(reason !== undefined && { reason }) })
  }

  /**
   * Leaves out the rows whose calls are still running in this process, even if they look abandoned by the clock, because these
   * calls write their rows.
   */
  withoutUnderWay(records: readonly PaymentRecord[]): PaymentRecord[] {
    return records.filter((record) => {
      if (!this.#deps.payments.isUnderWay(record.row)) return true
      this.recheck(record, UNDER_WAY_MS)
      return false
    })
  }

  /** The rows that could not confirm their payment sessions if they landed now. */
  async tooLate(records: readonly PaymentRecord[]): Promise<ReadonlySet<number>> {
    const { sessions, clock } = this.#deps
    const nowMs = clock.now()
    const rows = await Promise.all(
      records.map(async ({ row, sessionId }) => {
        if (sessionId === null) return []
        const session = await sessions.find(sessionId)
        return session !== undefined && mayConfirm(session, row, nowMs) ? [] : [row]
      }),
    )
    return new Set(rows.flat())
  }

  /** Queries each settler once, about all of its payments. */
  async queryEach<T>(
    records: readonly PaymentRecord[],
    query: (settler: SettlerQueries, records: readonly PaymentRecord[]) => Promise<readonly T[]>,
    decide: (record: PaymentRecord, result: T, settler: SettlerQueries) => void,
  ): Promise<void> {
    const { chains } = this.#deps
    const bySettler = Map.groupBy(records, ({ network, scheme }) => chains.settler(network, scheme))
    for (const [settler, own] of bySettler) {
      if (settler === undefined) for (const record of own) this.putOffUnreachable(record)
      else {
        const results = await query(settler, own).catch((error: unknown) => error as Error)
        for (const [i, record] of own.entries()) {
          this.about(record, () => {
            if (results instanceof Error) throw results
            decide(record, results[i]!, settler)
          })
        }
      }
    }
  }

  /** Decides about one row. An error puts off only this row. */
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
    const { ledger } = this.#deps
    const done = changes.length === 0 ? [] : await ledger.applyAll(changes.map(({ change }) => change))
    let moved = 0
    for (const [i, { record, change, whenBooked }] of changes.entries()) {
      const result = done[i]
      if (result instanceof Error) this.#cannot(record, result)
      if (result !== true) continue
      if (change.to !== record.state) moved++
      whenBooked?.()
    }
    if (this.#later.length > 0) await ledger.putOff(this.#later)
    return moved
  }

  #cannot(record: PaymentRecord, error: unknown): void {
    const why = error instanceof Error ? error.message : String(error)
    this.#deps.log.warn({ purchaseId: record.purchaseId, state: record.state, why }, 'a payment is put off')
    this.putOff(record, why)
  }
}

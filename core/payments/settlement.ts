import type { AtomicAmount } from '../domain/money.ts'
import {
  isSentFirst,
  type PaymentIdentity,
  type SettlementAttempt,
  type StoredResponse,
} from '../domain/payment.ts'
import { isTollgateError } from '../errors/error.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { SettleOutcome, Settler } from '../ports/chains/settler.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/log.ts'
import { isDatabaseDown } from '../ports/refusals.ts'
import type { Ledger } from '../ports/store/ledger.ts'
import type { PaymentRequirements } from '../x402/types.ts'
import { isEnded, type OpenCall, type OpenCalls, type OwnLease, underWay } from './openCalls.ts'
import type { PaidCall, PresentedPayment, SettleEnd } from './payments.ts'
import { assetOf, type Landed, type PurchaseNotes } from './purchase.ts'
import { movedMeanwhile, notBegun } from './refusals.ts'
import * as rules from './rules.ts'

/** The dependencies of the payment engine. */
export interface EngineDeps {
  readonly ledger: Ledger
  readonly chains: Pick<Chains, 'assets'>
  readonly notes: Pick<PurchaseNotes, 'tokenHash'>
  readonly lease: OwnLease
  readonly clock: Clock
  readonly log: Log
  /** Called with each settlement's outcome and duration in ms. If absent, nothing is counted. */
  readonly onSettled?: (network: string, outcome: SettleOutcome['status'], ms: number) => void
}

/** Charges the payment of one call, and records the sale. */
export class Settlement {
  readonly #deps: EngineDeps
  readonly #calls: OpenCalls

  constructor(deps: EngineDeps, calls: OpenCalls) {
    this.#deps = deps
    this.#calls = calls
  }

  /** @see Payments.settle */
  async settle(handle: PaidCall, response: StoredResponse | null, amountAtomic?: bigint): Promise<SettleEnd> {
    const paid = underWay(handle)
    const { payload, terms, identity } = paid.payment
    const { log, onSettled } = this.#deps
    const settler = settlerOf(paid.payment)
    if (amountAtomic !== undefined) assertChargeable(terms, identity, amountAtomic)
    if (amountAtomic === 0n) {
      paid.landed = { transaction: null, event: null, block: null, chargedAtomic: 0n }
      paid.freeResponse = response
      return { status: 'settled', transaction: null, chargedAtomic: 0n }
    }
    const lessAtomic = amountAtomic === identity.amountAtomic ? undefined : amountAtomic
    const writer = new AttemptWriter(this.#calls, paid, response, lessAtomic)
    const charged = amountAtomic === undefined ? terms : { ...terms, amount: amountAtomic.toString() }
    let outcome: SettleOutcome
    let ended: SettleOutcome['status'] = 'rejected'
    const sinceMs = performance.now()
    try {
      outcome = await settler.settle(payload, charged, identity, writer.store, paid.hold ?? undefined)
      ended = outcome.status
    } catch (err) {
      if (!paid.hasBegun) throw writer.failure ?? err
      // The signed transaction may already be sent, so recovery checks whether it was confirmed.
      log.error(
        { err, purchaseId: paid.purchaseId },
        'the settler failed after the payment was stored; its outcome is open',
      )
      outcome = { status: 'pending', transaction: '', reason: 'settlement_pending' }
      ended = 'pending'
    } finally {
      onSettled?.(identity.network, ended, performance.now() - sinceMs)
    }
    if (outcome.status === 'rejected') {
      // A settler waits for the database only for a limited time. If an attempt were stored after that, recovery would send it. The
      // call therefore reports that nothing was charged only when nothing can be stored any more.
      await writer.storing
      // The engine's reason why nothing was sent is more exact than the settler's.
      if (writer.failure !== undefined) {
        if (paid.state === 'settling') {
          const end = await this.#rejected(paid, outcome, paid.attempt?.transaction ?? '')
          if (end.status === 'pending') return end
        }
        throw writer.failure
      }
    }
    return this.#conclude(paid, outcome)
  }

  #conclude(paid: OpenCall, outcome: SettleOutcome): Promise<SettleEnd> | SettleEnd {
    const sent = paid.attempt?.transaction ?? ''
    paid.unwritten = outcome
    switch (outcome.status) {
      case 'settled': {
        const { transaction, event, block, chargedAtomic } = outcome
        paid.landed = { transaction, event, block, chargedAtomic }
        if (chargedAtomic > paid.payment.identity.amountAtomic)
          this.#deps.log.error(
            { purchaseId: paid.purchaseId, transaction },
            'more was charged than was authorized',
          )
        return { status: 'settled', transaction, chargedAtomic }
      }
      case 'pending':
        return this.#pending(paid, outcome, outcome.transaction || sent)
      case 'failed_final':
        return this.#failed(paid, outcome)
      case 'rejected':
        return outcome.transient === true && paid.state === 'settling' && isSentFirst(paid.call)
          ? this.#postponed(paid, outcome)
          : this.#rejected(paid, outcome, sent)
    }
  }

  /**
   * The facilitator could not be reached, and the buyer already has the response. The payment stays `settling`, so that its call can
   * settle it again. If the call ends first, its end frees the payment. If the process ends first, recovery settles the payment.
   */
  #postponed(paid: OpenCall, { reason, message }: SettleOutcome & { status: 'rejected' }): SettleEnd {
    paid.hasBegun = false
    paid.refusedFor = reason
    return { status: 'rejected', reason, message, transient: true }
  }

  async #pending(
    paid: OpenCall,
    { reason, recheckMs }: SettleOutcome & { status: 'pending' },
    transaction: string,
  ): Promise<SettleEnd> {
    this.#deps.log.warn({ purchaseId: paid.purchaseId, transaction, reason }, 'settlement pending')
    if (await this.#calls.tryToWrite(paid, rules.pend(paid, reason, recheckMs))) paid.unwritten = null
    return { status: 'pending', transaction, reason }
  }

  async #failed(
    paid: OpenCall,
    { transaction, reason }: SettleOutcome & { status: 'failed_final' },
  ): Promise<SettleEnd> {
    if (await this.#calls.tryToWrite(paid, rules.giveUp(paid, reason))) paid.unwritten = null
    return { status: 'failed', transaction, reason }
  }

  async #rejected(
    paid: OpenCall,
    { reason, message, transient }: SettleOutcome & { status: 'rejected' },
    sent: string,
  ): Promise<SettleEnd> {
    paid.hasBegun = false
    paid.refusedFor = reason
    if (paid.state === 'settling') {
      // Another process may have taken over the payment meanwhile and sent it.
      if (!(await this.#calls.tryToWrite(paid, rules.free(paid, reason))))
        return { status: 'pending', transaction: sent, reason: 'settlement_pending' }
    } else await this.#calls.assertRow(paid)
    return { status: 'rejected', reason, message, ...(transient === true && { transient }) }
  }

  /** @see Payments.record */
  async record(handle: PaidCall): Promise<void> {
    const paid = underWay(handle)
    if (paid.landed === null) throw new Error('Expected a payment that is settled, got one that is not.')
    const { purchaseId, landed } = paid
    const { ledger, log } = this.#deps
    const transaction = landed.transaction ?? ''
    try {
      if (await this.book(paid, landed)) return
    } catch (err) {
      log.error({ err, purchaseId }, 'charged, but the purchase could not be written yet')
      throw movedMeanwhile(undefined, purchaseId, transaction)
    }
    const record = await ledger.find(paid.payment.identity.key).catch(() => undefined)
    // Another process may have recorded the same purchase while this call has its response. If the gateway calls the seller's API
    // after the charge, that does not count, because the other process may already have called it.
    const isRecorded =
      !paid.call.settlesFirst &&
      record?.purchaseId === purchaseId &&
      (record.state === 'delivered' || (record.state === 'settled' && record.hasResponse))
    if (!isRecorded) throw movedMeanwhile(record, purchaseId, transaction)
    if (paid.isLost) this.overtaken(paid)
    Object.assign(paid, { state: record.state, hasResponse: record.hasResponse, lease: null, isSure: true })
    paid.isLost = false
  }

  /** Writes the sale. @returns false if another process has moved the row */
  async book(paid: OpenCall, landed: Landed): Promise<boolean> {
    const { payment, call, purchaseId } = paid
    const { identity } = payment
    const { chains, notes, clock } = this.#deps
    const sale = {
      payment: { ...identity, ...call, purchaseId },
      landed,
      asset: assetOf(chains.assets, identity),
      reviewTokenHash: notes.tokenHash(purchaseId),
      atMs: clock.now(),
    }
    try {
      const isDone = await this.#calls.write(
        paid,
        paid.chargedAtomic === 0n
          ? rules.sellForNothing(paid, sale, paid.freeResponse)
          : rules.sell(paid, sale, paid.attempt, call.settlesFirst),
      )
      if (isDone) paid.unwritten = null
      return isDone
    } catch (error) {
      // A retry would not help, for example if the event belongs to another payment. Recovery reports the error to the operator.
      if (!isDatabaseDown(error)) paid.landed = null
      throw error
    }
  }

  /** Notifies the settler that another process has taken over the row. That process counts the gas cost of the settlement. */
  overtaken(paid: OpenCall): void {
    const { unwritten, payment } = paid
    paid.unwritten = null
    if (unwritten !== null) payment.settler?.overtaken?.(payment.identity, unwritten)
  }
}

/** Stores what a settler has signed for one call, before the settler sends it. */
class AttemptWriter {
  /** Why the last attempt was not stored, for the buyer. */
  failure: unknown
  /** The last write. It never rejects. */
  storing: Promise<unknown> | undefined
  readonly #calls: OpenCalls
  readonly #paid: OpenCall
  readonly #response: StoredResponse | null
  readonly #chargingAtomic: AtomicAmount | undefined

  /** @param chargingAtomic the amount to charge, if it is less than the authorized amount */
  constructor(
    calls: OpenCalls,
    paid: OpenCall,
    response: StoredResponse | null,
    chargingAtomic: AtomicAmount | undefined,
  ) {
    this.#calls = calls
    this.#paid = paid
    this.#response = response
    this.#chargingAtomic = chargingAtomic
  }

  /** Stores an attempt for the settler. @returns whether the settler may send it */
  readonly store = (attempt: SettlementAttempt): Promise<boolean> => {
    const stored = this.#store(attempt)
    this.storing = stored.catch(() => undefined)
    return stored
  }

  async #store(attempt: SettlementAttempt): Promise<boolean> {
    const paid = this.#paid
    const calls = this.#calls
    // The call ended while the attempt waited for its turn. The payment is free again, so the attempt must not be sent.
    if (paid.isOver) throw (this.failure = isEnded())
    // `hasBegun` is restored if the write fails, because an earlier attempt may have been sent.
    const hadBegun = paid.hasBegun
    const change =
      paid.attempt === null
        ? rules.begin(paid, attempt, this.#response, this.#chargingAtomic)
        : rules.beginAgain(paid, attempt)
    // Set before the write, because a call that ends during the write must not report that nothing was charged.
    paid.hasBegun = true
    try {
      if (!(await calls.write(paid, change))) {
        paid.hasBegun = hadBegun
        this.failure = await calls.whyNotOurs(paid)
        return false
      }
    } catch (error) {
      paid.hasBegun = hadBegun
      // Another process has signed with the same nonce, so this process charges nothing and has to read its nonces again.
      this.failure = isTollgateError(error) && error.code === 'CONFLICT' ? notBegun() : error
      throw error
    }
    paid.attempt = attempt
    if (!paid.isOver || hadBegun) return true
    // The call ended during the write, so the payment is freed before the settler uses the nonce for another payment. If it cannot
    // be freed, the attempt is sent now, because recovery would send it anyway.
    if (!(await calls.tryToWrite(paid, rules.free(paid, 'call_timeout')))) return true
    paid.hasBegun = false
    throw (this.failure = isEnded())
  }
}

/** @throws an `Error` for an amount that the payment does not allow, because a plugin has made a mistake */
function assertChargeable(
  { scheme }: PaymentRequirements,
  { amountAtomic: mostAtomic }: PaymentIdentity,
  amountAtomic: AtomicAmount,
): void {
  if (amountAtomic < 0n || amountAtomic > mostAtomic)
    throw new Error(`Expected to charge at most the ${mostAtomic} that was authorized, got ${amountAtomic}.`)
  if (amountAtomic < mostAtomic && scheme !== 'upto')
    throw new Error(`Expected to charge ${mostAtomic} by the scheme ${scheme}, got ${amountAtomic}.`)
}

/** @throws an `Error` for a payment that no settler could check, because such a payment can never be claimed */
export function settlerOf({ settler, identity }: PresentedPayment): Settler {
  if (settler !== null) return settler
  throw new Error(`Expected a payment that a settler has checked, got one on ${identity.network}.`)
}

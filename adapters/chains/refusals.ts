import type { Refusal } from '../../core/ports/chains/settler.ts'
import type { NotAdmitted } from './budgets.ts'

/** A refusal caused by the payment. */
export const refuse = (reason: string, message: string): Refusal => ({ ok: false, reason, message })

/** A refusal of a payment that could not be read. */
export const refuseUnread = (reason: string, message: string): Refusal => ({
  ok: false,
  reason,
  message,
  isUnread: true,
})

/** A refusal caused by this gateway or the chain. The buyer may try the same payment again. */
export const refuseForNow = (reason: string, message: string): Refusal => ({
  ok: false,
  reason,
  message,
  transient: true,
})

/** Tollgate's own reasons, which are the same on every network. docs/reference/errors.md lists them. */
export const ownReasons = {
  /** The payer's earlier payments failed too often on chain. */
  payerBudget: 'payer_failure_budget_exhausted',
  payerInFlight: 'too_many_payments_in_flight',
  /** The payer's balance covers this payment, but not all of the payer's payments in flight. */
  sumInFlight: 'payments_in_flight_exceed_balance',
  storeGas: 'store_gas_budget_exhausted',
  settlerBusy: 'settler_busy',
  notStarted: 'settler_not_started',
  keyIsShared: 'settling_key_shared',
  settleFault: 'unexpected_settle_error',
} as const

/** Why a payment was not admitted. */
export const admissionRefusals: Readonly<Record<NotAdmitted, Refusal>> = {
  in_flight: refuseForNow(
    ownReasons.settlerBusy,
    'Too many settlements are in progress. Nothing was charged. Try again with the same payment.',
  ),
  payer_in_flight: refuseForNow(
    ownReasons.payerInFlight,
    'Too many payments of this payer are in progress. Nothing was charged. Try again with the same payment when some have settled.',
  ),
  payer_failures: refuse(
    ownReasons.payerBudget,
    'Too many of this payer’s payments failed on chain lately. Try again later.',
  ),
  means: refuseForNow(
    ownReasons.settleFault,
    'Settlement is paused. Nothing was charged. Try again with the same payment.',
  ),
  store_in_flight: refuseForNow(
    ownReasons.settlerBusy,
    'This seller’s settlements in progress may use up the seller’s gas for today. Nothing was charged. Try again with the same payment.',
  ),
  store_gas: refuseForNow(
    ownReasons.storeGas,
    'This seller’s settlements have used up the seller’s gas for today. Nothing was charged. Pay on another network, or try again tomorrow.',
  ),
}

/** The payer's payments in flight would take more than its balance. */
export const sumInFlight: Refusal = {
  ...refuseForNow(
    ownReasons.sumInFlight,
    'The payer’s balance is too low for all of its payments in progress. Nothing was charged. Try again with the same payment when they have settled.',
  ),
  // The payer can cause this chain request at no cost, as often as it likes.
  isPayersDoing: true,
}

/** Refusal while this process has not yet adopted the open payments of a former process. */
export const notStarted = refuseForNow(
  ownReasons.notStarted,
  'Settlement on this network begins in a moment. Nothing was charged. Try again with the same payment.',
)

/** Refusal while another installation signs with the key, because two signers would use the same nonces. */
export const keyIsShared = refuseForNow(
  ownReasons.keyIsShared,
  'Another program is using the key that settles on this network. Nothing was charged. Try again with the same payment.',
)

import type { Refusal } from '../../core/ports/chains/settler.ts'
import type { NoPlace } from './budgets.ts'

/** A refusal that is the payment's fault. */
export const refuse = (reason: string, message: string): Refusal => ({ ok: false, reason, message })

/** A refusal of what could not be read as a payment. */
export const refuseUnread = (reason: string, message: string): Refusal => ({
  ok: false,
  reason,
  message,
  isUnread: true,
})

/** A refusal that is ours or the chain's fault: the same payment may be tried again. */
export const refuseForNow = (reason: string, message: string): Refusal => ({
  ok: false,
  reason,
  message,
  transient: true,
})

/** Reasons of our own, the same on every network; docs/errors.md lists them. */
export const ownReasons = {
  /** The payer's earlier payments failed too often on chain. */
  payerBudget: 'payer_failure_budget_exhausted',
  payerInFlight: 'too_many_payments_in_flight',
  /** The payer has enough for this payment, but not for all of its payments that are on their way. */
  sumInFlight: 'payments_in_flight_exceed_balance',
  storeGas: 'store_gas_budget_exhausted',
  settlerBusy: 'settler_busy',
  notStarted: 'settler_not_started',
  keyIsShared: 'settling_key_shared',
  settleFault: 'unexpected_settle_error',
} as const

/** Why a payment got no place among those on their way. */
export const noPlaceRefusals: Readonly<Record<NoPlace, Refusal>> = {
  in_flight: refuseForNow(
    ownReasons.settlerBusy,
    'Too many settlements are on their way. Try again with the same payment; nothing was charged.',
  ),
  payer_in_flight: refuseForNow(
    ownReasons.payerInFlight,
    'Too many payments of this payer are on their way. Try again with the same payment when some have settled; nothing was charged.',
  ),
  payer_failures: refuse(
    ownReasons.payerBudget,
    'Too many of this payer’s payments failed on chain lately. Try again later.',
  ),
  means: refuseForNow(
    ownReasons.settleFault,
    'Settlement is stopped for now. Try again with the same payment; nothing was charged.',
  ),
  store_in_flight: refuseForNow(
    ownReasons.settlerBusy,
    'Too many of this seller’s settlements are on their way for what they may cost today. Try again with the same payment; nothing was charged.',
  ),
  store_gas: refuseForNow(
    ownReasons.storeGas,
    'This seller’s settlements have used up what they may cost today. Pay on another network, or try again tomorrow; nothing was charged.',
  ),
}

/** The payer's payments on their way would take more than it has. */
export const sumInFlight: Refusal = {
  ...refuseForNow(
    ownReasons.sumInFlight,
    'The payer has too little for all of its payments on their way. Try again with the same payment when they have settled; nothing was charged.',
  ),
  // The chain was asked for a payment that could not be made: for nothing, and as often as anybody likes.
  isPayersDoing: true,
}

/** Nobody has made sure yet what a former process left. */
export const notStarted = refuseForNow(
  ownReasons.notStarted,
  'Settlement on this network begins in a moment. Try again with the same payment; nothing was charged.',
)

/** Another installation signs with the key now: two that do take each other's account numbers. */
export const keyIsShared = refuseForNow(
  ownReasons.keyIsShared,
  'The key that settles on this network is in use elsewhere now. Try again with the same payment; nothing was charged.',
)

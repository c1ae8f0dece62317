import { isSameAddress } from '../../../core/domain/address.ts'
import type { PaymentIdentity } from '../../../core/domain/payment.ts'
import type { FacilitatorAnswer } from './facilitatorClient.ts'

/** What a facilitator's answer to /settle is worth. */
export type SettleClaim =
  /** It says that this transaction settled the payment. */
  | { readonly says: 'settled'; readonly transaction: string }
  /** It says that it refused the payment and did nothing. */
  | { readonly says: 'refused'; readonly reason: string; readonly message: string }
  /** The request never left. */
  | { readonly says: 'not_sent'; readonly message: string }
  /** Anything may have happened. `transaction` is its hint, or empty. */
  | { readonly says: 'unclear'; readonly transaction: string; readonly message: string }

const transactionForms = { eip155: /^0x[0-9a-fA-F]{64}$/, solana: /^[1-9A-HJ-NP-Za-km-z]{64,90}$/ }
const reasonForm = /^[a-z0-9_]{1,100}$/

/**
 * Refusals of what never changes: the payment's form, its terms, its signature. Whoever says so has sent nothing, as far as it
 * can be believed. Every other failure leaves the outcome open, above all those that a payment gets which has just been
 * settled (used nonces, missing funds, simulations, times): whoever asks twice, such as a proxy, tells of the second time only.
 */
const refusedBefore =
  /^(invalid_(scheme|network|payload|payment|payment_requirements|x402_version|exact_(evm|svm)_\w+)|unsupported_\w+|eip6492_factory_not_allowed|asset_not_deployed_contract)$/
const mayHaveSent =
  /nonce|already|insufficient|simulation|duplicate|valid_before|expired|verification|settle|transaction_(failed|confirmation)|transfer_event/

/** Reads an answer to /settle with distrust: what is not clearly said is unclear. */
export function readSettleAnswer(answer: FacilitatorAnswer, identity: PaymentIdentity): SettleClaim {
  if (answer.arrived === 'no') return { says: 'not_sent', message: answer.message }
  if (answer.arrived === 'unknown') return { says: 'unclear', transaction: '', message: answer.message }
  const { status, body } = answer
  const field = (name: string) => (Object.hasOwn(body, name) ? body[name] : undefined)
  const family = identity.network.startsWith('solana:') ? 'solana' : 'eip155'
  const named = field('transaction')
  const transaction = typeof named === 'string' && transactionForms[family].test(named) ? named : ''
  const unclear = (message: string): SettleClaim => ({ says: 'unclear', transaction, message })

  if (status >= 500) return unclear(`HTTP ${status}`)
  if (field('success') === true) {
    if (status >= 300) return unclear(`success with HTTP ${status}`)
    if (transaction === '') return unclear('success without a transaction')
    if (field('network') !== identity.network) return unclear('success on another network')
    const payer = field('payer')
    if (payer !== undefined && !isSameAddress(family, payer, identity.payer))
      return unclear('success for another payer')
    return { says: 'settled', transaction }
  }
  const reason = field('errorReason')
  if (field('success') !== false || typeof reason !== 'string' || !reasonForm.test(reason)) {
    return unclear(`an answer of HTTP ${status} that is neither success nor failure`)
  }
  const didNothing = named === undefined || named === null || named === ''
  if (!didNothing || !refusedBefore.test(reason) || mayHaveSent.test(reason)) return unclear(reason)
  return { says: 'refused', reason, message: `The facilitator refused the payment: ${reason}.` }
}

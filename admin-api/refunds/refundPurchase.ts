import { formatAmount } from '../../core/domain/money.ts'
import { familyOf, networkTitle } from '../../core/domain/network.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import { canonicalTransaction } from '../../core/domain/transactionId.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { RefundResult } from '../../core/payments/payments.ts'
import { transferBackOf } from '../../core/payments/transferBackOf.ts'
import type { RefundVerdict, TransferBack, TransferMismatch } from '../../core/ports/chains/refundProofs.ts'
import type { Api } from '../deps.ts'
import { validationError } from '../schema/validationError.ts'

/** A block comes every few seconds; asking sooner is of no use. */
const RETRY_AFTER_SECONDS = 5

/**
 * Books a refund that the chain proves.
 *
 * @returns the purchase as it stands then; also when the same transaction has refunded it before
 * @throws `VALIDATION_ERROR` for what is no transaction of that network
 * @throws `CONFLICT` when there is nothing to pay back, or another transaction has paid it back
 * @throws `TRANSACTION_NOT_FINAL`, `TRANSACTION_FAILED`, `TRANSACTION_MISMATCH`, `TRANSACTION_ALREADY_USED`, `CHAIN_UNAVAILABLE`,
 *   `CHAIN_NOT_CONFIGURED`
 */
export async function refundPurchase(api: Api, purchase: Purchase, txHash: string): Promise<Purchase> {
  const transaction = canonicalTransaction(purchase.network, txHash)
  if (transaction === undefined) throw malformed(purchase)
  // What is booked is not asked of the chain again: a node may have forgotten it by now.
  const known = await api.purchases.refundOf(purchase.id)
  if (known?.transaction === transaction) return purchase
  if (known !== undefined) throw refundedOtherwise()
  const payment = await api.payments.find(purchase.paymentKey)
  if (payment === undefined || purchase.status === 'reorged') throw notRefundable(purchase)

  const transfer = transferBackOf(purchase, payment, transaction)
  const verdict = await api.refundProofs.prove(transfer)
  if (verdict.status !== 'proved') throw unproved(verdict, transfer, purchase)
  const { network } = purchase
  const { paymentKeys } = verdict
  const result = await api.payments.refund(payment, purchase, { network, transaction, paymentKeys })
  if (result !== 'refunded') throw unbooked(result, purchase)
  api.log.info({ purchaseId: purchase.id, transaction }, 'a purchase was refunded')
  return { ...purchase, status: 'refunded' }
}

function unproved(
  verdict: Exclude<RefundVerdict, { status: 'proved' }>,
  { network, from, to, transaction }: TransferBack,
  purchase: Purchase,
): TollgateError {
  switch (verdict.status) {
    case 'not_found':
      return new TollgateError(
        'TRANSACTION_NOT_FINAL',
        `No node of ${networkTitle(network)} knows the transaction ${transaction}. If it was sent just now, try again shortly.`,
        { retryAfterSeconds: RETRY_AFTER_SECONDS },
      )
    case 'not_final':
      return new TollgateError(
        'TRANSACTION_NOT_FINAL',
        `The transaction ${transaction} does not have enough confirmations yet. Try again shortly.`,
        { retryAfterSeconds: RETRY_AFTER_SECONDS },
      )
    case 'reverted':
      return new TollgateError(
        'TRANSACTION_FAILED',
        `The transaction ${transaction} failed on chain and moved nothing. Send the money again.`,
      )
    case 'mismatch': {
      const amount = `${formatAmount(purchase.amountAtomic, purchase.decimals, 2)} ${purchase.symbol}`
      const expected = `Expected at least ${amount} (${purchase.asset}) from ${from} to ${to}, after the sale`
      return new TollgateError(
        'TRANSACTION_MISMATCH',
        `${expected}; this transaction ${words[verdict.what]}.`,
      )
    }
    case 'unavailable':
      return new TollgateError('CHAIN_UNAVAILABLE', `${verdict.message} Try again later.`, {
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      })
    case 'not_configured':
      return new TollgateError(
        'CHAIN_NOT_CONFIGURED',
        `Refunds on ${networkTitle(network)} can’t be verified yet: ask the operator to set rpcUrls for this network.`,
      )
  }
}

const words: Readonly<Record<TransferMismatch, string>> = {
  asset: 'moves none of that token',
  recipient: 'moves none of it to that wallet',
  sender: 'moves it there from another wallet',
  amount: 'moves less',
  order: 'is not later than the sale',
}

function unbooked(result: Exclude<RefundResult, 'refunded'>, purchase: Purchase): TollgateError {
  switch (result) {
    case 'refunded_otherwise':
      return refundedOtherwise()
    case 'not_refundable':
      return notRefundable(purchase)
    case 'transaction_used':
      return new TollgateError(
        'TRANSACTION_ALREADY_USED',
        'This transaction has refunded another purchase, or is a payment itself. One transaction refunds one purchase.',
      )
  }
}

const refundedOtherwise = () =>
  new TollgateError('CONFLICT', 'This purchase was refunded by another transaction already.')

const notRefundable = ({ id }: Purchase) =>
  new TollgateError(
    'CONFLICT',
    `The transfer of purchase ${id} has left the chain, so there is nothing to refund. It usually comes back: read it again.`,
  )

function malformed({ network }: Purchase): TollgateError {
  const form =
    familyOf(network) === 'eip155' ? '0x and 64 hex digits' : 'the base58 of a signature of 64 bytes'
  const message = `Expected a transaction of ${networkTitle(network)}: ${form}.`
  return validationError([{ path: 'txHash', code: 'format', message }])
}

import type { FastifyInstance } from 'fastify'
import { formatAmount } from '../../core/domain/money.ts'
import { familyOf, networkTitle } from '../../core/domain/network.ts'
import { canonicalTransaction } from '../../core/domain/payment.ts'
import type { Purchase } from '../../core/domain/purchase.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { RefundResult } from '../../core/payments/payments.ts'
import {
  type RefundVerdict,
  type TransferBack,
  type TransferMismatch,
  transferBackOf,
} from '../../core/ports/chains/refundProofs.ts'
import type { Api } from '../deps.ts'
import type { Infer } from '../http/fields.ts'
import { type IdParams, idParams, ownPurchase } from '../http/ownership.ts'
import { ok, respond, success } from '../http/responses.ts'
import { validationError } from '../http/validation.ts'
import { titledPurchaseSchema, toTitledViews } from './purchaseRoutes.ts'

/** Seconds until a retry makes sense. A block comes every few seconds, so an earlier retry is useless. */
const RETRY_AFTER_SECONDS = 5

/**
 * Records a refund that is proved on chain.
 *
 * @returns the purchase after the refund, even if the same transaction has already refunded it
 * @throws `VALIDATION_ERROR` for a text that is not a transaction id of that network
 * @throws `CONFLICT` if no refund is due, or another transaction has refunded the purchase
 * @throws `TRANSACTION_NOT_FINAL`, `TRANSACTION_FAILED`, `TRANSACTION_MISMATCH`, `TRANSACTION_ALREADY_USED`, `CHAIN_UNAVAILABLE`,
 * `CHAIN_NOT_CONFIGURED`
 */
async function refundPurchase(api: Api, purchase: Purchase, txHash: string): Promise<Purchase> {
  const transaction = canonicalTransaction(purchase.network, txHash)
  if (transaction === undefined) throw malformed(purchase)
  // A recorded refund is not checked again, because a node may have dropped its transaction by now.
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
        `The transaction ${transaction} was not found on ${networkTitle(network)}. If it was sent just now, try again shortly.`,
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
        `The transaction ${transaction} failed on chain and moved nothing. Send a new refund.`,
      )
    case 'mismatch': {
      const amount = `${formatAmount(purchase.amountAtomic, purchase.decimals, 2)} ${purchase.symbol}`
      const expected = `Expected at least ${amount} (${purchase.asset}) from ${from} to ${to}, after the sale`
      return new TollgateError(
        'TRANSACTION_MISMATCH',
        `${expected}, but this transaction ${words[verdict.what]}.`,
      )
    }
    case 'unavailable':
      return new TollgateError('CHAIN_UNAVAILABLE', `${verdict.message} Try again later.`, {
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      })
    case 'not_configured':
      return new TollgateError(
        'CHAIN_NOT_CONFIGURED',
        `Refunds on ${networkTitle(network)} cannot be verified yet. Ask the operator to set rpcUrls for this network.`,
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
        'This transaction has refunded another purchase, or is itself a payment. One transaction refunds one purchase.',
      )
  }
}

const refundedOtherwise = () =>
  new TollgateError('CONFLICT', 'This purchase was already refunded by another transaction.')

const notRefundable = ({ id }: Purchase) =>
  new TollgateError(
    'CONFLICT',
    `The transfer of purchase ${id} has left the chain, so nothing can be refunded. The transfer usually comes back. Read the purchase again later.`,
  )

function malformed({ network }: Purchase): TollgateError {
  const form =
    familyOf(network) === 'eip155' ? '0x and 64 hex digits' : 'the base58 of a signature of 64 bytes'
  const message = `Expected a transaction of ${networkTitle(network)}: ${form}.`
  return validationError([{ path: 'txHash', code: 'format', message }])
}

const refundBody = {
  type: 'object',
  additionalProperties: false,
  required: ['txHash'],
  properties: {
    txHash: {
      type: 'string',
      minLength: 1,
      maxLength: 128,
      description:
        'The transaction that sent the money back: a 0x hash on EVM networks, a base58 signature on Solana.',
    },
  },
} as const

/** `POST /api/v1/purchases/:id/refunds` lets the seller name the transaction that refunded the buyer. */
export function refundRoute(app: FastifyInstance, api: Api): void {
  app.post<{ Params: IdParams; Body: Infer<typeof refundBody> }>(
    '/api/v1/purchases/:id/refunds',
    {
      schema: {
        summary: 'Mark a purchase as refunded',
        description:
          'First, send at least the paid amount, in the same token, from the wallet that was paid to buyerWallet. Then send the hash of this transaction in this request. The gateway verifies the transaction on chain. One transaction refunds one purchase. If you send the request again, the response is the same. If the refund leaves the chain, the purchase is refund_due again, and you can report another transaction.',
        params: idParams,
        body: refundBody,
        response: respond({ 200: success(titledPurchaseSchema) }, [400, 401, 404, 409, 422, 429, 503]),
      },
    },
    async (request) => {
      const purchase = await ownPurchase(api, request, request.params.id)
      const refunded = await refundPurchase(api, purchase, request.body.txHash)
      return ok((await toTitledViews(api.links, [refunded]))[0])
    },
  )
}

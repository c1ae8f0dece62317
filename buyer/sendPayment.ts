import { setTimeout as wait } from 'node:timers/promises'
import { isSameAddress } from '../core/domain/address.ts'
import { familyOf } from '../core/domain/network.ts'
import { decodeSellerHeader } from '../core/x402/header.ts'
import { own } from '../core/x402/strictJson.ts'
import type { SignedPayment } from './buyer.ts'
import { callOnce, distinct, type HttpCall, HttpFailure, type HttpResponse, valuesOf } from './httpCall.ts'

export type SellerReceipt =
  /** No PAYMENT-RESPONSE header was received. */
  | { readonly kind: 'none' }
  /** The seller claims that this transaction settled the payment. Only the chain can confirm that. */
  | {
      readonly kind: 'settled'
      /** Empty if the seller charged nothing. */
      readonly transaction: string
      /** The charged amount in atomic units, as decimal digits. Null if the seller names none. */
      readonly amount: string | null
    }
  /** The seller claims that the payment was not settled. */
  | { readonly kind: 'not_settled'; readonly reason: string }
  /** The receipt cannot be read, or is for another payment. */
  | { readonly kind: 'wrong'; readonly problem: string }

/** Reads the `PAYMENT-RESPONSE` of a response (x402 v2, HTTP transport) and compares it with what was signed. */
export function readReceipt(response: HttpResponse, payment: SignedPayment): SellerReceipt {
  const headers = distinct(valuesOf(response.headers, 'payment-response'))
  if (headers.length === 0) return { kind: 'none' }
  if (headers.length > 1) return wrong('came twice')
  const decoded = decodeSellerHeader(headers[0]!)
  if (!decoded.ok) return wrong(`is not readable. ${decoded.message}`)
  const receipt = decoded.value
  const success = own(receipt, 'success')
  if (success === false)
    return { kind: 'not_settled', reason: String(own(receipt, 'errorReason') ?? '').slice(0, 200) }
  if (success !== true) return wrong('does not say whether it succeeded')
  if (own(receipt, 'network') !== payment.network) return wrong('names another network')
  const payer = own(receipt, 'payer')
  if (payer !== undefined && !isSameAddress(familyOf(payment.network), payer, payment.payer))
    return wrong('names another payer')
  const named = own(receipt, 'amount')
  const amount = named === undefined || named === '' ? null : named
  if (amount !== null && !isPossibleCharge(amount, payment)) return wrong('names another amount')
  const transaction = own(receipt, 'transaction')
  if (typeof transaction !== 'string' || transaction.length > 100) return wrong('names no transaction')
  return { kind: 'settled', transaction, amount }
}

/** Whether the seller may have charged this. It charges the signed amount or, in scheme `upto`, any amount up to it. */
function isPossibleCharge(amount: unknown, payment: SignedPayment): amount is string {
  if (payment.scheme === 'exact') return amount === payment.amount
  if (typeof amount !== 'string' || !/^(0|[1-9]\d{0,77})$/.test(amount)) return false
  return BigInt(amount) <= BigInt(payment.amount)
}

const wrong = (problem: string): SellerReceipt => ({
  kind: 'wrong',
  problem: `the PAYMENT-RESPONSE header ${problem}`,
})

/** Maximum `Retry-After` that the buyer respects, in ms. */
const MAX_RETRY_AFTER_MS = 30_000

/** Statuses after which the outcome is unknown, or nothing has happened yet, so that the same payment may be sent again. */
const openStatuses = new Set([408, 425, 429, 500, 502, 503, 504])

export interface Sent {
  /** The last response. Null if none arrived. */
  readonly response: HttpResponse | null
  /** Why there is no response. Empty if there is one. */
  readonly failure: string
  readonly attempts: number
  /** False only if no attempt can have reached the server. */
  readonly mayHaveLeft: boolean
}

/**
 * Sends one signed payment with its call. It repeats the payment while the outcome is unknown, which means no response, a broken
 * response, or a status that asks for a later attempt. It never signs and never changes the payment, so a repetition cannot be
 * charged twice.
 *
 * @param delaysMs delay before the second, third … attempt, in ms
 */
export async function sendPayment(
  call: HttpCall,
  paymentHeader: string,
  payment: SignedPayment,
  delaysMs: readonly number[],
  onStep: (text: string) => void,
): Promise<Sent> {
  const paid: HttpCall = { ...call, headers: [...call.headers, 'PAYMENT-SIGNATURE', paymentHeader] }
  let sent: Sent = { response: null, failure: 'the time limit passed', attempts: 0, mayHaveLeft: false }
  for (let i = 0; ; i++) {
    sent = await attempt(paid, sent)
    if (sent.response !== null && !isOpen(sent.response, payment)) return sent
    const delayMs = delaysMs[i]
    if (delayMs === undefined || call.signal.aborted) return sent
    const why = sent.response === null ? sent.failure : `the response was ${sent.response.status}`
    onStep(`The outcome is unknown (${why}), so the same payment is sent again.`)
    try {
      await wait(Math.max(delayMs, retryAfterMs(sent.response)), undefined, { signal: call.signal })
    } catch {
      return sent
    }
  }
}

async function attempt(call: HttpCall, before: Sent): Promise<Sent> {
  const attempts = before.attempts + 1
  try {
    return { response: await callOnce(call), failure: '', attempts, mayHaveLeft: true }
  } catch (error) {
    if (!(error instanceof HttpFailure)) throw error
    const mayHaveLeft = before.mayHaveLeft || error.mayHaveLeft
    // An earlier response says more than this failure, because it may report that the settlement is pending.
    return { response: before.response, failure: error.message, attempts, mayHaveLeft }
  }
}

function isOpen(response: HttpResponse, payment: SignedPayment): boolean {
  if (!response.isWhole) return true
  return openStatuses.has(response.status) && readReceipt(response, payment).kind !== 'settled'
}

function retryAfterMs(response: HttpResponse | null): number {
  const value = response === null ? undefined : valuesOf(response.headers, 'retry-after')[0]
  if (value === undefined || !/^\d{1,20}$/.test(value)) return 0
  return Math.min(Number(value) * 1_000, MAX_RETRY_AFTER_MS)
}

import type { PaymentRequired } from '../../core/x402/types.ts'
import { receiptIn } from '../receipt.ts'

/** Maximum number of characters of a response that are shown. */
const SHOWN_CHARS = 20_000

export interface Request {
  readonly url: string
  readonly method: string
  readonly body?: string
  /**
   * Idempotency key. It proves that a retry comes from the same buyer, even from another address, and not from a stranger who
   * read the payment on chain.
   */
  readonly key?: string
}

/** Why a payment was rejected, with x402's reason and the message. */
export interface Refusal {
  readonly reason: string
  readonly message: string
}

/** The response, in a form that can be shown. */
export interface Answer {
  readonly status: number
  readonly ms: number
  readonly text: string
  /** The offer, if the gateway requires a payment. */
  readonly offer?: PaymentRequired
  /** Why the gateway rejected the payment of this call. A new offer comes with it. */
  readonly refusal?: Refusal
  readonly purchaseId?: string
  /** Token with which the buyer can review a paid call. */
  readonly reviewToken?: string
  /** The wallet that paid. */
  readonly payer?: string
}

/** Calls a link from its page. @param payment value of `PAYMENT-SIGNATURE` */
export async function callLink({ url, method, body, key }: Request, payment?: string): Promise<Answer> {
  const startedAt = performance.now()
  const response = await fetch(url, {
    method,
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(payment !== undefined && { 'payment-signature': payment }),
      ...(key !== undefined && { 'idempotency-key': key }),
    },
    ...(body !== undefined && { body }),
    redirect: 'manual',
    cache: 'no-store',
  })
  const bytes = await response.arrayBuffer()
  const ms = Math.round(performance.now() - startedAt)
  const { status, headers } = response
  if (response.type === 'opaqueredirect')
    return { status: 302, ms, text: 'The response redirects to another address.' }
  const isText = /json|text|xml|javascript/.test(headers.get('content-type') ?? 'text')
  const text = isText
    ? new TextDecoder().decode(bytes)
    : `${headers.get('content-type')}, ${bytes.byteLength} bytes`
  const parsed = isText ? parse(text) : undefined
  // Only the gateway sends this header. A seller's own 402 is a normal response, which no wallet is asked to pay.
  const offer = status === 402 && headers.has('payment-required') ? (parsed as PaymentRequired) : undefined
  const note = noteIn(parsed)
  const purchaseId = headers.get('x-purchase-id') ?? note.purchaseId
  const reviewToken = headers.get('x-review-token') ?? note.reviewToken
  const { payer } = receiptIn(headers)
  return {
    status,
    ms,
    text: cut(parsed === undefined ? text : JSON.stringify(parsed, null, 2)),
    ...(offer !== undefined && { offer }),
    ...(offer !== undefined && payment !== undefined && { refusal: (parsed as { error: Refusal }).error }),
    ...(purchaseId !== undefined && { purchaseId }),
    ...(reviewToken !== undefined && { reviewToken }),
    ...(payer !== undefined && { payer }),
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The purchase fields of a response with an envelope, under any field name. */
function noteIn(answer: unknown): { readonly purchaseId?: string; readonly reviewToken?: string } {
  return Object(Object.values(Object(answer)).find((value) => typeof Object(value).purchaseId === 'string'))
}

const cut = (text: string): string =>
  text.length <= SHOWN_CHARS
    ? text
    : `${text.slice(0, SHOWN_CHARS)}\n… ${text.length - SHOWN_CHARS} more characters`

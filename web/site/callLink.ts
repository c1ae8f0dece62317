import type { PaymentRequired } from '../../core/x402/types.ts'
import { receiptIn } from '../receipt.ts'

/** As much of an answer as is shown. */
const SHOWN_CHARS = 20_000

export interface Request {
  readonly url: string
  readonly method: string
  readonly body?: string
  /** Tells the buyer who asks again, from whichever address, from a stranger who has read the payment on chain. */
  readonly key?: string
}

/** Of a payment: x402's reason, and the same in words. */
export interface Refusal {
  readonly reason: string
  readonly message: string
}

/** What came back, in a form that can be shown. */
export interface Answer {
  readonly status: number
  readonly ms: number
  readonly text: string
  /** Where the gateway asks for a payment: what it costs. */
  readonly offer?: PaymentRequired
  /** Why the gateway refused the payment that came with the call, beside a fresh offer. */
  readonly refusal?: Refusal
  readonly purchaseId?: string
  /** Of a paid answer: what its buyer reviews it with. */
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
    return { status: 302, ms, text: 'The answer leads to another address.' }
  const isText = /json|text|xml|javascript/.test(headers.get('content-type') ?? 'text')
  const text = isText
    ? new TextDecoder().decode(bytes)
    : `${headers.get('content-type')}, ${bytes.byteLength} bytes`
  const parsed = isText ? parse(text) : undefined
  // Only the gateway sends this header: a seller's own 402 is an answer, and no wallet is asked to pay it.
  const offer = status === 402 && headers.has('payment-required') ? (parsed as PaymentRequired) : undefined
  const note = noteIn(parsed)
  const purchaseId = headers.get('x-purchase-id') ?? note.purchaseId
  const reviewToken = headers.get('x-review-token') ?? note.reviewToken
  const { payer } = receiptIn(headers)
  return {
    ...{ status, ms, text: cut(parsed === undefined ? text : JSON.stringify(parsed, null, 2)) },
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

/** Of a wrapped answer, whatever its field is called. */
function noteIn(answer: unknown): { readonly purchaseId?: string; readonly reviewToken?: string } {
  return Object(Object.values(Object(answer)).find((value) => typeof Object(value).purchaseId === 'string'))
}

const cut = (text: string): string =>
  text.length <= SHOWN_CHARS
    ? text
    : `${text.slice(0, SHOWN_CHARS)}\n… ${text.length - SHOWN_CHARS} characters more`

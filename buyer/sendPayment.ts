import { setTimeout as wait } from 'node:timers/promises'
import type { SignedPayment } from './buyer.ts'
import { callOnce, type HttpAnswer, type HttpCall, HttpFailure, valuesOf } from './httpCall.ts'
import { readReceipt } from './readReceipt.ts'

/** Longest `Retry-After` that is waited for, in ms. */
const MAX_RETRY_AFTER_MS = 30_000

/** Statuses after which the outcome is open, or nothing was done yet: the same payment may be sent again. */
const openStatuses = new Set([408, 425, 429, 500, 502, 503, 504])

export interface Sent {
  /** The last answer; null when none came. */
  readonly answer: HttpAnswer | null
  /** Why there is no answer; empty when there is one. */
  readonly failure: string
  readonly attempts: number
  /** False only when no attempt can have reached the server. */
  readonly mayHaveLeft: boolean
}

/**
 * Sends one signed payment with its call, and the very same again while the outcome is open: no answer, a broken one, or
 * a status that says "later". It never signs and never changes the payment, so that repeating can not cost twice.
 *
 * @param delaysMs waits before the second, third … attempt
 */
export async function sendPayment(
  call: HttpCall,
  paymentHeader: string,
  payment: SignedPayment,
  delaysMs: readonly number[],
  onStep: (text: string) => void,
): Promise<Sent> {
  const paid: HttpCall = { ...call, headers: [...call.headers, 'PAYMENT-SIGNATURE', paymentHeader] }
  let sent: Sent = { answer: null, failure: 'the time was up', attempts: 0, mayHaveLeft: false }
  for (let i = 0; ; i++) {
    sent = await attempt(paid, sent)
    if (sent.answer !== null && !isOpen(sent.answer, payment)) return sent
    const delayMs = delaysMs[i]
    if (delayMs === undefined || call.signal.aborted) return sent
    const why = sent.answer === null ? sent.failure : `the answer was ${sent.answer.status}`
    onStep(`The outcome is open (${why}); sending the same payment again.`)
    try {
      await wait(Math.max(delayMs, retryAfterMs(sent.answer)), undefined, { signal: call.signal })
    } catch {
      return sent
    }
  }
}

async function attempt(call: HttpCall, before: Sent): Promise<Sent> {
  const attempts = before.attempts + 1
  try {
    return { answer: await callOnce(call), failure: '', attempts, mayHaveLeft: true }
  } catch (error) {
    if (!(error instanceof HttpFailure)) throw error
    const mayHaveLeft = before.mayHaveLeft || error.mayHaveLeft
    // An earlier answer stays the better knowledge: it may say that the settlement is pending.
    return { answer: before.answer, failure: error.message, attempts, mayHaveLeft }
  }
}

function isOpen(answer: HttpAnswer, payment: SignedPayment): boolean {
  if (!answer.isWhole) return true
  return openStatuses.has(answer.status) && readReceipt(answer, payment).kind !== 'settled'
}

function retryAfterMs(answer: HttpAnswer | null): number {
  const value = answer === null ? undefined : valuesOf(answer.headers, 'retry-after')[0]
  if (value === undefined || !/^\d{1,20}$/.test(value)) return 0
  return Math.min(Number(value) * 1_000, MAX_RETRY_AFTER_MS)
}

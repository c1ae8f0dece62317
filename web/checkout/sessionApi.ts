import type { PaymentRequired } from '../../core/x402/types.ts'
import { receiptIn } from '../receipt.ts'
import type { CheckoutSession } from './state.ts'
import { rememberReviewToken } from './tabMemory.ts'

/** What the API refused, in its words. */
export class ApiFault extends Error {
  readonly status: number
  /** Empty where the answer is none of the gateway's: something between refused. */
  readonly code: string
  readonly requestId: string | undefined
  /** `errorReason` of the receipt, which says more than the code; empty without one. */
  readonly reason: string
  constructor(status: number, code: string, message: string, requestId?: string, reason = '') {
    super(message)
    this.name = 'ApiFault'
    this.status = status
    this.code = code
    this.requestId = requestId
    this.reason = reason
  }
}

/** An offer, and how far the buyer's clock is from the gateway's. */
export interface AskedOffer {
  readonly offer: PaymentRequired
  /** To be added to this machine's time, in ms. */
  readonly clockOffsetMs: number
}

/** The API of one payment session, with its client secret. Every method throws {@link ApiFault}, or what `fetch` throws. */
export interface SessionApi {
  read(): Promise<CheckoutSession>
  cancel(): Promise<CheckoutSession>
  /** What is to be paid: the 402. */
  ask(): Promise<AskedOffer>
  /** @param payment value of `PAYMENT-SIGNATURE` */
  pay(payment: string): Promise<CheckoutSession>
  /** Calls back with the session, at once and whenever it changes, until it has ended. @returns a function that stops it */
  follow(onSession: (session: CheckoutSession) => void): () => void
}

/** Between two looks at a session where its stream does not come through, in ms. */
const POLL_MS = 3_000
/** After so long without a word of a new stream, it is looked by asking. */
const SILENCE_MS = 5_000

export function sessionApi(id: string, secret: string): SessionApi {
  const path = `/api/v1/payments/${id}`
  const send = (suffix = '', init: RequestInit = {}) =>
    fetch(path + suffix, {
      ...init,
      headers: { ...init.headers, 'x-client-secret': secret },
      credentials: 'omit',
    })
  const dataOf = async (response: Response): Promise<CheckoutSession> => {
    if (!response.ok) throw await faultIn(response)
    return (await response.json()).data
  }
  const read = async () => dataOf(await send())
  return {
    read,
    cancel: async () => dataOf(await send('/cancel', { method: 'POST' })),
    async ask() {
      const response = await send('/pay', { method: 'POST' })
      if (response.status !== 402) throw await faultIn(response)
      const at = Date.parse(response.headers.get('date') ?? '')
      return {
        offer: await response.json(),
        clockOffsetMs: Number.isNaN(at) ? 0 : at - Date.now(),
      }
    },
    async pay(payment) {
      const response = await send('/pay', { method: 'POST', headers: { 'payment-signature': payment } })
      const session = await dataOf(response)
      const token = response.headers.get('x-review-token')
      if (token !== null) rememberReviewToken(id, token)
      return session
    },
    follow: (onSession) => followSession(`${path}/events?cs=${encodeURIComponent(secret)}`, read, onSession),
  }
}

/** By server-sent events; by asking where they don't come through. */
function followSession(
  eventsUrl: string,
  read: () => Promise<CheckoutSession>,
  onSession: (session: CheckoutSession) => void,
): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined
  let isStopped = false
  const stop = () => {
    isStopped = true
    clearTimeout(timer)
    events.close()
  }
  const take = (session: CheckoutSession) => {
    if (isStopped) return
    onSession(session)
    if (session.status !== 'open') stop()
  }
  const poll = async () => {
    if (isStopped) return
    await read().then(take, () => undefined)
    if (!isStopped) timer = setTimeout(poll, POLL_MS)
  }
  const events = new EventSource(eventsUrl)
  events.addEventListener('session', ({ data }) => {
    clearTimeout(timer)
    timer = undefined
    take(JSON.parse(data))
  })
  // The browser opens again what breaks off, and fails at it again and again where it can't come through.
  events.onerror = () => {
    timer ??= setTimeout(poll, SILENCE_MS)
  }
  timer = setTimeout(poll, SILENCE_MS)
  return stop
}

async function faultIn(response: Response): Promise<ApiFault> {
  const text = await response.text()
  let body: { error?: { code?: string; message?: string; requestId?: string } } = {}
  try {
    body = JSON.parse(text)
  } catch {
    // An answer from between: a proxy's page.
  }
  const { error } = Object(body) as typeof body
  const requestId = response.headers.get('x-request-id') ?? undefined
  const reason = receiptIn(response.headers).errorReason
  if (typeof error === 'object' && error !== null)
    return new ApiFault(
      response.status,
      error.code ?? '',
      error.message ?? '',
      error.requestId ?? requestId,
      reason,
    )
  return new ApiFault(response.status, '', '', requestId, reason)
}

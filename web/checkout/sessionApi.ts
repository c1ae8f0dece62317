import type { PaymentRequired } from '../../core/x402/types.ts'
import { receiptIn } from '../receipt.ts'
import type { CheckoutSession } from './state.ts'
import { rememberReviewToken } from './tabMemory.ts'

/** An error from the API, with the API's message. */
export class ApiFault extends Error {
  readonly status: number
  /** The gateway's error code. Empty if an intermediary sent the response. */
  readonly code: string
  readonly requestId: string | undefined
  /** `errorReason` of the receipt, which is more precise than the code. Empty if there is no receipt. */
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

/** An offer, and the difference between the buyer's clock and the gateway's. */
export interface AskedOffer {
  readonly offer: PaymentRequired
  /** The gateway's time minus this machine's, in ms. */
  readonly clockOffsetMs: number
}

/** The API of one payment session, with its client secret. Every method throws {@link ApiFault}, or the error of `fetch`. */
export interface SessionApi {
  read(): Promise<CheckoutSession>
  cancel(): Promise<CheckoutSession>
  /** Requests the payment terms. It makes a call without a payment, which gets a 402. */
  fetchOffer(): Promise<AskedOffer>
  /** @param payment value of `PAYMENT-SIGNATURE` */
  pay(payment: string): Promise<CheckoutSession>
  /**
   * Calls `onSession` at once and on every change of the session, until the session has ended.
   * @returns a function that stops it
   */
  follow(onSession: (session: CheckoutSession) => void): () => void
}

/** Polling interval for a session whose event stream does not arrive, in ms. */
const POLL_MS = 3_000
/** How long a new event stream may be silent before the page polls instead, in ms. */
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
    async fetchOffer() {
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

/** Follows a session by server-sent events. It polls if they do not arrive. */
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
  // The browser reopens a broken stream by itself. If streams cannot pass a proxy, it would fail again and again.
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
    // The response is not JSON, because it came from an intermediary, such as a proxy's error page.
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

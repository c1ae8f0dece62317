import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import { type Egress, MAX_ANSWER_HEAD_BYTES } from '../../core/ports/egress.ts'

/** The handler aborted the response, because it was too large, too long, a redirect or a 5xx. */
export class ResponseRefused extends Error {
  override readonly name = 'ResponseRefused'
}

/** A held response took too long, or a response had interim responses but its final head was late. */
export class ResponseTimeout extends Error {
  override readonly name = 'ResponseTimeout'
}

/** The caller ended the call, because it closed its connection, or did not read or send in time. */
export class BuyerLeft extends Error {
  override readonly name = 'BuyerLeft'
}

/**
 * The caller of a charged call disconnected before the gateway called the seller's API. The caller may come back for the response.
 */
export class LeftUnasked extends Error {
  override readonly name = 'LeftUnasked'
}

/** The error for a head that the buyer's client, or the gateway itself, could not read. */
export const headTooLarge = `The headers of the seller's response are too large. With the headers that the gateway adds, clients read at most ${MAX_ANSWER_HEAD_BYTES} bytes.`

export const bodyTooSlow = 'The body of the request did not arrive in time.'

/**
 * The seller's API is at its limit of concurrent calls, no connection became free in time, or other calls needed the connection.
 */
export class UpstreamBusy extends Error {
  override readonly name = 'UpstreamBusy'
}

/** No memory is free for the response. Other responses use it until they are charged or have been read. */
export class OutOfMemory extends UpstreamBusy {}

/**
 * Turns the failure of an upstream call into the buyer's error, and records it for the health monitor. Only failures of the
 * seller's API count there, because otherwise buyers could get a link suspended. The message never reveals the address behind the
 * link.
 */
export function upstreamFailure(x: Exchange, error: Error, egress: Pick<Egress, 'failureOf'>): TollgateError {
  if (isTollgateError(error)) {
    // The request body, which had no stated length, turned out too large while it was sent to the seller.
    if (error.code !== 'payload_too_large' || x.settlement === null) return error
    return new TollgateError(error.code, `${error.message} ${chargeOf(x)}`, {
      cause: error,
      ...purchaseOf(x),
    })
  }
  if (error instanceof UpstreamBusy || error instanceof LeftUnasked) {
    // If the buyer is charged, the gateway calls the seller's API when the buyer repeats the call.
    const what =
      x.settlement === null
        ? 'You were not charged.'
        : 'You were charged. Repeat the same call with the same payment to get its response.'
    return new TollgateError('upstream_busy', `${whyBusy(error)}. ${what}`, {
      retryAfterSeconds: 1,
      ...(x.purchase !== null && { extra: { purchaseId: x.purchase.id } }),
    })
  }
  if (error instanceof ResponseRefused) {
    x.upstreamOutcome = x.upstreamStatus >= 500 ? 'failed' : 'answered'
    return failed(x, error.message, error)
  }
  if (error instanceof BuyerLeft) {
    x.upstreamOutcome = 'buyer-left'
    const why =
      error instanceof BuyerLeft && error.message !== '' ? error.message : 'The call was broken off.'
    // The caller itself ended a charged call, so the message promises no refund.
    const message = x.settlement === null ? `${why} You were not charged.` : why
    return new TollgateError('upstream_error', message, { cause: error, ...purchaseOf(x) })
  }
  const why = egress.failureOf(error)
  if (error instanceof ResponseTimeout || why === 'EGRESS_TIMEOUT') {
    x.upstreamOutcome = 'timeout'
    const message = `The seller's API did not respond in time. ${chargeOf(x)}`
    return new TollgateError('upstream_timeout', message, { cause: error, ...purchaseOf(x) })
  }
  if (why === 'EGRESS_BAD_REQUEST') {
    const message = `The request cannot be forwarded in this form. ${chargeOf(x)}`
    return new TollgateError('bad_request', message, { cause: error, ...purchaseOf(x) })
  }
  x.upstreamOutcome = 'failed'
  if (why === 'EGRESS_LARGE_HEAD') return failed(x, headTooLarge, error)
  return failed(x, "The seller's API did not send a whole response.", error)
}

function whyBusy(error: Error): string {
  if (error instanceof LeftUnasked) return 'The call was broken off'
  if (error instanceof OutOfMemory) return 'The gateway has no free memory for this response'
  return "The seller's API is at its limit of calls in flight"
}

const failed = (x: Exchange, message: string, cause: Error) =>
  new TollgateError('upstream_error', `${message} ${chargeOf(x)}`, { cause, ...purchaseOf(x) })

const chargeOf = ({ settlement }: Exchange) =>
  settlement === null ? 'You were not charged.' : 'You were charged. The seller owes you a refund.'

const purchaseOf = ({ purchase }: Exchange) =>
  purchase === null ? {} : { extra: { purchaseId: purchase.id }, retryable: false }

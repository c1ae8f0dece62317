import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import { MAX_ANSWER_HEAD_BYTES } from '../../core/http/answerHeadLimit.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Egress } from '../../core/ports/egress.ts'

/** The answer was too large, too long, redirected, or a 5xx: said by the handler itself when it breaks off. */
export class AnswerRefused extends Error {
  override readonly name = 'AnswerRefused'
}

/** The whole answer took longer than a held one may, or its head did not come behind its interim answers. */
export class AnswerTimeout extends Error {
  override readonly name = 'AnswerTimeout'
}

/** The caller ended the call: it closed its connection, or did not take or send what it had to in time. */
export class BuyerLeft extends Error {
  override readonly name = 'BuyerLeft'
}

/** The caller of a call that is charged already left before the seller was asked, and may come back for it. */
export class LeftUnasked extends Error {
  override readonly name = 'LeftUnasked'
}

/** The buyer's client could not read the answer, or the gateway itself can't. */
export const headTooLarge = `The headers of the seller's answer are too large: with those that the gateway adds, clients read at most ${MAX_ANSWER_HEAD_BYTES} bytes.`

export const bodyTooSlow = 'The body of the request did not come in time.'

/** As many calls are under way to the seller's API as there may be, no connection got free in time, or others needed it. */
export class UpstreamBusy extends Error {
  override readonly name = 'UpstreamBusy'
}

/** There is no memory for the answer: other answers take it until they are charged or have been read. */
export class OutOfMemory extends UpstreamBusy {}

/**
 * Turns what broke an upstream call into the buyer's answer, and notes it for the health monitor: only what the seller's
 * API did itself counts there, or buyers could get a link suspended. The message never says what stands behind the link.
 */
export function upstreamFailure(x: Exchange, error: Error, egress: Pick<Egress, 'failureOf'>): TollgateError {
  if (isTollgateError(error)) {
    // The one that a body without a stated length ends with, while it goes to the seller.
    if (error.code !== 'payload_too_large' || x.settlement === null) return error
    return new TollgateError(error.code, `${error.message} ${chargeOf(x)}`, {
      cause: error,
      ...purchaseOf(x),
    })
  }
  if (error instanceof UpstreamBusy || error instanceof LeftUnasked) {
    // Charged: the seller was not asked, and is when the call is repeated.
    const what =
      x.settlement === null
        ? 'You were not charged.'
        : 'You were charged; repeat the same call with the same payment to have it answered.'
    return new TollgateError('upstream_busy', `${whyBusy(error)}. ${what}`, {
      retryAfterSeconds: 1,
      ...(x.purchase !== null && { extra: { purchaseId: x.purchase.id } }),
    })
  }
  if (error instanceof AnswerRefused) {
    x.upstreamOutcome = x.upstreamStatus >= 500 ? 'failed' : 'answered'
    return failed(x, error.message, error)
  }
  if (error instanceof BuyerLeft) {
    x.upstreamOutcome = 'buyer-left'
    const why =
      error instanceof BuyerLeft && error.message !== '' ? error.message : 'The call was broken off.'
    // Charged, it is the caller who ended what was bought: nobody owes a refund.
    const message = x.settlement === null ? `${why} You were not charged.` : why
    return new TollgateError('upstream_error', message, { cause: error, ...purchaseOf(x) })
  }
  const why = egress.failureOf(error)
  if (error instanceof AnswerTimeout || why === 'EGRESS_TIMEOUT') {
    x.upstreamOutcome = 'timeout'
    const message = `The seller's API did not answer in time. ${chargeOf(x)}`
    return new TollgateError('upstream_timeout', message, { cause: error, ...purchaseOf(x) })
  }
  if (why === 'EGRESS_BAD_REQUEST') {
    const message = `The request can't be forwarded in this form. ${chargeOf(x)}`
    return new TollgateError('bad_request', message, { cause: error, ...purchaseOf(x) })
  }
  x.upstreamOutcome = 'failed'
  if (why === 'EGRESS_LARGE_HEAD') return failed(x, headTooLarge, error)
  return failed(x, "The seller's API did not give a whole answer.", error)
}

function whyBusy(error: Error): string {
  if (error instanceof LeftUnasked) return 'The call was broken off'
  if (error instanceof OutOfMemory) return 'The gateway holds as many answers as it has memory for'
  return "The seller's API has as many calls under way as it may have"
}

const failed = (x: Exchange, message: string, cause: Error) =>
  new TollgateError('upstream_error', `${message} ${chargeOf(x)}`, { cause, ...purchaseOf(x) })

const chargeOf = ({ settlement }: Exchange) =>
  settlement === null ? 'You were not charged.' : 'You were charged; the seller owes you a refund.'

const purchaseOf = ({ purchase }: Exchange) =>
  purchase === null ? {} : { extra: { purchaseId: purchase.id }, retryable: false }

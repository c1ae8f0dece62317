import { TollgateError } from '../errors/error.ts'

/**
 * 503, never 402: a client that is told to pay again would pay twice. It carries all that is known, so that a buyer can
 * look the transfer up.
 *
 * @param what how it stands with the payment, in one sentence
 * @param transaction hash or signature; empty while nothing is known to be sent
 */
export const settlementPending = (
  what: string,
  purchaseId: string,
  transaction: string,
  retryAfterSeconds = 5,
): TollgateError =>
  new TollgateError(
    'settlement_pending',
    `${what} Repeat the same call with the same payment; do not pay again.`,
    {
      reason: 'settlement_pending',
      retryAfterSeconds,
      extra: { purchaseId, ...(transaction !== '' && { transaction }) },
      receipt: { transaction },
    },
  )

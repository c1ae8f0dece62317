import { formatAmount, parseAmount } from '../core/domain/money.ts'
import type { OfferTerms } from '../core/x402/offerTerms.ts'
import { USD_DECIMALS, worthInUsd } from '../core/x402/worthInUsd.ts'

const tenfold = 10n

export interface Price {
  /** What the payment is worth in USD, decimal string, rounded up. */
  readonly usd: string
  readonly isAboveCap: boolean
  readonly isWithinTenfold: boolean
}

/**
 * What an offer costs in USD, compared with the cap.
 *
 * @param capUsd decimal string   @throws {TollgateError} `VALIDATION_ERROR` when the cap is not a decimal number
 */
export function priceInUsd(terms: OfferTerms, capUsd: string): Price {
  const worth = worthInUsd(terms)
  const cap = parseAmount(capUsd, USD_DECIMALS)
  return {
    usd: formatAmount(worth, USD_DECIMALS, 2),
    isAboveCap: worth > cap,
    isWithinTenfold: worth <= cap * tenfold,
  }
}

import { formatAmount, parseAmount } from '../../core/domain/money.ts'
import type { OfferTerms } from '../../core/x402/offerTerms.ts'

/** USD are counted in 10^-18 here, so that no rate of an asset is rounded away. */
const USD_DECIMALS = 18
const TENFOLD = 10n

export interface Price {
  /** What the payment is worth in USD, decimal string, rounded up. */
  readonly usd: string
  readonly isAboveCap: boolean
  readonly isWithinTenfold: boolean
}

/**
 * What an offer costs in USD at the asset's fixed rate, compared with the cap; whole numbers all the way.
 *
 * @param capUsd decimal string   @throws {TollgateError} `VALIDATION_ERROR` when the cap is not a decimal number
 */
export function priceInUsd({ asset, amountAtomic }: OfferTerms, capUsd: string): Price {
  const unit = 10n ** BigInt(asset.decimals)
  const worth = (amountAtomic * parseAmount(asset.usdPerUnit, USD_DECIMALS) + unit - 1n) / unit
  const cap = parseAmount(capUsd, USD_DECIMALS)
  return {
    usd: formatAmount(worth, USD_DECIMALS, 2),
    isAboveCap: worth > cap,
    isWithinTenfold: worth <= cap * TENFOLD,
  }
}

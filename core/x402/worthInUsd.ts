import { parseAmount } from '../domain/money.ts'
import type { OfferTerms } from './offerTerms.ts'

/** USD are counted in 10^-18 here, so that no rate of an asset is rounded away. */
export const USD_DECIMALS = 18

/** What a payment is worth in 10^-18 USD at the asset's fixed rate, rounded up; whole numbers all the way. */
export function worthInUsd({ asset, amountAtomic }: Pick<OfferTerms, 'asset' | 'amountAtomic'>): bigint {
  const unit = 10n ** BigInt(asset.decimals)
  return (amountAtomic * parseAmount(asset.usdPerUnit, USD_DECIMALS) + unit - 1n) / unit
}

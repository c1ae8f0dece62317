import type { Asset } from '../domain/asset.ts'
import type { AtomicAmount } from '../domain/money.ts'

/** The terms of one offer, after the buyer's reader understood every one of them; strings are as the seller wrote them. */
export interface OfferTerms {
  readonly asset: Asset
  readonly amountAtomic: AtomicAmount
  readonly payTo: string
  readonly maxTimeoutSeconds: number
  readonly extra: Readonly<Record<string, unknown>>
}

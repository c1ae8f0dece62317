import type { Asset } from '../../core/domain/asset.ts'
import { payoutFor, type ServedLink } from '../../core/domain/link.ts'
import { convertPrice, parseAmount } from '../../core/domain/money.ts'
import type { Chains } from '../../core/plugin/ports.ts'
import type { Payee, Settler } from '../../core/ports/settler.ts'
import type { PaymentRequirements } from '../../core/x402/types.ts'

/** One way to pay for a link: what stands in the 402, and who settles it. */
export interface Offer {
  readonly terms: PaymentRequirements
  readonly asset: Asset
  readonly settler: Settler
  /** Whether the seller can receive the asset, where that can fail; undefined where it can't. */
  readonly payee: Payee | undefined
}

/**
 * The ways to pay for a link version: one per asset whose network has a settler and on which the seller has a wallet.
 * USDC comes first, because clients take the first entry of their chain family.
 */
export function offersOf(link: ServedLink, chains: Chains, maxTimeoutSeconds: number): readonly Offer[] {
  const priceAtomic = parseAmount(link.price, 6)
  return chains.assets
    .flatMap((asset) => {
      const settler = chains.settler(asset.network)
      const payTo = payoutFor(link.payout, asset.network)
      if (settler === undefined || payTo === null) return []
      const terms: PaymentRequirements = {
        scheme: settler.scheme,
        network: asset.network,
        amount: convertPrice(priceAtomic, asset.usdPerUnit, asset.decimals).toString(),
        asset: asset.address,
        payTo,
        maxTimeoutSeconds,
        extra: {
          ...(asset.eip712 && { name: asset.eip712.name, version: asset.eip712.version }),
          decimals: asset.decimals,
          ...settler.offerExtra,
        },
      }
      return [{ terms, asset, settler, payee: settler.payee?.(asset.address, payTo) }]
    })
    .sort((a, b) => Number(b.asset.symbol === 'USDC') - Number(a.asset.symbol === 'USDC'))
}

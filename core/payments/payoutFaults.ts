import { type Payout, payoutFor } from '../domain/link.ts'
import { formatAmount, parseAmount } from '../domain/money.ts'
import { networkTitle } from '../domain/network.ts'
import type { Chains } from '../ports/chains/chains.ts'
import type { Settler } from '../ports/chains/settler.ts'

/**
 * What keeps the wallets of a store from being paid, in words for its seller; empty when nothing does, and for what no
 * chain could say within half a second.
 */
export async function payoutFaults(chains: Chains, payout: Payout): Promise<string[]> {
  const faults = await Promise.all(
    chains.assets.map(async (asset) => {
      const payTo = payoutFor(payout, asset.network)
      const payee = payTo === null ? undefined : chains.settler(asset.network)?.payee?.(asset.address, payTo)
      await payee?.look()
      return payee?.fault ?? []
    }),
  )
  return faults.flat()
}

/** Networks on which a link of this price is not offered, in words for its seller; empty when there is none. */
export function priceFaults(chains: Chains, payout: Payout, price: string): string[] {
  const networks = new Set(
    chains.assets.map(({ network }) => network).filter((network) => payoutFor(payout, network) !== null),
  )
  return [...networks].flatMap((network) => priceFault(chains.settler(network), price) ?? [])
}

/** Why a settler does not settle links of this price; undefined when it does. */
export function priceFault(settler: Settler | undefined, price: string): string | undefined {
  const least = settler?.minPriceAtomic ?? 0n
  if (settler === undefined || parseAmount(price, 6) >= least) return undefined
  return `A price of ${price} is below ${formatAmount(least, 6)}, the lowest that is settled on ${networkTitle(settler.network)}: the link is not offered there.`
}

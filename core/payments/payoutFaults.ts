import { type Payout, payoutFor } from '../domain/link.ts'
import type { Chains } from '../plugin/ports.ts'

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
